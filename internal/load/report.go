package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// A report is the cost of the steps.
type report struct {
	log  io.Writer // progress
	name string
	rows [][]string
}

func (r *report) say(format string, args ...any) {
	fmt.Fprintf(r.log, "load: %s: %s\n", r.name, fmt.Sprintf(format, args...))
}

// took adds a step that has done n things since began.
func (r *report) took(step string, n int, began time.Time, checked string) {
	d := time.Since(began)
	r.add(step, count(n), d.Round(time.Millisecond).String(), count(int(float64(n)/d.Seconds())), checked)
}

// waited is took for a step that mostly waits for a session timeout.
func (r *report) waited(step string, n int, began time.Time, checked string) {
	r.add(step, count(n), time.Since(began).Round(time.Millisecond).String(), "", checked)
}

func (r *report) add(row ...string) {
	r.rows = append(r.rows, row)
	r.say("%s", strings.Join(slices.DeleteFunc(slices.Clone(row), func(s string) bool { return s == "" }), ", "))
}

// clean adds that nothing was left behind.
func (r *report) clean(step string, before census) {
	r.add(step, "", "", "", "as before: "+before.String())
}

func (r *report) markdown(w io.Writer) {
	fmt.Fprintf(w, "### %s\n\n| step | how many | took | per second | checked |\n|---|---:|---:|---:|---|\n", r.name)
	for _, row := range r.rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
	fmt.Fprintln(w)
}

// count writes a number with commas.
func count(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
