package crowd

import (
	"slices"
	"time"
)

// Quantiles of durations; all zero when N is.
type Quantiles struct {
	N   int           `json:"n"`
	P50 time.Duration `json:"p50"`
	P90 time.Duration `json:"p90"`
	P99 time.Duration `json:"p99"`
	Max time.Duration `json:"max"`
}

// QuantilesOf returns the quantiles of durations, each one of them (nearest rank). The order
// of all does not matter, and is left alone.
func QuantilesOf(all []time.Duration) Quantiles {
	if len(all) == 0 {
		return Quantiles{}
	}
	sorted := slices.Sorted(slices.Values(all))
	at := func(percent int) time.Duration { return sorted[(len(sorted)*percent+99)/100-1] }
	return Quantiles{N: len(sorted), P50: at(50), P90: at(90), P99: at(99), Max: at(100)}
}

// Tells tells whether there are enough durations for a percentile to be another than the
// longest: 2 for p50, 10 for p90, 100 for p99.
func (q Quantiles) Tells(percent int) bool { return q.N*(100-percent) >= 100 }
