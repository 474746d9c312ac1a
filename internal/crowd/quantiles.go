package crowd

import (
	"slices"
	"time"
)

// Quantiles are the quantiles of durations; all are zero if N is.
type Quantiles struct {
	N   int           `json:"n"`
	P50 time.Duration `json:"p50"`
	P90 time.Duration `json:"p90"`
	P99 time.Duration `json:"p99"`
	Max time.Duration `json:"max"`
}

// QuantilesOf returns the quantiles of durations, each one of the durations (nearest rank). It neither
// needs nor changes an order.
func QuantilesOf(all []time.Duration) Quantiles {
	if len(all) == 0 {
		return Quantiles{}
	}
	sorted := slices.Sorted(slices.Values(all))
	at := func(percent int) time.Duration { return sorted[(len(sorted)*percent+99)/100-1] }
	return Quantiles{N: len(sorted), P50: at(50), P90: at(90), P99: at(99), Max: at(100)}
}

// Tells reports whether there are enough durations for a percentile to differ from the maximum: 2 for p50,
// 10 for p90, 100 for p99.
func (q Quantiles) Tells(percent int) bool { return q.N*(100-percent) >= 100 }
