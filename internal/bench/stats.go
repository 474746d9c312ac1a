package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// dist sums up delays. It marshals in nanoseconds.
type dist struct {
	N    int           `json:"n"`
	Min  time.Duration `json:"min_ns"`
	P50  time.Duration `json:"p50_ns"`
	P90  time.Duration `json:"p90_ns"`
	P99  time.Duration `json:"p99_ns"`
	Max  time.Duration `json:"max_ns"`
	Mean time.Duration `json:"mean_ns"`
}

func summarize(delays []time.Duration) dist {
	if len(delays) == 0 {
		return dist{}
	}
	sorted := slices.Sorted(slices.Values(delays))
	var sum time.Duration
	for _, d := range sorted {
		sum += d
	}
	return dist{
		N:   len(sorted),
		Min: sorted[0], Max: sorted[len(sorted)-1],
		P50: percentile(sorted, 50), P90: percentile(sorted, 90), P99: percentile(sorted, 99),
		Mean: sum / time.Duration(len(sorted)),
	}
}

// percentile returns the p-th one by the nearest-rank method: the smallest of the
// sorted delays that at least p percent of all don't exceed.
func percentile(sorted []time.Duration, p float64) time.Duration {
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

func ratio(a, b time.Duration) float64 {
	if b == 0 {
		return math.NaN()
	}
	return float64(a) / float64(b)
}

// ms formats a delay for a table.
func ms(d time.Duration) string {
	if d.Abs() >= 100*time.Millisecond {
		return fmt.Sprintf("%.0f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.2f ms", float64(d)/1e6)
}

// table renders rows as Markdown. The first row is the heading.
func table(rows ...[]string) string {
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString("|" + strings.Repeat("---:|", len(row)) + "\n")
		}
	}
	return b.String()
}
