package consul

import (
	"slices"
	"sync"

	"github.com/elector-go/elector/backend"
)

// memoryLimit bounds each of memory's maps. What is forgotten is read again.
const memoryLimit = 4096

// goneLeast is how many entries that are gone are remembered, and some for each that waits:
// those before it. Up to memoryLimit it would grow with the terms of a session.
const goneLeast = 64

// learned is what a session has learned and need not ask again. None of it is trusted
// in a commit: the servers check what it says.
type learned struct {
	mu       sync.Mutex
	newest   uint64                   // the highest index seen
	entries  map[string]backend.Entry // as last seen, without values
	gone     map[string]struct{}      // enqueued keys that are gone: they never come back
	before   map[string]ahead         // by an enqueued key
	standing map[string][]string      // enqueued keys, with those that were gone when they stood
}

// ahead is what stood before an entry when the directory was last listed.
type ahead struct {
	keys []string // the nearest, oldest first
	all  bool     // there were no others
}

func (m *learned) init() {
	m.entries = make(map[string]backend.Entry)
	m.gone = make(map[string]struct{})
	m.before = make(map[string]ahead)
	m.standing = make(map[string][]string)
}

// put adds to a map that is bounded.
func put[V any](m map[string]V, key string, v V) {
	if len(m) >= memoryLimit {
		clear(m)
	}
	m[key] = v
}

// saw notes an index of the servers.
func (m *learned) saw(index uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.newest = max(m.newest, index)
}

// seen tells whether an index can have come from the servers: one that was made up,
// such as that of backend.Unknown, may be higher than any yet to come.
func (m *learned) seen(index uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return index != 0 && index <= m.newest
}

// note notes what stands at one moment under each key, which may be nothing.
func (m *learned) note(entries ...backend.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range entries {
		if !e.Exists() {
			delete(m.entries, e.Key)
			delete(m.standing, e.Key)
			if isEnqueued(e.Key) {
				delete(m.before, e.Key)
				if len(m.gone) >= goneLeast+remembered*len(m.before) {
					clear(m.gone)
				}
				m.gone[e.Key] = struct{}{}
			}
			continue
		}
		index := indexOf(e)
		m.newest = max(m.newest, index)
		if index >= indexOf(m.entries[e.Key]) { // calls return in any order
			e.Value = nil
			put(m.entries, e.Key, e)
		}
	}
}

// entry returns an incarnation as it was last seen; rev 0 is any.
func (m *learned) entry(key string, rev uint64) (backend.Entry, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[key]
	return e, ok && (rev == 0 || e.Rev == rev)
}

// forget drops what is known of an entry, as it may be outdated.
func (m *learned) forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, key)
}

func (m *learned) isGone(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.gone[key]
	return ok
}

// stands notes that an enqueued entry stood when others were gone.
func (m *learned) stands(key string, gone []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	put(m.standing, key, gone)
}

// stood tells, once, whether it stood at a moment when all of these were gone.
func (m *learned) stood(key string, gone []string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	then, ok := m.standing[key]
	delete(m.standing, key)
	return ok && !slices.ContainsFunc(gone, func(o string) bool { return !slices.Contains(then, o) })
}

func (m *learned) ahead(key string) (ahead, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.before[key]
	a.keys = slices.Clone(a.keys)
	return a, ok
}

func (m *learned) setAhead(key string, a ahead) {
	m.mu.Lock()
	defer m.mu.Unlock()
	put(m.before, key, a)
}

func (m *learned) dropAhead(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.before, key)
}
