package consul

import (
	"slices"
	"sync/atomic"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// learned is what a session has learned and need not ask again. A commit does not trust it: the servers
// check what it says.
type learned struct {
	newest   atomic.Uint64               // the highest index seen
	entries  driver.Cache[backend.Entry] // as last seen, without values; no enqueued ones
	gone     driver.Cache[struct{}]      // enqueued keys that are gone: they never come back
	before   driver.Cache[ahead]         // by an enqueued key
	standing driver.Cache[[]string]      // enqueued keys, with those that were gone when they existed
	few      driver.Cache[bool]          // directories, and whether the last list of them was short
}

// ahead is what was before an entry when the directory was last listed, or what the directory's tail named when
// the entry was enqueued.
type ahead struct {
	keys []string // the nearest, oldest first; never changed
	all  bool     // there were no others
	tail uint64   // if not 0, the index at which the tail was written, which is yet to be confirmed
}

// saw notes an index of the servers.
func (m *learned) saw(index uint64) {
	for {
		newest := m.newest.Load()
		if index <= newest || m.newest.CompareAndSwap(newest, index) {
			return
		}
	}
}

// seen reports whether an index can have come from the servers: one that was made up, such as that of
// backend.Unknown, may be higher than any future one.
func (m *learned) seen(index uint64) bool { return index != 0 && index <= m.newest.Load() }

// note notes what exists at one instant under each key, which may be nothing.
func (m *learned) note(entries ...backend.Entry) {
	for _, e := range entries {
		if !e.Exists() {
			m.entries.Forget(e.Key)
			m.standing.Forget(e.Key)
			if isEnqueued(e.Key) {
				m.before.Forget(e.Key)
				m.gone.Limit(driver.GoneLeast + remembered*m.before.Len())
				m.gone.Put(e.Key, struct{}{})
			}
			continue
		}
		m.saw(indexOf(e))
		if isEnqueued(e.Key) { // its name proves it, and each of N lists shows all N
			continue
		}
		e.Value = nil
		m.entries.Change(e.Key, func(last backend.Entry, _ bool) (backend.Entry, bool) {
			return e, indexOf(e) >= indexOf(last) // calls return in any order
		})
	}
}

// entry returns an incarnation as it was last seen; rev 0 means any.
func (m *learned) entry(key string, rev uint64) (backend.Entry, bool) {
	e, ok := m.entries.Get(key)
	return e, ok && (rev == 0 || e.Rev == rev)
}

// stood reports, once, whether an entry existed at an instant when all of gone were gone.
func (m *learned) stood(key string, gone []string) bool {
	then, ok := m.standing.Take(key)
	return ok && !slices.ContainsFunc(gone, func(o string) bool { return !slices.Contains(then, o) })
}
