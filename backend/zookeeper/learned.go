package zookeeper

import (
	"slices"
	"sync"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// learned is what a session has learned and need not ask again. None of it is trusted: the server
// checks it in each commit, or a watch confirms it.
type learned struct {
	before driver.Cache[ahead]    // by an own entry's key
	proofs driver.Cache[proof]    // by key
	dirs   driver.Cache[struct{}] // paths of directories without a value of their own
	alike  driver.Cache[struct{}] // keys of lookalikes
	gone   driver.Cache[uint64]   // by key, the newest incarnation known to be gone
	past   driver.Past

	// owns has no bound: without an entry here a condition would check less. It holds the session's
	// entries until their end is seen. mu guards it, and gone together with it.
	mu      sync.Mutex
	owns    map[string]own // by an own entry's key
	chroot  int            // how much longer their paths are than their keys
	paths   int            // the bytes that their paths take, and those of entries that are being made: see reserve
	endedAt uint64         // the newest zxid known when the latest entry in past was found to be gone
}

// proof is what proves, at the instant of a commit, that an entry is still the same incarnation.
type proof struct {
	rev uint64
	// version is the parent's, or the entry's own where the parent's says nothing: for a persistent
	// entry, and below the servers' root.
	version int32
	own     bool
	// gen is the link on which it was learned: a restored service counts through the same versions
	// again, and breaks all links.
	gen uint64
}

// proof returns what was learned about an entry on a link.
func (m *learned) proof(e backend.Entry, gen uint64) (proof, bool) {
	p, ok := m.proofs.Get(e.Key)
	return p, ok && p.rev == e.Rev && p.gen == gen
}

// own is the version of an entry that a commit of this session has made: see commit.ownVersion.
type own struct {
	rev     uint64
	version int32
	old     bool   // it was found outdated
	gen     uint64 // the link on which it was made
}

func (m *learned) own(e backend.Entry) (own, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.owns[e.Key]
	return o, ok && o.rev == e.Rev
}

// owned reports whether a commit has reported an entry under this key whose end is not known.
func (m *learned) owned(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.owns[key]
	return ok
}

// addOwn notes an entry that a commit has made, and is about to return.
func (m *learned) addOwn(e backend.Entry, gen uint64) {
	version, _ := fromVersion(e.Version)
	m.mu.Lock()
	defer m.mu.Unlock()
	if o, own := m.owns[e.Key]; own && o.rev != e.Rev {
		m.ended(e.Key, o.rev, e.Rev-1) // or nothing could have been created there
	}
	if !m.isGone(e) { // else somebody has deleted it already
		if _, known := m.owns[e.Key]; !known {
			m.paths += pathBytes(m.chroot + len(e.Key))
		}
		note(&m.owns, e.Key, own{rev: e.Rev, version: version, gen: gen})
	}
}

// pathBytes is what a path of that length takes in the transaction that ends the session.
func pathBytes(length int) int { return 4 + length }

// reserve makes room for the paths of entries that are about to be made. release ends that: by then they are the
// session's own. It is nil if all would take more than most.
func (m *learned) reserve(paths, most int) (release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if paths > 0 && m.paths+paths > most {
		return nil
	}
	m.paths += paths
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.paths -= paths
	}
}

// setOwn notes the observed version of an own entry; the order of calls does not matter. A version that
// cannot be checked for says nothing.
func (m *learned) setOwn(key string, rev uint64, version int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.owns[key]
	newer := version - o.version // they wrap
	if ok && o.rev == rev && version != anyVersion && (newer > 0 || newer == 0 && o.old) {
		o.version, o.old = version, false
		m.owns[key] = o
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

// setDir notes that a directory has no value of its own, or that it may have one.
func (m *learned) setDir(path string, is bool) {
	if is {
		m.dirs.Put(path, struct{}{})
	} else {
		m.dirs.Forget(path)
	}
}

// bury notes that an incarnation is gone. It never comes back, and a caller that asks to delete it
// again gets its answer without a request, whose reply might be lost.
func (m *learned) bury(key string, rev uint64) {
	m.forget(key)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone.Limit(driver.GoneLeast + remembered*m.before.Len())
	m.gone.Change(key, func(newest uint64, _ bool) (uint64, bool) { return rev, rev > newest })
	if o, known := m.owns[key]; known && o.rev <= rev {
		m.paths -= pathBytes(m.chroot + len(key))
		delete(m.owns, key)
	}
}

// ended notes that an own incarnation is gone: see driver.Past. The caller holds mu.
func (m *learned) ended(key string, rev, newest uint64) {
	place := key
	if isEnqueued(key) {
		place = backend.Parent(key) + "/"
	}
	m.past.Add(key, rev, place)
	m.endedAt = max(m.endedAt, newest)
}

// latest returns an own entry that was made on one of the first links, and after the end of all that
// have ended.
func (m *learned) latest(links uint64) (key string, rev uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, o := range m.owns {
		if o.gen <= links && o.rev > m.endedAt {
			return k, o.rev
		}
	}
	return "", 0
}

func (m *learned) isGone(e backend.Entry) bool {
	newest, _ := m.gone.Get(e.Key) // 0 if nothing is known: no entry has that revision
	return e.Rev <= newest
}

// candidates returns the names in dir except those of known lookalikes.
func (m *learned) candidates(dir string, names []name) []name {
	if m.alike.Len() == 0 { // the usual case
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), func(n name) bool { return m.alike.Has(dir + "/" + n.text) })
}

// forget drops what is known of an entry that is gone.
func (m *learned) forget(key string) {
	m.before.Forget(key)
	m.proofs.Forget(key)
}
