package main

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// stream makes the events of a test that prints these lines.
func stream(name, outcome string, lines ...string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	for _, l := range lines {
		enc.Encode(event{Action: "output", Package: "p", Test: name, Output: l + "\n"})
	}
	enc.Encode(event{Action: outcome, Package: "p", Test: name})
	return b.String()
}

func show(t *testing.T, events string) (printed, tables string) {
	t.Helper()
	var out, matrix strings.Builder
	o := outcome{screen: &out, file: io.Discard}
	if err := each(strings.NewReader(events), o.take); err != nil {
		t.Fatal(err)
	}
	o.takeVoid()
	o.reports.print(&matrix)
	return out.String(), matrix.String()
}

func TestTables(t *testing.T) {
	log := "    suite.go:99: "
	printed, tables := show(t,
		stream("TestElectionOnX/fair", "pass", log+"fair on x: 2 rules passed, 0 failed, 1 not applicable, 0 void attempts",
			"          a/one   passed", "          a/two   passed", "          a/three not applicable: no such thing")+
			stream("TestElectionOnX/unfair", "fail", log+"unfair on x: 1 rules passed, 1 failed, 0 not applicable, 4 void attempts",
				"          a/one   passed (1 void attempt: the server (x) stood still)",
				"          a/two   FAILED (3 void attempts: it: stood still; it did; it did)", "    other.go:1: a/three passed")+
			stream("TestConformance", "pass", log+"y, ensemble of 3: 1 rules passed, 0 failed, 0 not applicable, 0 void attempts", "          b/one passed")+
			stream("TestMutants", "pass", log+"fair on z: 1 rules passed, 0 failed, 0 not applicable, 0 void attempts", "          a/one passed"))
	for _, row := range []string{"a/one fu", "a/two f!", "a/three ·?", "b/one +", "- no such thing: a/three on fair on x", "- 4 of unfair on x", "| x | 2, 1 n/a | 1, 4 void, **1 BROKEN** |"} {
		if !strings.Contains(strings.Join(strings.Fields(tables), " "), row) {
			t.Errorf("no row %q in\n%s", row, tables)
		}
	}
	if strings.Contains(tables, " z") {
		t.Errorf("a test of mutants is in the table:\n%s", tables)
	}
	if !strings.Contains(printed, "a/two   FAILED") || strings.Contains(printed, "fair on x: 2") {
		t.Errorf("printed is not what the failed test said, and that alone:\n%s", printed)
	}
}

func TestPrintsWhatIsNoEvent(t *testing.T) {
	printed, tables := show(t, "go: no such flag\n"+
		`{"Action":"build-output","ImportPath":"p","Output":"p.go:1: bad\n"}`+"\n"+
		`{"Action":"run","Package":"p","Test":"TestHangs"}`+"\n"+
		`{"Action":"output","Package":"p","Test":"TestHangs","Output":"    was here\n"}`+"\n"+
		`{"Action":"output","Package":"p","Output":"FAIL\tp\t1s\n"}`+"\n"+
		`{"Action":"fail","Package":"p"}`+"\n")
	for _, want := range []string{"go: no such flag\n", "p.go:1: bad\n", "    was here\n", "FAILED p"} {
		if !strings.Contains(printed, want) {
			t.Errorf("%q is not in what was printed:\n%s", want, printed)
		}
	}
	if tables != "" {
		t.Errorf("tables of nothing:\n%s", tables)
	}
}

// A red run does not look green.
func TestBroken(t *testing.T) {
	run := func(test string) event { return event{Action: "run", Package: "p", Test: test} }
	pass := func(test string) event { return event{Action: "pass", Package: "p", Test: test} }
	says := func(text string) event { return event{Action: "output", Package: "p", Output: text + "\n"} }
	ends := func(code int, tests ...string) event {
		return event{Action: programEnds, Package: "p", Program: &program{Tests: tests, Exit: code}}
	}
	x := combination{onServers, "etcd", "fair"}
	rule := x.String() + "/rules/a/b"
	for about, c := range map[string]struct {
		stage  stage
		events []event
		broken []string
		shown  string
	}{
		"all began": {events: []event{run("TestA"), pass("TestA"), ends(0, "TestA"), pass("")}},
		"one did not begin": {
			events: []event{run("TestA"), pass("TestA"), ends(0, "TestA", "TestB"), pass("")},
			broken: []string{"p TestB: picked, and did not begin"},
		},
		"many did not begin": {
			events: []event{ends(0, "TestA", "TestB", "TestC", "TestD", "TestE"), pass("")},
			broken: []string{"p TestA, TestB, TestC, 2 more: picked, and did not begin"},
		},
		"not picked":    {stage: stage{run: "^TestA$"}, events: []event{run("TestA"), pass("TestA"), ends(0, "TestA", "TestB"), pass("")}},
		"skipped":       {stage: stage{skip: "^Test(B|C)$"}, events: []event{run("TestA"), pass("TestA"), ends(0, "TestA", "TestB"), pass("")}},
		"did not end":   {events: []event{run("TestA"), ends(0, "TestA"), pass("")}, broken: []string{"p TestA"}},
		"subtest is on": {events: []event{run("TestA"), run("TestA/b"), ends(2, "TestA"), {Action: "fail", Package: "p"}}, broken: []string{"p TestA/b"}},
		"TestMain fails": {
			events: []event{run("TestA"), pass("TestA"), says("no server"), says("exit status 1"), ends(1, "TestA"), {Action: "fail", Package: "p"}},
			broken: []string{"p"}, shown: "no server\n",
		},
		"a combination":      {stage: stage{combinations: []combination{x}}, events: []event{run(onServers), run(rule), pass(rule), pass(onServers), ends(0, onServers, "TestB"), pass("")}},
		"without a rule":     {stage: stage{combinations: []combination{x}}, events: []event{run(onServers), pass(onServers), ends(0, onServers), pass("")}, broken: []string{"conformance TestElectionOnServers/etcd/fair: planned, and no rule of it began"}},
		"build has not gone": {stage: stage{combinations: []combination{x}}, events: []event{{Action: "fail", Package: "p"}}, broken: []string{"p", "conformance TestElectionOnServers/etcd/fair: planned, and no rule of it began"}},
	} {
		var screen strings.Builder
		o := outcome{screen: &screen, file: io.Discard}
		o.begin(c.stage)
		for _, e := range c.events {
			o.take(e)
		}
		o.missesCombinations()
		assert.Empty(t, o.takeVoid(), about)
		var broken []string
		for _, b := range o.broken {
			broken = append(broken, b.String())
		}
		assert.Equal(t, c.broken, broken, about)
		assert.Contains(t, screen.String(), c.shown, about)
		assert.NotContains(t, screen.String(), "exit status", about)
	}
}

// The first lines of a long text are shown, and the last ones; and the first names of many.
func TestShort(t *testing.T) {
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	short := shortened(text.String())
	for _, want := range []string{"line 0\n", "line 39\n    …\nline 80\n", "line 99\n"} {
		assert.Contains(t, short, want)
	}
	assert.NotContains(t, short, "line 40\n")

	var screen, file strings.Builder
	o := outcome{screen: &screen, file: &file}
	for i := range 30 {
		o.broken = append(o.broken, name{"p", fmt.Sprint("Test", i)})
	}
	o.end(0, 0)
	assert.Contains(t, screen.String(), "Test19\n  … and 10 more in "+filepath.Join(folder, outputFile))
	assert.NotContains(t, screen.String(), "Test20")
	assert.Contains(t, file.String(), "Test29")
}

// Of two reports on a combination the worse result of each rule counts.
func TestWorseCounts(t *testing.T) {
	x := &report{"fair", "etcd", map[string]result{"a": {outcome: passed, void: 1}, "b": {outcome: passed}, "c": {outcome: "FAILED"}}}
	y := &report{"fair", "etcd", map[string]result{"a": {outcome: passed}, "b": {outcome: "FAILED"}, "d": {outcome: passed}}}
	for _, all := range [][]*report{{x, y}, {y, x}} {
		assert.Equal(t, map[string]result{"a": {outcome: passed, void: 1}, "b": {outcome: "FAILED"}, "c": {outcome: "FAILED"}, "d": {outcome: passed}},
			find(all, "fair", "etcd").results)
	}
	assert.Nil(t, find([]*report{x}, "fair", "consul"))
	assert.Equal(t, passed, x.results["b"].outcome, "the report itself is left alone")
}

// What is broken is listed in the end with the line that tells why.
func TestReason(t *testing.T) {
	for said, want := range map[string]string{
		"    server.go:139: rule server/restart is broken on x\n        \trule: one leads\n        \tsaw:  two lead\n\n  1s c1: start\n":          "saw:  two lead",
		"2026/11/25 connected\n    a_test.go:12: no answer\n    a_test.go:13: again\n":                                                            "a_test.go:12: no answer",
		"    a_test.go:9: well\n    a_test.go:12: \n        \tError Trace:\t/a_test.go:12\n        \tError:      \tShould be zero, but was 141\n": "Should be zero, but was 141",
		"panic: x\n": "",
	} {
		assert.Equal(t, want, reason(said))
	}
	var screen strings.Builder
	o := outcome{screen: &screen, file: io.Discard}
	for _, e := range []event{{Action: "run"}, {Action: "output", Output: "    a_test.go:12: no answer\n"}, {Action: "fail"}} {
		e.Package, e.Test = "p", "TestA"
		o.take(e)
	}
	o.end(0, 0)
	assert.Contains(t, screen.String(), "BROKEN: 1\n  p TestA\n    a_test.go:12: no answer\n")
}
