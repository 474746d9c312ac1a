package main

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// A report is what a suite has logged of all its rules on one combination.
type report struct {
	strategy string // "" for the suite of backends
	service  string
	results  map[string]result // by rule
}

type result struct {
	outcome, reason string
	void            int // attempts
}

const (
	passed        = "passed"
	notApplicable = "not applicable"
)

// The lines of conformance.Report as t.Log prints them.
var (
	head = regexp.MustCompile(`^\s+\S+\.go:\d+: (?:(\S+) on )?(.+): \d+ rules passed, \d+ failed, \d+ not applicable, \d+ void attempts$`)
	line = regexp.MustCompile(`^\s+(\S+/\S+)\s+(passed|FAILED|not applicable)(?: \((\d+) void attempts?: .*\))?(?:: (.*))?$`)
	ours = regexp.MustCompile(`^Test(ElectionOn|Conformance)`)
)

// reports are those taken so far.
type reports struct {
	all  []*report
	open map[name]*report
}

// take looks for a report in the output of a test.
func (r *reports) take(e event) {
	if e.Action != "output" || !ours.MatchString(e.Test) {
		return
	}
	of, text := name{e.Package, e.Test}, strings.TrimRight(e.Output, "\n")
	if m := head.FindStringSubmatch(text); m != nil {
		next := &report{strategy: m[1], service: m[2], results: make(map[string]result)}
		if r.open == nil {
			r.open = make(map[name]*report)
		}
		r.all, r.open[of] = append(r.all, next), next
		return
	}
	m := line.FindStringSubmatch(text)
	if m == nil || r.open[of] == nil {
		delete(r.open, of)
		return
	}
	void, _ := strconv.Atoi(m[3]) // "" is none
	r.open[of].results[m[1]] = result{m[2], m[4], void}
}

// print prints a table per suite, and the reasons why rules were left out.
func (r *reports) print(w io.Writer) {
	elections := r.elections()
	backends := slices.DeleteFunc(slices.Clone(r.all), func(p *report) bool { return p.strategy != "" })
	table(w, "Elections: every strategy on every service", elections)
	table(w, "Backends: the rules of the contract", backends)
	summary(w, elections)
}

func (r *reports) elections() []*report {
	return slices.DeleteFunc(slices.Clone(r.all), func(p *report) bool { return p.strategy == "" })
}

// void counts the attempts at rules that were void.
func (r *reports) void() int {
	n := 0
	for _, p := range r.all {
		n += p.void()
	}
	return n
}

func (p *report) void() int {
	n := 0
	for _, res := range p.results {
		n += res.void
	}
	return n
}

// table prints a row per rule and a column per service. A cell has a letter per
// strategy, in the order of their names.
func table(w io.Writer, title string, all []*report) {
	if len(all) == 0 {
		return
	}
	services, strategies := columns(all)
	legend := []string{"+ passed"}
	if strategies[0] != "" {
		legend = nil
		for _, s := range strategies {
			legend = append(legend, s[:1]+" "+s)
		}
	}
	fmt.Fprintf(w, "\n%s (%s, · not applicable, ! BROKEN, ? not tried)\n\n", title, strings.Join(legend, ", "))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "rule\t%s\n", strings.Join(services, "\t"))
	rules := make(map[string]bool)
	for _, p := range all {
		for rule := range p.results {
			rules[rule] = true
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		fmt.Fprint(t, rule)
		for _, service := range services {
			fmt.Fprint(t, "\t")
			for _, strategy := range strategies {
				fmt.Fprint(t, mark(find(all, strategy, service), rule))
			}
		}
		fmt.Fprintln(t)
	}
	t.Flush()
	reasons(w, all)
	voids(w, all)
}

func mark(p *report, rule string) string {
	if p == nil {
		return "?"
	}
	switch res, ok := p.results[rule]; {
	case !ok:
		return "?"
	case res.outcome == notApplicable:
		return "·"
	case res.outcome != passed:
		return "!"
	case p.strategy != "":
		return p.strategy[:1]
	}
	return "+"
}

// reasons prints why rules are not applicable: each reason with its rules, and where
// it was given if not on every combination.
func reasons(w io.Writer, all []*report) {
	type given struct{ rules, where map[string]bool }
	by := make(map[string]given)
	for _, p := range all {
		for rule, res := range p.results {
			if res.outcome != notApplicable {
				continue
			}
			if by[res.reason].rules == nil {
				by[res.reason] = given{make(map[string]bool), make(map[string]bool)}
			}
			by[res.reason].rules[rule] = true
			by[res.reason].where[p.name()] = true
		}
	}
	if len(by) > 0 {
		fmt.Fprintf(w, "\nnot applicable:\n")
	}
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		g := by[reason]
		fmt.Fprintf(w, "- %s: %s\n    on %s\n", reason, strings.Join(slices.Sorted(maps.Keys(g.rules)), ", "),
			strings.Join(slices.Sorted(maps.Keys(g.where)), "; "))
	}
}

// voids prints how many attempts were void on each combination that had some.
func voids(w io.Writer, all []*report) {
	heading := "\nvoid attempts, which failed while a control beside them did, too:\n"
	for _, p := range all {
		if n := p.void(); n > 0 {
			fmt.Fprintf(w, "%s- %d of %s\n", heading, n, p.name())
			heading = ""
		}
	}
}

func (p *report) name() string {
	if p.strategy == "" {
		return p.service
	}
	return p.strategy + " on " + p.service
}

// summary prints the combinations with their numbers, as the README shows them.
func summary(w io.Writer, all []*report) {
	if len(all) == 0 {
		return
	}
	services, strategies := columns(all)
	fmt.Fprintf(w, "\nrules passed, and not applicable:\n\n| | %s |\n|---|%s\n", strings.Join(strategies, " | "), strings.Repeat("---|", len(strategies)))
	for _, service := range services {
		fmt.Fprintf(w, "| %s |", service)
		for _, strategy := range strategies {
			fmt.Fprintf(w, " %s |", numbers(find(all, strategy, service)))
		}
		fmt.Fprintln(w)
	}
}

func numbers(p *report) string {
	if p == nil {
		return "not tried"
	}
	count := make(map[string]int)
	for _, res := range p.results {
		count[res.outcome]++
	}
	out := strconv.Itoa(count[passed])
	if n := count[notApplicable]; n > 0 {
		out += fmt.Sprintf(", %d n/a", n)
	}
	if n := p.void(); n > 0 {
		out += fmt.Sprintf(", %d void", n)
	}
	if broken := len(p.results) - count[passed] - count[notApplicable]; broken > 0 {
		out += fmt.Sprintf(", **%d BROKEN**", broken)
	}
	return out
}

// columns returns the services in the order in which their reports came, sorted by
// name, and the strategies.
func columns(all []*report) (services, strategies []string) {
	for _, p := range all {
		services, strategies = append(services, p.service), append(strategies, p.strategy)
	}
	slices.Sort(services)
	slices.Sort(strategies)
	return slices.Compact(services), slices.Compact(strategies)
}

// find returns the report of a combination, nil if there is none. Of several, with and without
// the race detector, the worse result counts for each rule.
func find(all []*report, strategy, service string) *report {
	var found *report
	for _, p := range all {
		if p.strategy != strategy || p.service != service {
			continue
		}
		if found == nil {
			found = &report{strategy, service, make(map[string]result)}
		}
		for rule, r := range p.results {
			was, ok := found.results[rule]
			if ok && was.badness() > r.badness() {
				r, was = was, r
			}
			r.void += was.void
			found.results[rule] = r
		}
	}
	return found
}

// badness orders results: what is broken is worse than what was not tried.
func (r result) badness() int {
	switch r.outcome {
	case passed:
		return 0
	case notApplicable:
		return 1
	}
	return 2
}
