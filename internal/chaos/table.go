package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

func printHead(w io.Writer) {
	fmt.Fprintln(w, "| backend | servers | strategy | seed | faults | terms | commits done / refused / unknown | valid terms that overlap | writes after the end: tried, accepted after the deposition | unfenced lines, of an old leader after the new one | ghosts | service away: times, longest | longest without a leader, bound |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|---|---|---|")
}

func (r *result) print(w io.Writer) {
	t := r.trial
	fmt.Fprintf(w, "| %s | %d | %s | %d | %s | %d | %d / %d / %d | %d | %d, %d | %d, %s | %d | %d, %v | %s |\n",
		t.backend, t.servers, t.strategy, t.seed, tally(r.faults), r.terms, r.commits, r.refused, r.unknown, r.overlaps,
		r.late, r.accepted, r.unfenced.lines, r.unfenced.explained(), r.ghosts, r.outages, r.away.Round(10*time.Millisecond), r.leaderless)
	if t.wills() {
		fmt.Fprintf(w, "  companions have ended %d sessions\n", r.executed)
	}
}

// tally counts words: "3: 2 cut, 1 SIGKILL".
func tally(words []string) string {
	count := map[string]int{}
	var order []string
	for _, word := range words {
		if count[word]++; count[word] == 1 {
			order = append(order, word)
		}
	}
	slices.Sort(order)
	for i, word := range order {
		order[i] = fmt.Sprintf("%d %s", count[word], word)
	}
	return fmt.Sprintf("%d: %s", len(words), strings.Join(order, ", "))
}

func (u unfenced) explained() string {
	if u.late == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (paused for up to %v between Valid and the write)", u.late, u.delay.Round(10*time.Millisecond))
}

func (g gap) String() string {
	if g.length() == 0 {
		return "0s"
	}
	return fmt.Sprintf("%v of %v", g.length().Round(10*time.Millisecond), g.bound.Round(10*time.Millisecond))
}
