// Package page draws a report as one self-contained HTML page, and as pictures.
package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

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

// content is the template's data. Fields that are not of a template type are escaped.
type content struct {
	Style     template.CSS
	Verdict   string
	Summary   string
	Facts     []fact
	Truncated []string
	Sections  []section
	Made      time.Time
}

// A fact is one line about how the report was made.
type fact struct {
	Name, Text string
	Code       bool
}

// Write writes the report as one HTML page, with style and pictures inside. It has sections for what the
// report has, and a sentence for what it lacks.
func Write(w io.Writer, r report.Report) error {
	if err := layout.Execute(w, content{
		Style:     template.CSS(chartStyle + pageStyle),
		Verdict:   view{newPalette(r), r}.verdict(),
		Summary:   summary(r),
		Facts:     facts(r),
		Truncated: truncated(r),
		Sections:  sections(r),
		Made:      r.Made,
	}); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	return nil
}

// Charts returns the pictures of the page, each as an SVG file by its name, such as "wake-ups-zookeeper.svg".
// Each is light or dark, as the reader's browser prefers.
func Charts(r report.Report) map[string][]byte {
	files := make(map[string][]byte)
	for _, s := range sections(r) {
		for _, p := range s.Parts {
			for _, pic := range p.Pictures {
				files[pic.name+".svg"] = pic.alone()
			}
		}
	}
	return files
}

// summary says in a sentence what was compared.
func summary(r report.Report) string {
	measured := report.Report{Runs: slices.DeleteFunc(slices.Clone(r.Runs), report.Run.Empty)}
	switch {
	case len(r.Runs) == 0:
		return "Nothing was compared: the report has no runs."
	case len(measured.Runs) == 0:
		return "Nothing was measured: every run failed."
	}
	var names []string
	for _, s := range services(measured) {
		names = append(names, s.name)
	}
	ns := sizes(measured.Runs)
	return fmt.Sprintf("How a cluster gets its next leader: %s with %s, measured on %s.",
		list(newPalette(measured).order), extent(ns[0], ns[len(ns)-1], "candidate", "candidates"), list(names))
}

// facts say how the figures were made, as far as the report knows.
func facts(r report.Report) []fact {
	var out []fact
	add := func(name string, text string, known bool) {
		if known {
			out = append(out, fact{Name: name, Text: text})
		}
	}
	m := r.Machine
	var machine []string
	if m.CPUs > 0 {
		machine = append(machine, plural(m.CPUs, "processor", "processors"))
	}
	if m.OS != "" || m.Arch != "" {
		machine = append(machine, strings.Trim(m.OS+"/"+m.Arch, "/"))
	}
	if m.Go != "" {
		machine = append(machine, m.Go)
	}
	add("Machine", strings.Join(machine, ", "), len(machine) > 0)
	changes := plural(r.Method.Changes, "leader change", "leader changes") + " in each run"
	if r.Method.Crashes > 0 {
		changes += fmt.Sprintf(", %s by a crash, the others by a resignation", count(float64(r.Method.Crashes)))
	}
	add("Method", changes, r.Method.Changes > 0)
	add("Coming and going", count(r.Method.Churn)+" candidates leave and join per leader change", r.Method.Churn > 0)
	add("Round trip", span(float64(r.Method.Delay))+", simulated, to the embedded service", r.Method.Delay > 0)
	add("Session timeout", span(float64(r.Method.TTL)), r.Method.TTL > 0)
	add("Seed", fmt.Sprint(r.Method.Seed), r.Method.Command != "")
	if r.Method.Command != "" {
		out = append(out, fact{"To make it again", r.Method.Command, true})
	}
	return out
}

// truncated lists the incomplete runs, and why.
func truncated(r report.Report) (out []string) {
	for _, run := range r.Runs {
		if run.Truncated != "" {
			out = append(out, fmt.Sprintf("%s, %s, N"+nbsp+"= %s: %s", run.Service, run.Strategy, count(float64(run.N)), run.Ended(r.Method.Changes)))
		}
	}
	return out
}

// list joins names as a sentence does.
func list(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
