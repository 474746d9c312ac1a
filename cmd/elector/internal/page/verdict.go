package page

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// Verdict is the report in one sentence, about the complete runs at the most candidates that most strategies
// were tried with: how many each strategy wakes, and which have a leader again soonest and last. It names the
// latter only if the times are report.Apart.
func (v view) Verdict() string {
	var runs []report.Run
	where := ""
	services := v.services()
	for _, s := range services {
		at := s.most(math.MaxInt, func(r report.Run) bool { return r.Truncated == "" && r.Changes() > 0 })
		if len(at) > len(runs) || len(at) > 0 && len(at) == len(runs) && at[0].N > runs[0].N {
			runs = at
			if len(services) > 1 {
				where = " on " + s.name
			}
		}
	}
	switch {
	case len(v.Runs) == 0:
		return ""
	case len(runs) == 0:
		return "No run came to its end, so nothing can be said."
	}
	said := fmt.Sprintf("At %s%s, %s", plural(runs[0].N, "candidate"), where, wakes(runs))
	if times := soonest(runs); times != "" {
		said += "; " + times
	}
	return said + "."
}

// wakes says how many each strategy wakes, the fewest first; it groups equal ones.
func wakes(runs []report.Run) string {
	of := make(map[int][]string)
	for _, r := range runs {
		n := int(math.Round(r.PerChange.WakeUps)) // candidates that come and go take some off the mean
		of[n] = append(of[n], r.Strategy)
	}
	var parts []string
	for i, n := range slices.Sorted(maps.Keys(of)) {
		said := count(float64(n))
		if n == runs[0].N-1 {
			said = "all" + nbsp + said
		}
		switch {
		case i > 0:
			said = list(of[n]) + nbsp + said
		case len(of[n]) == 1:
			said = of[n][0] + " wakes " + said + " per leader change"
		default:
			said = list(of[n]) + " wake " + said + " per leader change"
		}
		parts = append(parts, said)
	}
	return strings.Join(parts, ", ")
}

// soonest says which strategies have a leader again soonest after a resignation, and which last, or "" if
// there are too few resignations to tell.
func soonest(runs []report.Run) string {
	runs = slices.DeleteFunc(slices.Clone(runs), func(r report.Run) bool { return !r.Resigned.Tells(90) })
	if len(runs) == 0 {
		return ""
	}
	slices.SortStableFunc(runs, func(a, b report.Run) int { return cmp.Compare(a.Resigned.P50, b.Resigned.P50) })
	first, last := runs[0], runs[len(runs)-1]
	if len(runs) == 1 {
		return "after a resignation there is no leader for " + duration(first.Resigned.P50)
	}
	if !report.Apart(first.Resigned.Quantiles, last.Resigned.Quantiles) {
		return "their times without a leader are too close to tell them apart"
	}
	// Strategies that cannot be told from the first share its place, and so with the last.
	from, to := 1, len(runs)-1
	for !report.Apart(runs[from].Resigned.Quantiles, first.Resigned.Quantiles) {
		from++
	}
	for !report.Apart(runs[to-1].Resigned.Quantiles, last.Resigned.Quantiles) {
		to--
	}
	return fmt.Sprintf("after a resignation a leader is back soonest with %s, last with %s", timesOf(runs[:from]), timesOf(runs[max(from, to):]))
}

// timesOf names strategies, with the range of their times.
func timesOf(runs []report.Run) string {
	var names []string
	for _, r := range runs {
		names = append(names, r.Strategy)
	}
	return fmt.Sprintf("%s (%s)", list(names), durations(runs[0].Resigned.P50, runs[len(runs)-1].Resigned.P50))
}
