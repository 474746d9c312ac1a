package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector/internal/attempt"
)

// A test of a backend that failed while its environment did is void, as an attempt at a rule
// is: package attempt has the reasons. It is tried again by itself, when its stage is over.
// Rules have attempts of their own, so what is broken of them is broken.

// A stretch of time, and what was wrong in it.
type stretch struct {
	from, to time.Time
	why      string
}

func (s stretch) overlaps(t stretch) bool { return s.from.Before(t.to) && t.from.Before(s.to) }

// A failure is a test that failed, and when it ran.
type failure struct {
	test name
	when stretch
}

// announced reads a line of attempt.Announce.
func announced(line string) (s stretch, ok bool) {
	text, ok := strings.CutPrefix(line, attempt.Announcement+" ")
	if !ok {
		return stretch{}, false
	}
	words := strings.SplitN(strings.TrimSuffix(text, "\n"), " ", 3)
	if len(words) != 3 {
		return stretch{}, false
	}
	from, err1 := time.Parse(time.RFC3339Nano, words[0])
	to, err2 := time.Parse(time.RFC3339Nano, words[1])
	return stretch{from, to, words[2]}, err1 == nil && err2 == nil
}

// takeVoid returns the tests, without their subtests, that are void in the stage that has
// ended, with the reasons, and forgets that they are broken.
func (o *outcome) takeVoid() map[name]string {
	rules := make(map[name]bool) // tests with broken ones
	for _, f := range o.failures {
		if strings.Contains(f.test.test, "/rules/") {
			rules[f.test.top()] = true
		}
	}
	void := make(map[name]string)
	for _, f := range o.failures {
		// Code 1 says that tests have failed. After a panic or a signal it is another one, and
		// the failure may have another cause.
		p := o.programs[f.test.pkg]
		if strings.Contains(f.test.test, "/") || rules[f.test] || p == nil || p.Exit != 1 {
			continue
		}
		for _, s := range o.spells[f.test.pkg] {
			if s.overlaps(f.when) {
				void[f.test] = s.why
			}
		}
	}
	o.broken = slices.DeleteFunc(o.broken, func(b name) bool { return void[b.top()] != "" })
	broken := func(pkg string) bool {
		return slices.ContainsFunc(o.broken, func(b name) bool { return b.pkg == pkg })
	}
	for _, t := range o.texts {
		if void[t.of.top()] == "" && (t.of.test != "" || broken(t.of.pkg)) {
			fmt.Fprint(o.screen, shortened(t.said))
		}
	}
	for i, v := range o.last {
		if strings.HasPrefix(v.line, "FAIL\t") && !broken(v.pkg) { // what failed of it is void
			o.last[i].line = "ok  \t" + strings.TrimPrefix(v.line, "FAIL\t")
		}
	}
	o.void += len(void)
	return void
}

// again is the stage that tries a test by itself.
func (s stage) again(test name) stage {
	s.name = fmt.Sprintf("%s again", test)
	s.packages = []string{strings.TrimPrefix(test.pkg, s.module+"/")}
	s.args, s.combinations, s.amid, s.run, s.skip = nil, nil, false, "^"+test.test+"$", ""
	s.parallel, s.programs = 0, 0
	return s
}
