// Package page draws a report as one self-contained HTML page, and as pictures.
package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageStyle string
	// chartStyle has the colours, light and dark, and is also part of a picture that stands alone.
	//go:embed chart.css
	chartStyle string

	layout = template.Must(template.New("page").Funcs(template.FuncMap{
		"inc":   func(i int) int { return i + 1 },
		"words": strings.Fields, // a line may end after each
	}).Parse(pageHTML))
)

// A view is a report, and how its strategies are drawn. It is the template's data: what is not of a template
// type is escaped.
type view struct {
	report.Report
	order []string // of the strategies
	looks map[string]look
}

// Write writes the report as one HTML page, with style and pictures inside. It has sections for what the
// report has, and a sentence for what it lacks.
func Write(w io.Writer, r report.Report) error {
	if err := layout.Execute(w, newView(r)); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}

// Charts returns the pictures of the page, each as an SVG file by its name, such as "cost-zk.svg".
// Each is light or dark, as the reader's browser prefers.
func Charts(r report.Report) map[string][]byte {
	files := make(map[string][]byte)
	for _, s := range newView(r).Sections() {
		for _, p := range s.Parts {
			if len(p.Picture.panels) > 0 {
				files[p.Picture.name+".svg"] = p.Picture.alone()
			}
		}
	}
	return files
}

// Style is the page's style sheet.
func (v view) Style() template.CSS { return template.CSS(chartStyle + pageStyle) }

// Summary says in a sentence what was compared.
func (v view) Summary() string {
	measured := newView(report.Report{Runs: slices.DeleteFunc(slices.Clone(v.Runs), report.Run.Empty)})
	switch {
	case len(v.Runs) == 0:
		return "Nothing was compared: the report has no runs."
	case len(measured.Runs) == 0:
		return "Nothing was measured: every run failed."
	}
	var names []string
	for _, s := range measured.services() {
		names = append(names, s.name)
	}
	ns := sizes(measured.Runs)
	return fmt.Sprintf("How a cluster gets its next leader: %s with %s, measured on %s.",
		list(measured.order), extent(ns[0], ns[len(ns)-1], "candidate"), list(names))
}

// A fact is one line about how the report was made.
type fact struct{ Name, Text string }

// Facts say how the figures were made, as far as the report knows.
func (v view) Facts() (all []fact) {
	add := func(name, text string, known bool) {
		if known {
			all = append(all, fact{name, text})
		}
	}
	var machine []string
	if v.Machine.CPUs > 0 {
		machine = append(machine, plural(v.Machine.CPUs, "processor"))
	}
	for _, what := range []string{strings.Trim(v.Machine.OS+"/"+v.Machine.Arch, "/"), v.Machine.Go} {
		if what != "" {
			machine = append(machine, what)
		}
	}
	add("Machine", strings.Join(machine, ", "), len(machine) > 0)
	m := v.Method
	changes := plural(m.Changes, "leader change") + " in each run"
	if m.Crashes > 0 {
		changes += fmt.Sprintf(", %s by a crash, the others by a resignation", count(float64(m.Crashes)))
	}
	add("Method", changes, m.Changes > 0)
	churn := count(m.Churn) + " candidates leave and as many join per leader change"
	if m.Churn <= 1 {
		churn = "one candidate leaves and another joins at " + percent(m.Churn) + " of the leader changes"
	}
	add("Churn", churn, m.Churn > 0)
	add("Round trip", span(float64(m.Delay))+", simulated, to the embedded service", m.Delay > 0)
	add("Session timeout", span(float64(m.TTL)), m.TTL > 0)
	add("Seed", fmt.Sprint(m.Seed), m.Command != "")
	return all
}

// Truncated lists the incomplete runs, and why.
func (v view) Truncated() (all []string) {
	for _, run := range v.Runs {
		if run.Truncated != "" {
			all = append(all, fmt.Sprintf("%s, %s, N"+nbsp+"= %s: %s", run.Service, run.Strategy, count(float64(run.N)), run.Ended(v.Method.Changes)))
		}
	}
	return all
}
