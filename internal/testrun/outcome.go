package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// A name is that of a test, with its package's folder.
type name struct{ pkg, test string }

func (n name) String() string {
	if n.test == "" {
		return n.pkg
	}
	return n.pkg + " " + n.test
}

// top is the test without its subtests.
func (n name) top() name {
	test, _, _ := strings.Cut(n.test, "/")
	return name{n.pkg, test}
}

// An outcome is what became of the tests of all stages, as their events tell.
type outcome struct {
	screen, file io.Writer // in short, and all of it
	reports      reports
	broken       []name // tests without a broken subtest, and packages without a broken test
	skipped      []name
	passed       int

	void int // tests that are tried again
	last []verdict

	// Of this stage:
	texts    []text // of what is broken, or void
	began    map[name]time.Time
	failures []failure
	spells   map[string][]stretch // in which something was wrong with a package's environment
	clean    map[string]bool      // packages that failed, and ended by themselves

	// missed are the tests that some program has, and that no stage has begun so far.
	missed map[name]bool

	said  map[name]*strings.Builder // by tests that run
	quick []string                  // packages of this stage that took no time
}

// A text is what a test has said that is broken, or void.
type text struct {
	of   name
	said string
}

// A verdict is what go test said of a package in the end.
type verdict struct{ pkg, line string }

// brief is how long a package takes at most that does not get a line of its own.
const brief = 10 * time.Second

// screenful is how many lines of a broken test are shown. All are in the file.
const screenful = 60

func (o *outcome) take(e event) {
	o.reports.take(e)
	of := name{e.folder(), e.Test}
	if e.Action == "run" {
		put(&o.began, of, e.Time)
	}
	if s, ok := announced(e.Output); ok {
		put(&o.spells, of.pkg, append(o.spells[of.pkg], s))
	}
	if e.Test == "" && e.Output == "exit status 1\n" {
		put(&o.clean, of.pkg, true)
	}
	switch {
	case e.Action == "build-output":
		fmt.Fprint(o.file, e.Output)
		o.show(e.Output)
	case e.Action == "run" && !strings.Contains(e.Test, "/"):
		o.miss(of, false)
	case e.Action == "output" && e.Test == "":
		if tests, ok := strings.CutPrefix(e.Output, listPrefix); ok {
			for _, t := range strings.Fields(tests) {
				o.miss(name{of.pkg, t}, true)
			}
			return
		}
		if strings.HasPrefix(e.Output, "ok  \t") || strings.HasPrefix(e.Output, "FAIL\t") {
			o.last = append(o.last, verdict{of.pkg, e.Output})
		}
		fmt.Fprint(o.file, e.Output)
		if e.Package == "" {
			fmt.Fprint(o.screen, e.Output)
		}
	case e.Action == "output":
		if !strings.HasPrefix(e.Output, "=== ") { // RUN, PAUSE, CONT, NAME
			o.hear(of, e.Output)
		}
	case e.Test == "" && (e.Action == "pass" || e.Action == "fail"):
		o.endOfPackage(of, e)
	case e.Action == "pass":
		o.passed++
		delete(o.said, of)
	case e.Action == "skip" && e.Test != "":
		o.skipped = append(o.skipped, of)
		o.tell(of)
	case e.Action == "fail":
		o.breaks(of)
		o.tell(of)
		o.failures = append(o.failures, failure{of, stretch{o.began[of], e.Time, ""}})
	}
}

// miss notes a test that a program has, or that has begun, which comes first and is not
// forgotten.
func (o *outcome) miss(test name, listed bool) {
	if was, ok := o.missed[test]; !ok || was {
		put(&o.missed, test, listed)
	}
}

func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[key] = value
}

func (o *outcome) hear(of name, said string) {
	if o.said[of] == nil {
		put(&o.said, of, new(strings.Builder))
	}
	o.said[of].WriteString(said)
}

// breaks notes a broken test, unless one of its subtests is noted already.
func (o *outcome) breaks(of name) {
	if !slices.ContainsFunc(o.broken, func(b name) bool {
		return b.pkg == of.pkg && (of.test == "" || strings.HasPrefix(b.test, of.test+"/"))
	}) {
		o.broken = append(o.broken, of)
	}
}

// tell puts what a test has said into the file, and keeps it for the screen: until the stage
// is over the test may turn out to be void.
func (o *outcome) tell(of name) {
	said := o.said[of]
	delete(o.said, of)
	if said != nil {
		fmt.Fprint(o.file, said.String())
		o.texts = append(o.texts, text{of, said.String()})
	}
}

// show shows the first lines of a text. All are in the file.
func (o *outcome) show(text string) {
	if lines := strings.SplitAfter(text, "\n"); len(lines) > screenful {
		text = strings.Join(lines[:screenful], "") + "    …\n"
	}
	fmt.Fprint(o.screen, text)
}

// endOfPackage prints a line for a package that took its time or is broken.
func (o *outcome) endOfPackage(of name, e event) {
	took := time.Duration(e.Elapsed * float64(time.Second)).Round(time.Second)
	switch {
	case e.Action == "fail":
		// A test that was running when the package was ended by force has no end.
		for t := range o.said {
			if t.pkg == of.pkg {
				o.breaks(t)
				o.tell(t)
			}
		}
		o.breaks(of)
		fmt.Fprintf(o.screen, "      FAILED %s, %v\n", of, took)
	case took >= brief:
		fmt.Fprintf(o.screen, "      %s, %v\n", of, took)
	default:
		o.quick = append(o.quick, of.pkg)
	}
}

// endOfStage prints the packages that had no line of their own.
func (o *outcome) endOfStage() {
	slices.Sort(o.quick)
	const width = 110
	for line := "      "; len(o.quick) > 0 || line != "      "; {
		if len(o.quick) == 0 || len(line)+len(o.quick[0]) > width {
			fmt.Fprintln(o.screen, strings.TrimSuffix(line, ", "))
			line = "      "
		}
		if len(o.quick) > 0 {
			line += o.quick[0] + ", "
			o.quick = o.quick[1:]
		}
	}
}

// complete notes as broken the tests that no stage has tried, and the combinations. It is
// for runs of all tiers.
func (o *outcome) complete() {
	for test, missed := range o.missed {
		if missed {
			o.broken = append(o.broken, name{test.pkg, test.test + ": no stage of plan.go tries it"})
		}
	}
	services, strategies := columns(o.reports.elections())
	for _, service := range services {
		for _, strategy := range strategies {
			if find(o.reports.elections(), strategy, service) == nil {
				o.broken = append(o.broken, name{"conformance", strategy + " on " + service + ": no stage of plan.go tries it"})
			}
		}
	}
}

// end prints what became of all: broken ones first, so that the last screen begins with
// them.
func (o *outcome) end(took time.Duration, turn int) {
	fmt.Fprintln(o.screen)
	for i, b := range o.broken {
		if i == 0 {
			fmt.Fprintf(o.screen, "BROKEN: %d\n", len(o.broken))
		}
		fmt.Fprintf(o.screen, "  %s\n", strings.Replace(b.String(), "/rules/", ": rule ", 1))
	}
	summary(o.screen, o.reports.elections())
	fmt.Fprintf(o.screen, "\n%d tests passed, %d broken, %d skipped; void: %d attempts at rules, %d other tests; turn %d, %v.\n",
		o.passed, len(o.broken), len(o.skipped), o.reports.void(), o.void, turn, took.Round(time.Second))
	for pkg, tests := range grouped(o.skipped) {
		fmt.Fprintf(o.screen, "skipped in %s: %s\n", pkg, strings.Join(tests, ", "))
	}
	fmt.Fprintf(o.screen, "%[1]s/matrix.txt: every rule and the reasons for those not applicable. %[1]s/output.txt: all that go test said. make test-times: where the time went.\n", folder)
}

// grouped sorts tests by their packages.
func grouped(all []name) func(func(string, []string) bool) {
	by := make(map[string][]string)
	for _, n := range all {
		by[n.pkg] = append(by[n.pkg], n.test)
	}
	return func(yield func(string, []string) bool) {
		for _, pkg := range slices.Sorted(maps.Keys(by)) {
			if !yield(pkg, by[pkg]) {
				return
			}
		}
	}
}
