package main

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
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

func compareNames(x, y name) int { return strings.Compare(x.String(), y.String()) }

// top is the test without its subtests.
func (n name) top() name {
	test, _, _ := strings.Cut(n.test, "/")
	return name{n.pkg, test}
}

// An outcome is what became of the tests of all stages, as their events tell.
type outcome struct {
	screen, file io.Writer // in short, and all of it
	reports      reports
	broken       []name          // tests without a broken subtest, and packages without a broken test
	reasons      map[name]string // of broken tests, a line each
	skipped      []name
	passed       int

	leftOut []stage // for lack of time

	void int // tests that are tried again
	last []verdict

	runs    int // calls of go test
	ofStage     // the last one

	// missed are the tests that some program has, and that no stage has begun so far.
	missed map[name]bool

	said map[name]*strings.Builder // by tests that run, and by packages outside of their tests
}

// ofStage is what is known of a single stage.
type ofStage struct {
	stage    stage
	texts    []text               // of what is broken, or void
	began    map[name]time.Time   // tests
	running  map[name]bool        // tests
	tried    map[string]bool      // combinations of which a rule has begun
	programs map[string]*program  // of packages
	spells   map[string][]stretch // in which something was wrong with a package's environment
	failures []failure
	quick    []string // packages that took no time
}

// begin forgets the stage before.
func (o *outcome) begin(s stage) {
	o.runs++
	o.ofStage = ofStage{stage: s}
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

// The first and the last lines of what is broken are shown: a panic is among the last ones. All
// are in the file.
const (
	firstLines = 40
	lastLines  = 20
)

// mostBroken is how many names of what is broken are shown in the end.
const mostBroken = 20

// verdicts are what go test itself says of a package in its end.
var verdicts = regexp.MustCompile(`^(PASS|FAIL|exit status \d+|(ok  |FAIL)\t.*)\n$`)

func (o *outcome) take(e event) {
	o.reports.take(e)
	of := name{e.folder(), e.Test}
	if s, ok := announced(e.Output); ok {
		put(&o.spells, of.pkg, append(o.spells[of.pkg], s))
	}
	switch {
	case e.Action == "build-output":
		fmt.Fprint(o.file, e.Output)
		fmt.Fprint(o.screen, shortened(e.Output))
	case e.Action == "run":
		put(&o.began, of, e.Time)
		put(&o.running, of, true)
		if combination, _, ok := strings.Cut(e.Test, "/rules/"); ok {
			put(&o.tried, combination, true)
		} else if !strings.Contains(e.Test, "/") {
			o.miss(of, false)
		}
	case e.Action == programEnds:
		o.endOfProgram(of.pkg, e.Program)
	case e.Action == "output" && e.Test == "":
		fmt.Fprint(o.file, e.Output)
		switch {
		case e.Package == "":
			fmt.Fprint(o.screen, e.Output)
		case !verdicts.MatchString(e.Output):
			o.hear(of, e.Output)
		case strings.Contains(e.Output, "\t"):
			o.last = append(o.last, verdict{of.pkg, e.Output})
		}
	case e.Action == "output":
		if !strings.HasPrefix(e.Output, "=== ") { // RUN, PAUSE, CONT, NAME
			o.hear(of, e.Output)
		}
	case e.Action != "pass" && e.Action != "skip" && e.Action != "fail":
	case e.Test == "":
		o.endOfPackage(of, e)
	default:
		delete(o.running, of)
		o.endOfTest(of, e)
	}
}

func (o *outcome) endOfTest(of name, e event) {
	switch e.Action {
	case "pass":
		o.passed++
		delete(o.said, of)
	case "skip":
		o.skipped = append(o.skipped, of)
		o.tell(of)
	case "fail":
		o.breaks(of)
		o.tell(of)
		o.failures = append(o.failures, failure{of, stretch{o.began[of], e.Time, ""}})
	}
}

// endOfProgram looks for tests that the program has, and that the stage picks, and that did not
// begin: it has ended too early, or its TestMain has not run them.
func (o *outcome) endOfProgram(pkg string, p *program) {
	put(&o.programs, pkg, p)
	var untried []string
	for _, t := range p.Tests {
		o.miss(name{pkg, t}, true)
		if _, began := o.began[name{pkg, t}]; !began && o.stage.picks(t) {
			untried = append(untried, t)
		}
	}
	const named = 3
	if more := len(untried) - named; more > 0 {
		untried = append(untried[:named], fmt.Sprintf("%d more", more))
	}
	if len(untried) > 0 {
		o.broken = append(o.broken, name{pkg, strings.Join(untried, ", ") + ": picked, and did not begin"})
	}
}

// missesCombinations notes as broken those that the stage was to try, and of which no rule began.
func (o *outcome) missesCombinations() {
	for _, c := range o.stage.combinations {
		if !o.tried[c.String()] {
			o.broken = append(o.broken, name{"conformance", c.String() + ": planned, and no rule of it began"})
		}
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
		put(&o.reasons, of, reason(said.String()))
	}
}

// seen is what a rule of the conformance suite says that it saw, failed what testify says, and
// complaint what any test says.
var (
	failed    = regexp.MustCompile(`(?m)^\s*Error:\s+(\S.*)$`)
	seen      = regexp.MustCompile(`(?m)^\s*(saw: .*)$`)
	complaint = regexp.MustCompile(`(?m)^\s*(\S+\.go:\d+: .*)$`)
)

// reason is the line of what a broken test has said that tells most.
func reason(said string) string {
	for _, tells := range []*regexp.Regexp{seen, failed, complaint} {
		if found := tells.FindStringSubmatch(said); found != nil {
			return found[1]
		}
	}
	return ""
}

// shortened leaves the first lines of a text, and the last ones.
func shortened(text string) string {
	lines := slices.Collect(strings.Lines(text))
	if len(lines) <= firstLines+lastLines {
		return text
	}
	return strings.Join(lines[:firstLines], "") + "    …\n" + strings.Join(lines[len(lines)-lastLines:], "")
}

// endOfPackage prints a line for a package that took its time or is broken.
func (o *outcome) endOfPackage(of name, e event) {
	took := time.Duration(e.Elapsed * float64(time.Second)).Round(time.Second)
	// A test that was running when the program was ended by force has no end. Subtests come first.
	for _, t := range slices.Backward(slices.SortedFunc(maps.Keys(o.running), compareNames)) {
		if t.pkg == of.pkg {
			o.breaks(t)
			o.tell(t)
			delete(o.running, t)
		}
	}
	if said := o.said[of]; e.Action == "fail" && said != nil {
		o.texts = append(o.texts, text{of, said.String()}) // the file has it
	}
	delete(o.said, of)
	switch {
	case e.Action == "fail":
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

// complete notes as broken the tests that no stage has tried or was to try, and the combinations.
// It is for runs of all tiers.
func (o *outcome) complete() {
	for test, missed := range o.missed {
		if missed && !slices.ContainsFunc(o.leftOut, func(s stage) bool { return slices.Contains(s.packages, test.pkg) && s.picks(test.test) }) {
			o.broken = append(o.broken, name{test.pkg, test.test + ": no stage of plan.go tries it"})
		}
	}
	services, strategies := columns(o.reports.elections())
	for _, service := range services {
		for _, strategy := range strategies {
			if find(o.reports.elections(), strategy, service) == nil && len(o.leftOut) == 0 {
				o.broken = append(o.broken, name{"conformance", strategy + " on " + service + ": no stage of plan.go tries it"})
			}
		}
	}
}

// end prints what became of all: broken ones first, so that the last screen begins with
// them.
func (o *outcome) end(took time.Duration, turn int) {
	fmt.Fprintln(o.screen)
	var broken []string
	for _, b := range o.broken {
		broken = append(broken, fmt.Sprintf("  %s\n", strings.Replace(b.String(), "/rules/", ": rule ", 1)))
		if why := o.reasons[b]; why != "" {
			broken[len(broken)-1] += "    " + why + "\n"
		}
	}
	if n := len(broken); n > 0 {
		fmt.Fprintf(o.file, "\nBROKEN: %d\n%s", n, strings.Join(broken, ""))
		if n > mostBroken {
			broken = append(broken[:mostBroken], fmt.Sprintf("  … and %d more in %s\n", n-mostBroken, filepath.Join(folder, outputFile)))
		}
		fmt.Fprintf(o.screen, "BROKEN: %d\n%s", n, strings.Join(broken, ""))
	}
	summary(o.screen, o.reports.elections())
	fmt.Fprintf(o.screen, "\n%d tests passed, %d broken, %d skipped; void: %d attempts at rules, %d other tests; TURN=%d, %v.\n",
		o.passed, len(o.broken), len(o.skipped), o.reports.void(), o.void, turn%turns, took.Round(time.Second))
	for _, s := range o.leftOut {
		fmt.Fprintf(o.screen, "left out for lack of time: %s\n", s.name)
	}
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
