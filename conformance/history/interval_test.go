package history

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
)

// variations is how often the intervals of each history are changed.
const variations = 200

// vary returns the history with intervals changed at random: wider ones leave more ways to place the
// instants, narrower ones fewer. fixed selects those that do not change.
func (m *made) vary(rnd *rand.Rand, wider bool, fixed func(*Event) bool) *History {
	varied := made{m.History}
	varied.Events = slices.Clone(m.Events)
	for i := range varied.Events {
		e := &varied.Events[i]
		switch {
		case e.Return == 0 || fixed(e):
		case wider:
			e.Call = max(1, e.Call-rnd.Int64N(20))
			e.Return += rnd.Int64N(20)
		default:
			e.Call += rnd.Int64N(e.Return - e.Call + 1)
			e.Return -= rnd.Int64N(e.Return - e.Call + 1)
		}
	}
	return varied.history()
}

// TestIntervals checks that a sound history stays sound with wider intervals, and that a wrong history
// stays wrong with narrower ones.
func TestIntervals(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	for _, c := range cases {
		m := newMade(100)
		c.make(m)
		if c.o.Bound > 0 {
			continue // Bound limits how long something lasts
		}
		for range variations {
			// A candidate enrols during its campaign.
			h := m.vary(rnd, c.want == "", func(e *Event) bool { return c.o.Ordered && e.Kind == Campaign })
			if found := h.Check(c.o); (len(found) > 0) != (c.want != "") {
				t.Errorf("%s: found %q, want %q, in\n%v", c.name, found, c.want, h.Events)
				break
			}
		}
	}
	for _, c := range linearCases {
		m := newMade(2000)
		c.make(m)
		for range variations {
			h := m.vary(rnd, c.want == porcupine.Ok, func(*Event) bool { return false })
			if got := h.Linearizable(Options{}).Result; got != c.want {
				t.Errorf("%s: %s, want %s, for\n%v", c.name, got, c.want, h.Events)
				break
			}
		}
	}
}
