package zookeeper

import (
	"slices"
	"sync"

	"github.com/elector-go/elector/backend"
)

// memoryLimit bounds each of memory's maps. What is forgotten is read again. Only owns has
// no bound: without it a condition would ask for less. It is as large as there are entries of
// the session, until their end is seen.
const memoryLimit = 4096

// goneLeast is how many entries that are gone are remembered, and some for each that waits:
// those before it. Up to memoryLimit it would grow with the terms of a session.
const goneLeast = 64

// learned is what a session has learned and need not ask again. None of it is
// trusted: what it says is checked by the server in each commit, or by a watch.
type learned struct {
	mu     sync.Mutex
	before map[string]ahead    // by an own entry's key
	proofs map[string]proof    // by key
	owns   map[string]own      // by an own entry's key
	dirs   map[string]struct{} // paths of directories without a value of their own
	gone   map[string]uint64   // by key, the newest incarnation known to be gone
	alike  map[string]struct{} // keys of lookalikes
}

// proof is what proves at the instant of a commit that an entry is still the
// incarnation it was.
type proof struct {
	rev uint64
	// version is the parent's, or the entry's own where that says nothing: for a
	// persistent entry, and below the server's root.
	version int32
	own     bool
}

func (m *learned) init() {
	m.before = make(map[string]ahead)
	m.proofs = make(map[string]proof)
	m.owns = make(map[string]own)
	m.dirs = make(map[string]struct{})
	m.gone = make(map[string]uint64)
	m.alike = make(map[string]struct{})
}

func (m *learned) ahead(key string) (ahead, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.before[key]
	a.names = slices.Clone(a.names)
	return a, ok
}

func (m *learned) setAhead(key string, a ahead) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.before) >= memoryLimit {
		clear(m.before)
	}
	m.before[key] = a
}

func (m *learned) proof(e backend.Entry) (proof, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.proofs[e.Key]
	return p, ok && p.rev == e.Rev
}

func (m *learned) setProof(key string, p proof) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.proofs) >= memoryLimit {
		clear(m.proofs)
	}
	m.proofs[key] = p
}

// own is the version of an entry that a commit of this session has made: see
// commit.ownVersion.
type own struct {
	rev     uint64
	version int32
	old     bool // it has been found to be outdated
}

func (m *learned) own(e backend.Entry) (own, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.owns[e.Key]
	return o, ok && o.rev == e.Rev
}

// owned tells whether a commit has told of an entry under this key, whose end is not known.
func (m *learned) owned(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.owns[key]
	return ok
}

// addOwn notes an entry that a commit has made, and is about to tell of.
func (m *learned) addOwn(e backend.Entry) {
	version, _ := fromVersion(e.Version)
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Rev > m.gone[e.Key] { // else somebody has deleted it already
		m.owns[e.Key] = own{rev: e.Rev, version: version}
	}
}

// setOwn notes what was seen of an own entry, in whatever order that comes in. A version
// that cannot be asked for tells nothing.
func (m *learned) setOwn(key string, rev uint64, version int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.owns[key]
	newer := version - o.version // they wrap
	if ok && o.rev == rev && version != anyVersion && (newer > 0 || newer == 0 && o.old) {
		m.owns[key] = own{rev: rev, version: version}
	}
}

// outdate notes that the server has another version.
func (m *learned) outdate(key string, version int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o, ok := m.owns[key]; ok && o.version == version {
		o.old = true
		m.owns[key] = o
	}
}

func (m *learned) isDir(path string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.dirs[path]
	return ok
}

func (m *learned) setDir(path string, is bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !is {
		delete(m.dirs, path)
		return
	}
	if len(m.dirs) >= memoryLimit {
		clear(m.dirs)
	}
	m.dirs[path] = struct{}{}
}

// bury notes that an incarnation is gone: it never comes back, and whoever asks to
// delete it again can be told so without a request, whose reply might be lost.
func (m *learned) bury(key string, rev uint64) {
	m.forget(key)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.gone) >= goneLeast+remembered*len(m.before) {
		clear(m.gone)
	}
	m.gone[key] = max(m.gone[key], rev)
	if m.owns[key].rev <= rev {
		delete(m.owns, key)
	}
}

func (m *learned) isGone(e backend.Entry) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return e.Rev <= m.gone[e.Key]
}

// isBuried tells whether an enqueued entry's key is known to be gone.
func (m *learned) isBuried(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gone[key] != 0
}

// setLookalike notes that a node with the name of an enqueued entry is none. No candidate ever
// makes one of this name: names are never used twice.
func (m *learned) setLookalike(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.alike) >= memoryLimit {
		clear(m.alike)
	}
	m.alike[key] = struct{}{}
}

func (m *learned) isLookalike(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.alike[key]
	return ok
}

// candidates returns those of the names in dir that are not known to be lookalikes'.
func (m *learned) candidates(dir string, names []name) []name {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.alike) == 0 { // as a rule
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), func(n name) bool {
		_, ok := m.alike[dir+"/"+n.text]
		return ok
	})
}

// forget drops what is known of an entry that is gone.
func (m *learned) forget(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.before, key)
	delete(m.proofs, key)
}
