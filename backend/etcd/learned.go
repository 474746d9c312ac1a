package etcd

import (
	"hash/maphash"
	"sync"

	"github.com/elector-go/elector/backend"
)

// learned is what a session remembers of what it has read.
type learned struct {
	mu    sync.Mutex
	lists map[string]listed // by directory
	stood standing
}

// mostListed is how many directories a session remembers.
const mostListed = 4096

// listed is the last listing of a directory. etcd does not tell when a key was
// deleted last; so a listing bears the revision at which it was first read as it is.
type listed struct{ rev, sum uint64 }

var seed = maphash.MakeSeed()

// listed returns the revision that a listing bears which was read at rev.
func (m *learned) listed(l backend.Listing, rev uint64) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, key := range l.Keys {
		_, _ = h.WriteString(key + "\x00") // never fails
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.lists[l.Dir]
	if known && last.sum == h.Sum64() {
		return last.rev
	}
	if m.lists == nil || len(m.lists) == mostListed {
		// A listing that is forgotten gets a later revision, as if it had changed.
		m.lists = make(map[string]listed)
	}
	if !known || rev > last.rev {
		m.lists[l.Dir] = listed{rev, h.Sum64()}
	}
	return rev
}

// standing is what was read as an entry was enqueued: the one before it, if any.
type standing struct {
	own, before backend.Entry
	rev         int64
}

// last is what was read when an entry was enqueued last.
func (m *learned) last() standing {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stood
}

func (m *learned) setStanding(st standing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stood = st
}
