package crowd

import (
	"slices"
	"testing"
	"time"
)

func TestQuantiles(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i) // the order does not matter
	}
	for _, c := range []struct {
		all  []time.Duration
		want Quantiles
	}{
		{nil, Quantiles{}},
		{[]time.Duration{7}, Quantiles{N: 1, P50: 7, P90: 7, P99: 7, Max: 7}},
		{[]time.Duration{2, 1}, Quantiles{N: 2, P50: 1, P90: 2, P99: 2, Max: 2}},
		{[]time.Duration{-3, 5, 1}, Quantiles{N: 3, P50: 1, P90: 5, P99: 5, Max: 5}},
		{hundred, Quantiles{N: 100, P50: 50, P90: 90, P99: 99, Max: 100}},
		{hundred[:10], Quantiles{N: 10, P50: 95, P90: 99, P99: 100, Max: 100}},
	} {
		if got := QuantilesOf(c.all); got != c.want {
			t.Errorf("of %v: %+v, want %+v", c.all, got, c.want)
		}
	}
	if hundred[0] != 100 {
		t.Error("the durations were sorted in place")
	}
}

func TestTells(t *testing.T) {
	for n, want := range map[int][]bool{1: {false, false, false}, 2: {true, false, false}, 10: {true, true, false}, 99: {true, true, false}, 100: {true, true, true}} {
		q := Quantiles{N: n}
		if got := []bool{q.Tells(50), q.Tells(90), q.Tells(99)}; !slices.Equal(got, want) {
			t.Errorf("%d samples tell p50, p90, p99: %v, want %v", n, got, want)
		}
	}
}
