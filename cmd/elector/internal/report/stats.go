package report

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/internal/crowd"
)

// Apart reports whether two sets of durations differ by more than noise: nine in ten of the one are shorter
// than half of the other, with ten or more of each. The medians must differ by a fifth or more, too, as a
// machine may become that much slower from one run to the next.
func Apart(a, b Quantiles) bool {
	if a.P50 > b.P50 {
		a, b = b, a
	}
	return a.Tells(90) && b.Tells(90) && a.P90 < b.P50 && a.P50 <= b.P50/5*4
}

// NewLeaderless returns the Leaderless of times in the order in which they happened.
func NewLeaderless(all []time.Duration) Leaderless { return Leaderless{crowd.QuantilesOf(all), all} }

// MeanCost returns the mean over so many leader changes or joins; zero over none.
func MeanCost(sum meter.Counts, over int) Cost {
	if over == 0 {
		return Cost{}
	}
	mean := func(n int) float64 { return float64(n) / float64(over) }
	return Cost{
		WakeUps: mean(sum.WakeUps), Operations: mean(sum.Operations()), Writes: mean(sum.Commits + sum.Drops),
		Refused: mean(sum.Refused), Watches: mean(sum.Watches), Bytes: mean(sum.Sent + sum.Received),
	}
}

// Jain returns Jain's index over the numbers of wins: 1 when all won equally often, 1/N when one of N won
// all. If nobody won anything all are equal, and it is 1.
//
// Source: R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and Discrimination", 1984.
func Jain(wins []int) float64 {
	var sum, squares float64
	for _, w := range wins {
		sum += float64(w)
		squares += float64(w) * float64(w)
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(wins)) * squares)
}

// Inversions returns the share of pairs of elections in which the later arrival was elected first. arrivals
// are the ranks of arrival of those elected, in the order of election. It returns 0 for fewer than two.
func Inversions(arrivals []int) float64 {
	n := float64(len(arrivals))
	if n < 2 {
		return 0
	}
	var elected []int // so far, sorted
	pairs := 0
	for _, rank := range arrivals {
		at, _ := slices.BinarySearch(elected, rank+1)
		pairs += len(elected) - at // they arrived later
		elected = slices.Insert(elected, at, rank)
	}
	return float64(pairs) / (n * (n - 1) / 2)
}

// Line fits straight lines to points by least squares: slope and r2, how well it fits, are those of the line
// through x and y; exponent is the slope of the line through their logarithms, over the points that have any.
// Without two different x, a result is 0. A constant y is fitted exactly: r2 is 1.
func Line(x, y []float64) (slope, exponent, r2 float64) {
	slope, r2 = leastSquares(x, y)
	var lx, ly []float64
	for i := range x {
		if x[i] > 0 && y[i] > 0 {
			lx, ly = append(lx, math.Log(x[i])), append(ly, math.Log(y[i]))
		}
	}
	exponent, _ = leastSquares(lx, ly)
	return slope, exponent, r2
}

func leastSquares(x, y []float64) (slope, r2 float64) {
	switch {
	case len(x) == 0 || floats.Min(x) == floats.Max(x):
		return 0, 0
	case floats.Min(y) == floats.Max(y):
		return 0, 1
	}
	_, slope = stat.LinearRegression(x, y, nil, false)
	return slope, math.Pow(stat.Correlation(x, y, nil), 2)
}

// NewHistogram counts durations between bounds that are spaced 1, 2, 5, 10, 20, 50 …, from a microsecond on,
// as far as there are durations on both sides of a bound. Those below the first bound, including negative
// ones, are in the first count.
func NewHistogram(all []time.Duration) Histogram {
	h := Histogram{Quantiles: crowd.QuantilesOf(all)}
	if len(all) == 0 {
		return h
	}
	least := slices.Min(all)
	for decade := time.Microsecond; decade <= h.Max && decade > 0; decade *= 10 {
		for _, bound := range []time.Duration{decade, 2 * decade, 5 * decade} {
			if least < bound && bound <= h.Max {
				h.Bounds = append(h.Bounds, bound)
			}
		}
	}
	h.Count = make([]int, len(h.Bounds)+1)
	for _, d := range all {
		i, found := slices.BinarySearch(h.Bounds, d)
		if found {
			i++ // a bound is in the count above it
		}
		h.Count[i]++
	}
	return h
}
