package compare

import "github.com/elector-go/elector/cmd/elector/internal/report"

// growth fits a line through each figure of each strategy on each service, where there
// are runs with different numbers of candidates that went to their end.
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
			for _, r := range whole[key] {
				if f.name == "leaderless" && r.Resigned.N == 0 {
					continue // all were crashes
				}
				x, y = append(x, float64(r.N)), append(y, f.of(r))
			}
			if len(x) < 2 {
				continue
			}
			g := report.Growth{Service: key.service, Strategy: key.strategy, Figure: f.name}
			g.Slope, g.Exponent, g.R2 = report.Line(x, y)
			all = append(all, g)
		}
	}
	return all
}
