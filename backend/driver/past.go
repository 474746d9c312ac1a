package driver

import (
	"hash/maphash"
	"slices"
	"sync"
)

// PastMost is how many entries a Past remembers.
const PastMost = 4096

// A Past holds the latest of a session's own entries that are known to be gone. An operator who restores
// the service from a backup may bring them back. The session is in the backup and lives on, so they would
// stay, and all candidates would wait behind them: a session that finds one of them should be lost. This is
// never wrong, as no history has the same incarnation twice, if the entry was known to be gone before the
// read that finds it was sent: see Mark. Its zero value is ready to use.
type Past struct {
	mu     sync.Mutex
	seed   maphash.Seed
	gone   []departed
	added  int            // how many so far
	next   int            // the oldest, once there are PastMost
	places map[string]int // how many of gone were at each place
}

type departed struct {
	hash  uint64 // of the incarnation
	place string
	nr    int
}

func (p *Past) hash(key string, rev uint64) uint64 {
	return maphash.Comparable(p.seed, struct {
		key string
		rev uint64
	}{key, rev})
}

// Add notes that an incarnation is gone, and the place where a backend must look for it: see Places.
func (p *Past) Add(key string, rev uint64, place string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.places == nil {
		p.seed, p.places = maphash.MakeSeed(), make(map[string]int)
	}
	d := departed{p.hash(key, rev), place, p.added + 1}
	switch {
	case slices.ContainsFunc(p.gone, func(o departed) bool { return o.hash == d.hash }):
		return
	case len(p.gone) < PastMost:
		p.gone = append(p.gone, d)
	default:
		old := p.gone[p.next].place
		if p.places[old]--; p.places[old] == 0 {
			delete(p.places, old)
		}
		p.gone[p.next] = d
		p.next = (p.next + 1) % PastMost
	}
	p.places[place]++
	p.added++
}

// Mark returns a mark for Has: what is added later does not count.
func (p *Past) Mark() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.added
}

// Has reports whether an incarnation was known to be gone at a Mark.
func (p *Past) Has(key string, rev uint64, mark int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.gone) == 0 {
		return false
	}
	h := p.hash(key, rev)
	return slices.ContainsFunc(p.gone, func(d departed) bool { return d.hash == h && d.nr <= mark })
}

// Places returns the places of the entries that are gone.
func (p *Past) Places() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for place := range p.places {
		all = append(all, place)
	}
	return all
}
