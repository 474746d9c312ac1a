package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// A section is the result of a part. It prints as Markdown, and marshals as JSON with delays in
// nanoseconds.
type section struct {
	Title  string  `json:"title"`
	Tables []table `json:"tables"`
}

// A table has a text before it, which says how it was measured, and notes after it.
type table struct {
	About string   `json:"about,omitempty"`
	Head  []string `json:"head"`
	Rows  [][]any  `json:"rows"`
	Notes []string `json:"notes,omitempty"`
}

func (t *table) add(cells ...any) { t.Rows = append(t.Rows, cells) }

func (t *table) note(format string, args ...any) {
	t.Notes = append(t.Notes, fmt.Sprintf(format, args...))
}

func (s section) markdown(w io.Writer) {
	fmt.Fprintf(w, "## %s\n\n", s.Title)
	for _, t := range s.Tables {
		if t.About != "" {
			fmt.Fprintf(w, "%s\n\n", t.About)
		}
		if t.Head != nil {
			fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(t.Head, " | "), strings.Repeat("---:|", len(t.Head)))
		}
		for _, row := range t.Rows {
			cells := make([]string, len(row))
			for i, cell := range row {
				cells[i] = text(cell)
			}
			fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
		}
		fmt.Fprintln(w)
		for _, note := range t.Notes {
			fmt.Fprintf(w, "- %s\n", note)
		}
		if t.Notes != nil {
			fmt.Fprintln(w)
		}
	}
}

// text returns a cell as it is printed.
func text(cell any) string {
	switch v := cell.(type) {
	case time.Duration:
		return ms(v)
	case float64:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprint(cell)
}

// ms formats a delay.
func ms(d time.Duration) string {
	if d.Abs() >= 100*time.Millisecond {
		return fmt.Sprintf("%.0f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.2f ms", float64(d)/1e6)
}

// A figure is a number with a format.
type figure struct {
	form  string
	value float64
}

func (f figure) String() string               { return fmt.Sprintf(f.form, f.value) }
func (f figure) MarshalJSON() ([]byte, error) { return json.Marshal(f.value) }

func tenth(f float64) figure   { return figure{"%.1f", f} }
func kib(bytes float64) figure { return figure{"%.0f KiB", bytes / 1024} }

func verdict(met bool) string {
	if met {
		return "Met"
	}
	return "MISSED"
}

func ratio(a, b time.Duration) float64 {
	if b == 0 {
		return math.NaN()
	}
	return float64(a) / float64(b)
}

// A line is one result on a service: of what, by whom.
type line struct{ what, who, result string }

// sum adds a result to the summary, in one line with those of others.
func (l *lab) sum(what, who string, result any) {
	for i, s := range l.sums {
		if s.what == what {
			l.sums[i] = line{what, s.who + " / " + who, s.result + " / " + text(result)}
			return
		}
	}
	l.sums = append(l.sums, line{what, who, text(result)})
}

// sideBySide adds the lines of the services, those of one thing in one row.
func (t *table) sideBySide(labs []*lab, of func(*lab) []line) {
	rows := make(map[line]int)
	for i, l := range labs {
		t.Head = append(t.Head, l.facts.title)
		for _, one := range of(l) {
			at, there := rows[line{what: one.what, who: one.who}]
			if !there {
				at = len(t.Rows)
				rows[line{what: one.what, who: one.who}] = at
				t.add(one.what, one.who)
				for range labs {
					t.Rows[at] = append(t.Rows[at], "–")
				}
			}
			t.Rows[at][2+i] = one.result
		}
	}
}

// summary returns what matters most of all services.
func summary(labs []*lab) section {
	t := table{
		About: "Delays are medians, except of what is measured once: joining, and what concerns many seats. The own client is the one that the sections name.",
		Head:  []string{"fair", ""},
	}
	t.sideBySide(labs, func(l *lab) []line { return l.sums })
	return section{"Summary", []table{t}}
}
