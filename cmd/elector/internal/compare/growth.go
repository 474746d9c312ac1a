package compare

import (
	"cmp"
	"math"
	"slices"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// flat is the share of a count below which its change from the fewest candidates to the most counts as noise:
// candidates that come and go change it by as much.
const flat = 0.05

// growth fits a line through each figure of each strategy on each service, if there are complete runs with
// different numbers of candidates.
func growth(runs []report.Run) (all []report.Growth) {
	figures := []struct {
		name string
		of   func(report.Run) float64
	}{
		{"wakeUps", func(r report.Run) float64 { return r.PerChange.WakeUps }},
		{"operations", func(r report.Run) float64 { return r.PerChange.Operations }},
		{"bytes", func(r report.Run) float64 { return r.PerChange.Bytes }},
		{"leaderless", func(r report.Run) float64 { return float64(r.Resigned.P50) }},
	}
	type of struct{ service, strategy string }
	var order []of
	whole := make(map[of][]report.Run)
	for _, r := range runs {
		if r.Truncated != "" {
			continue
		}
		key := of{r.Service, r.Strategy}
		if whole[key] == nil {
			order = append(order, key)
		}
		whole[key] = append(whole[key], r)
	}
	for _, key := range order {
		if len(whole[key]) < 2 {
			continue
		}
		for _, f := range figures {
			var x, y []float64
			var of []report.Run
			for _, r := range slices.SortedFunc(slices.Values(whole[key]), func(a, b report.Run) int { return cmp.Compare(a.N, b.N) }) {
				if f.name == "leaderless" && r.Resigned.N == 0 {
					continue // all were crashes
				}
				x, y, of = append(x, float64(r.N)), append(y, f.of(r)), append(of, r)
			}
			if len(x) < 2 {
				continue
			}
			g := report.Growth{Service: key.service, Strategy: key.strategy, Figure: f.name}
			g.Slope, g.Exponent, g.R2 = report.Line(x, y)
			last := len(x) - 1
			if f.name == "leaderless" {
				g.Flat = !report.Apart(of[0].Resigned.Quantiles, of[last].Resigned.Quantiles)
			} else {
				g.Flat = math.Abs(y[last]-y[0]) <= flat*max(y[0], y[last])
			}
			all = append(all, g)
		}
	}
	return all
}
