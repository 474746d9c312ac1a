package main

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
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
