package main

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A test that failed while its environment did is void, and no other is.
func TestVoid(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0).UTC() }
	spell := func(from, to int) event {
		return event{Action: "output", Package: "p", Output: "environment: " + at(from).Format(time.RFC3339Nano) + " " + at(to).Format(time.RFC3339Nano) + " it stood still\n"}
	}
	failed := func(test string, from, to int) []event {
		return []event{{Action: "run", Package: "p", Test: test, Time: at(from)}, {Action: "fail", Package: "p", Test: test, Time: at(to)}}
	}
	end := func(p program) []event {
		return []event{{Action: programEnds, Package: "p", Program: &p}, {Action: "fail", Package: "p"}}
	}
	for about, c := range map[string]struct {
		events       []event
		void, broken []name
	}{
		"within a spell":                {append(failed("TestX", 1, 5), spell(2, 3)), []name{{"p", "TestX"}}, nil},
		"before it":                     {append(failed("TestX", 1, 2), spell(2, 3)), nil, []name{{"p", "TestX"}}},
		"of another":                    {append(failed("TestX", 1, 5), event{Action: "output", Package: "q", Output: spell(2, 3).Output}), nil, []name{{"p", "TestX"}}},
		"with a subtest":                {append(append(failed("TestX/sub", 2, 3), failed("TestX", 1, 5)...), spell(4, 5)), []name{{"p", "TestX"}}, nil},
		"with a rule":                   {append(append(failed("TestX/rules/a/b", 2, 3), failed("TestX", 1, 5)...), spell(2, 3)), nil, []name{{"p", "TestX/rules/a/b"}}},
		"beside a sound":                {append(append(failed("TestX", 1, 2), failed("TestY", 3, 5)...), spell(1, 2)), []name{{"p", "TestX"}}, []name{{"p", "TestY"}}},
		"beside one that did not begin": {append(failed("TestX", 1, 5), spell(2, 3)), []name{{"p", "TestX"}}, []name{{"p", "TestY: picked, and did not begin"}}},
		"ended by a panic":              {append(failed("TestX", 1, 5), spell(2, 3)), nil, []name{{"p", "TestX"}}},
	} {
		o := outcome{screen: io.Discard, file: io.Discard}
		for _, e := range c.events {
			o.take(e)
		}
		p := program{Exit: 1}
		switch about {
		case "ended by a panic":
			p.Exit = 2
		case "beside one that did not begin":
			p.Tests = []string{"TestX", "TestY"}
		}
		for _, e := range end(p) {
			o.take(e)
		}
		var void []name
		for test, why := range o.takeVoid() {
			assert.Equal(t, "it stood still", why, about)
			void = append(void, test)
		}
		assert.Equal(t, c.void, void, about)
		if assert.Len(t, o.broken, len(c.broken), about) && len(c.broken) > 0 {
			assert.Equal(t, c.broken, o.broken, about)
		}
	}
}
