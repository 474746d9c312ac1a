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
