package etcd

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// learned is what a session remembers of what it has read.
type learned struct {
	lists driver.Cache[listed] // by directory
	stood atomic.Pointer[standing]
	// crowded is the directory of which the last survey has found entries, until the next Enqueue; or nil.
	crowded atomic.Pointer[string]
}

// listed is the last listing of a directory. etcd does not report when a key was deleted last; so a
// listing has the revision at which it was first read in its current state. A listing that was
// forgotten gets a later revision, as if it had changed.
type listed struct{ rev, sum uint64 }

var seed = maphash.MakeSeed()

// listed returns the revision for a listing that was read at rev.
func (m *learned) listed(l backend.Listing, rev uint64) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, key := range l.Keys {
		_, _ = h.WriteString(key + "\x00") // never fails
	}
	m.lists.Change(l.Dir, func(last listed, known bool) (listed, bool) {
		if known && last.sum == h.Sum64() {
			rev = last.rev
			return last, false
		}
		return listed{rev, h.Sum64()}, !known || rev > last.rev
	})
	return rev
}

// standing is what was read when an entry was enqueued: the one before it, if any.
type standing struct {
	own, before backend.Entry
	rev         int64
}

// last returns what was read when an entry was enqueued last.
func (m *learned) last() standing {
	if st := m.stood.Load(); st != nil {
		return *st
	}
	return standing{}
}
