package ranked

import (
	"maps"
	"slices"
	"sync"
)

// A Rank is what a candidate is compared by: a few numbers, compared from the left. The higher one is better,
// and a missing number counts as 0. A candidate whose first number is below 0 never leads. A Rank is safe for
// concurrent use.
type Rank struct {
	mu        sync.Mutex
	numbers   []int64
	listeners map[*func()]func()
}

// NewRank returns a rank with these numbers.
func NewRank(numbers ...int64) *Rank { return &Rank{numbers: slices.Clone(numbers)} }

// Set changes the rank. It applies to a candidate that waits at once, and a leader tells it to others. At a
// vacancy a change waits for two seconds, so that there is a best one, and longer if the vacancy lasts. Each
// change is a write, and wakes the few that wait for this candidate: set only what others have to know, such
// as the position of a log once a second.
func (r *Rank) Set(numbers ...int64) {
	for _, tell := range r.set(numbers) {
		tell()
	}
}

// set returns the listeners to call after a change. They read the rank, so it must be unlocked then.
func (r *Rank) set(numbers []int64) (listeners []func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Equal(r.numbers, numbers) {
		return nil
	}
	r.numbers = slices.Clone(numbers)
	return slices.Collect(maps.Values(r.listeners))
}

// Numbers returns the numbers as they are now.
func (r *Rank) Numbers() []int64 {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.numbers)
}

// listen calls tell after each change, until stop is called; perhaps once more for a change concurrent with
// stop. tell must not block.
func (r *Rank) listen(tell func()) (stop func()) {
	if r == nil {
		return func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listeners == nil {
		r.listeners = make(map[*func()]func())
	}
	r.listeners[&tell] = tell
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.listeners, &tell)
	}
}

// eligible reports whether a candidate with this rank may lead.
func eligible(rank []int64) bool { return len(rank) == 0 || rank[0] >= 0 }

// compare returns a number above 0 if a is better than b, 0 if they are equal, and below 0 if a is worse.
func compare(a, b []int64) int {
	for i := range max(len(a), len(b)) {
		var x, y int64
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			if x > y {
				return 1
			}
			return -1
		}
	}
	return 0
}
