package report

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

func TestJain(t *testing.T) {
	for _, c := range []struct {
		wins []int
		want float64
	}{
		{nil, 1}, {[]int{0, 0}, 1}, {[]int{3, 3, 3}, 1}, {[]int{5, 0, 0, 0}, 0.25}, {[]int{1, 2}, 0.9},
	} {
		if got := Jain(c.wins); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("of %v: %v, want %v", c.wins, got, c.want)
		}
	}
}

func TestInversions(t *testing.T) {
	for _, c := range []struct {
		arrivals []int
		want     float64
	}{
		{nil, 0}, {[]int{4}, 0}, {[]int{1, 2, 3}, 0}, {[]int{3, 2, 1}, 1}, {[]int{2, 2}, 0}, {[]int{1, 3, 2}, 1.0 / 3}, {[]int{9, 1, 8}, 2.0 / 3},
	} {
		if got := Inversions(c.arrivals); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("of %v: %v, want %v", c.arrivals, got, c.want)
		}
	}
	// The same by comparing each pair.
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		a := make([]int, 2+random.IntN(40))
		for i := range a {
			a[i] = random.IntN(30)
		}
		was, pairs := slices.Clone(a), 0
		for i := range a {
			for _, later := range a[i+1:] {
				if a[i] > later {
					pairs++
				}
			}
		}
		want := float64(pairs) / float64(len(a)*(len(a)-1)/2)
		if got := Inversions(a); math.Abs(got-want) > 1e-9 || !slices.Equal(a, was) {
			t.Fatalf("of %v: %v, want %v; left as %v", was, got, want, a)
		}
	}
}

func TestLine(t *testing.T) {
	x := []float64{10, 100, 1000}
	for name, c := range map[string]struct {
		x, y                []float64
		slope, exponent, r2 float64
	}{
		"constant":    {x, []float64{4, 4, 4}, 0, 0, 1},
		"linear":      {x, []float64{30, 300, 3000}, 3, 1, 1},
		"offset":      {[]float64{1, 2, 3}, []float64{11, 12, 13}, 1, 0.1492, 1},
		"quadratic":   {x, []float64{100, 1e4, 1e6}, 1046.49, 2, 0.9946},
		"zeros":       {x, []float64{0, 0, 0}, 0, 0, 1},
		"some zeros":  {x, []float64{0, 100, 1000}, 1.01, 1, 0.9999},
		"nothing":     {nil, nil, 0, 0, 0},
		"one point":   {[]float64{3}, []float64{4}, 0, 0, 0},
		"one x":       {[]float64{3, 3}, []float64{4, 5}, 0, 0, 0},
		"no relation": {[]float64{1, 2, 3}, []float64{1, 2, 1}, 0, 0.1077, 0},
	} {
		slope, exponent, r2 := Line(c.x, c.y)
		if math.Abs(slope-c.slope) > 0.01 || math.Abs(exponent-c.exponent) > 0.001 || math.Abs(r2-c.r2) > 0.001 {
			t.Errorf("%s: slope %.4f, exponent %.4f, r2 %.4f; want %+v", name, slope, exponent, r2, c)
		}
	}
}

func TestHistogram(t *testing.T) {
	const us = time.Microsecond
	for name, c := range map[string]struct {
		all, bounds []time.Duration
		count       []int
	}{
		"nothing":     {nil, nil, nil},
		"all alike":   {[]time.Duration{3 * us, 3 * us}, nil, []int{2}},
		"on a bound":  {[]time.Duration{us, 2 * us, 2 * us}, []time.Duration{2 * us}, []int{1, 2}},
		"spread":      {[]time.Duration{us, 3 * us, 4 * us, 60 * us}, []time.Duration{2 * us, 5 * us, 10 * us, 20 * us, 50 * us}, []int{1, 2, 0, 0, 0, 1}},
		"none or few": {[]time.Duration{-5, 0, 3 * us}, []time.Duration{us, 2 * us}, []int{2, 0, 1}},
	} {
		got := NewHistogram(c.all)
		if !reflect.DeepEqual(got.Bounds, c.bounds) || !reflect.DeepEqual(got.Count, c.count) || got.N != len(c.all) {
			t.Errorf("%s: %+v, want bounds %v, counts %v", name, got, c.bounds, c.count)
		}
	}
	if got := NewHistogram([]time.Duration{1, math.MaxInt64}); len(got.Count) != len(got.Bounds)+1 || !slices.IsSorted(got.Bounds) {
		t.Errorf("of the longest duration: %+v", got)
	}
}

func TestApart(t *testing.T) {
	of := func(n int, p50, p90 time.Duration) Quantiles {
		return Quantiles{N: n, P50: p50, P90: p90, P99: p90, Max: p90}
	}
	for name, c := range map[string]struct {
		a, b Quantiles
		want bool
	}{
		"far":       {of(10, 100, 120), of(10, 200, 210), true},
		"a fifth":   {of(10, 80, 81), of(10, 100, 110), true},
		"less":      {of(10, 81, 82), of(10, 100, 110), false},
		"scattered": {of(10, 100, 201), of(10, 200, 210), false},
		"few":       {of(9, 100, 120), of(10, 200, 210), false},
		"the same":  {of(10, 100, 100), of(10, 100, 100), false},
		"none":      {Quantiles{}, of(10, 100, 120), false},
	} {
		if Apart(c.a, c.b) != c.want || Apart(c.b, c.a) != c.want {
			t.Errorf("%s: want %v both ways", name, c.want)
		}
	}
}
