package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// verdict is the report in one sentence, about complete runs: how many each strategy wakes, and which have a
// leader again soonest and last. It names the latter only if the times are report.Apart.
func (v view) verdict() string {
	runs, where := v.judged()
	switch {
	case len(runs) > 0:
		said := fmt.Sprintf("At %s%s, %s", plural(runs[0].N, "candidate", "candidates"), where, wakes(runs))
		if times := soonest(runs); times != "" {
			said += "; " + times
		}
		return said + "."
	case len(v.order) > 0:
		return "No run came to its end, so nothing can be said."
	}
	return ""
}

// judged returns the complete runs, one per strategy, at the most candidates that most strategies were tried
// with, and, of several services, on which one.
func (v view) judged() (best []report.Run, where string) {
	all := services(v.report)
	for _, svc := range all {
		at := v.most(svc.runs, math.MaxInt, func(r report.Run) bool { return r.Truncated == "" && r.Changes() > 0 })
		if len(at) > len(best) || len(at) > 0 && len(at) == len(best) && at[0].N > best[0].N {
			best, where = at, ""
			if len(all) > 1 {
				where = " on " + svc.name
			}
		}
	}
	return best, where
}

// wakes says how many each strategy wakes, the fewest first; it groups equal ones.
func wakes(runs []report.Run) string {
	var counts []int
	of := make(map[int][]string)
	for _, r := range runs {
		n := int(math.Round(r.PerChange.WakeUps)) // candidates that come and go take some off the mean
		if of[n] == nil {
			counts = append(counts, n)
		}
		of[n] = append(of[n], r.Strategy)
	}
	slices.Sort(counts)
	var parts []string
	for i, n := range counts {
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
