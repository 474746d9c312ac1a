package driver

import (
	"hash/maphash"
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
	nrs    map[uint64]int // by hash: when it was added
	added  int            // how many so far
	next   int            // the oldest, once there are PastMost
	places map[string]int // how many of gone were at each place
}

type departed struct {
	hash  uint64 // of the incarnation
	place string
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
		p.seed, p.places, p.nrs = maphash.MakeSeed(), make(map[string]int), make(map[uint64]int)
	}
	d := departed{p.hash(key, rev), place}
	switch {
	case p.nrs[d.hash] > 0:
		return
	case len(p.gone) < PastMost:
		p.gone = append(p.gone, d)
	default:
		old := p.gone[p.next]
		delete(p.nrs, old.hash)
		if p.places[old.place]--; p.places[old.place] == 0 {
			delete(p.places, old.place)
		}
		p.gone[p.next] = d
		p.next = (p.next + 1) % PastMost
	}
	p.places[place]++
	p.added++
	p.nrs[d.hash] = p.added
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
	nr := p.nrs[p.hash(key, rev)]
	return nr > 0 && nr <= mark
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
