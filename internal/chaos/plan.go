package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A step is one fault of a campaign, which the seed determines. Its target is chosen when it begins: the
// plan only says whether that is the leader.
type step struct {
	Kind    *kind
	Wait    time.Duration // before it, from the end of the last step, or from its beginning
	Overlap bool          // Wait counts from the beginning
	For     time.Duration
	Leader  bool // its target is the leader, of the candidates or of the servers
	Way     int  // selects one of the ways to do it
}

func (s step) String() string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%v after the last", s.Wait)
	if s.Overlap {
		fmt.Fprintf(b, " began")
	}
	fmt.Fprintf(b, ": %s for %v", s.Kind.name, s.For)
	if s.Leader {
		b.WriteString(", of the leader")
	}
	if len(s.Kind.ways) > 0 {
		fmt.Fprintf(b, ", %s", s.Kind.way(s))
	}
	return b.String()
}

// makePlan draws the faults, of these kinds, of a campaign of this length. It depends on its arguments
// alone. Every kind comes once before any is repeated.
func makePlan(seed uint64, kinds []*kind, timeout, length time.Duration) []step {
	random := rand.New(rand.NewPCG(seed, 1))
	between := func(lo, hi time.Duration) time.Duration {
		return (lo + time.Duration(random.Int64N(int64(hi-lo)+1))).Round(time.Millisecond)
	}
	var plan []step
	var bag []*kind
	var last *step
	for begins, ends := time.Duration(0), time.Duration(0); ; {
		if len(bag) == 0 {
			bag = slices.Clone(kinds)
			random.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
		}
		k := bag[0]
		bag = bag[1:]
		s := step{
			Kind: k, Wait: between(timeout/4, timeout), For: between(k.least(timeout), k.most(timeout)),
			Leader: random.IntN(4) > 0, Way: random.IntN(1 << 10),
		}
		if random.IntN(5) == 0 {
			s.Wait = 3 * timeout // by then there must be a leader again
		}
		s.Overlap = random.IntN(3) == 0 && last != nil && !last.Overlap && (s.Kind.onServer() != last.Kind.onServer() || !s.Kind.onServer())
		if s.Overlap {
			s.Wait = between(0, max(last.For, time.Millisecond))
			begins += s.Wait
		} else {
			begins = ends + s.Wait
		}
		ends = max(ends, begins+s.For)
		if ends > length {
			return plan
		}
		plan = append(plan, s)
		last = &plan[len(plan)-1]
	}
}
