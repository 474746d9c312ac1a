package zookeeper

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
	"github.com/elector-go/elector/backend/zookeeper/internal/wire"
)

// The registry knows which watches the server holds for this session and what was read when each was
// set. So waiting for an entry whose watch has not fired costs nothing.
//
// The client library knows of no watch: the link adds the watch to the read's request (see
// wire.Pin.Watching). The library's event callback passes every event to the registry: on the goroutine
// that reads from the connection, synchronously, in the order in which the server sent them.
//
// Under mu, at any moment, a watch that is armed and has not fired, in the present generation, shows what
// exists at the point of the stream up to which events have been handled. Several such watches show the same
// point: that is rule 4. A watch that fired by a deletion shows "gone" at that event's point, and all that were
// armed before it and fired later, or not at all, show at that point what was read. pos counts events; armedAt
// and firedAt are positions in that count. DESIGN.md, "Order of replies and events", has the proof. It needs a
// watch to be noted as reading BEFORE the request is queued, and read again if an event for its path has come
// when the asking goroutine notes the reply. The event may belong to an older watch; then a read is wasted.
//
// A link's watches end with it: a new generation makes all watches void, and all waiting calls read again. A
// watch that nobody waits for stays until it fires or the link ends, and is used again. A session that lives
// for long would leave more and more of them, one for each election that it took part in and that is gone. So
// only the latest unusedMost stay; others are removed at the server.
type registry struct {
	s *session

	mu      sync.Mutex
	up      bool
	gen     uint64
	pos     uint64
	watches map[watchKey]*watch
	unused  []*watch // that nobody waited for when they were noted, oldest first
}

const (
	unusedMost = 256
	// unusedFor is how long more of them stay: most fire soon, as those of elections that all end at once, and a
	// removal is a request.
	unusedFor = time.Second
)

type watchKind uint8

const (
	dataWatch  watchKind = iota // on the node itself
	childWatch                  // on its list of children
)

type watchKey struct {
	path string
	kind watchKind
}

type watchStatus uint8

const (
	idle   watchStatus = iota // nothing is known
	armed                     // the server holds the watch, or has just fired it
	absent                    // nothing there, and no watch
	failed                    // the server refused the read
)

// A watch is the watch on one path. registry.mu guards all of it except its identity.
type watch struct {
	key     watchKey
	status  watchStatus
	pending int           // pending requests that set it, or remove it
	listed  bool          // among registry.unused
	removed bool          // its removal is pending: nobody may read
	events  uint64        // counts events that may make their replies outdated
	reads   uint64        // counts reads that have begun
	entry   backend.Entry // what was read; without Rev if nothing existed
	rev     uint64        // what was read of a listing
	err     error         // for failed
	armedAt uint64        // events up to here came before entry was noted
	firedAt uint64        // the event that ended it; 0: none yet
	gone    bool          // it was a deletion
	waiters []driver.Waker
}

// valid reports whether the watch shows the present point of the stream.
func (t *watch) valid() bool { return t.status == armed && t.firedAt == 0 }

// join makes w a waiter of a path's watch. The caller holds mu.
func (r *registry) join(w driver.Waker, key watchKey) *watch {
	t := r.of(key)
	t.waiters = append(t.waiters, w)
	return t
}

// of returns a path's watch, and creates it if there is none. The caller holds mu.
func (r *registry) of(key watchKey) *watch {
	t := r.watches[key]
	if t == nil {
		t = &watch{key: key}
		r.watches[key] = t
	}
	return t
}

// leave is the reverse of join. Useless watches are forgotten. The caller holds mu.
func (r *registry) leave(w driver.Waker, t *watch) {
	if i := slices.Index(t.waiters, w); i >= 0 {
		t.waiters = slices.Delete(t.waiters, i, i+1)
	}
	r.sweep(t)
}

func (r *registry) sweep(t *watch) {
	switch {
	case len(t.waiters) > 0 || t.pending > 0:
	case !t.valid():
		delete(r.watches, t.key)
	case !t.listed:
		t.listed = true
		r.unused = append(r.unused, t)
		if len(r.unused) == unusedMost+1 {
			time.AfterFunc(unusedFor, r.trim)
		}
	}
}

// trim removes all but the latest of the watches that nobody waits for.
func (r *registry) trim() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unused = slices.DeleteFunc(r.unused, func(t *watch) bool {
		t.listed = r.watches[t.key] == t && t.valid()
		return !t.listed
	})
	oldest := r.unused[:max(0, len(r.unused)-unusedMost)]
	r.unused = slices.Clone(r.unused[len(oldest):])
	for _, t := range oldest {
		t.listed = false
		r.remove(t)
	}
}

// remove removes a watch at the server, if nobody waits for it. Until that has replied, nobody uses the watch
// or sets it again: the request to set it might be done before this one. If the server refuses, the watch
// stays there, which is harmless. The caller holds mu.
func (r *registry) remove(t *watch) {
	if r.watches[t.key] != t || len(t.waiters) > 0 || t.pending > 0 || !t.valid() || !r.up || !r.s.Begin() {
		return
	}
	t.removed = true
	go func(began reading) {
		defer r.s.Done()
		r.s.leave(began.gen, r.s.unwatch(t.key))
		r.mu.Lock()
		defer r.mu.Unlock()
		t.pending--
		t.removed = false
		t.events, t.status = t.events+1, idle // a list that its caller left behind may have set it, too, too early
		t.notify()
		r.sweep(t)
	}(r.begin(t))
}

func (t *watch) notify() {
	for _, w := range t.waiters {
		w.Wake()
	}
}

// event handles one event of the server.
func (r *registry) event(e zk.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pos++
	switch e.Type {
	case zk.EventNodeCreated, zk.EventNodeDataChanged:
		r.fire(watchKey{e.Path, dataWatch}, false)
	case zk.EventNodeChildrenChanged:
		r.fire(watchKey{e.Path, childWatch}, false)
	case zk.EventNodeDeleted:
		// One event for both kinds.
		r.fire(watchKey{e.Path, dataWatch}, true)
		r.fire(watchKey{e.Path, childWatch}, true)
	}
}

func (r *registry) fire(key watchKey, deleted bool) {
	r.s.pin.Fired(key.on(), key.path)
	t := r.watches[key]
	if t == nil {
		return
	}
	t.events++
	if !t.valid() {
		return // only the first event is about the entry that was read
	}
	t.firedAt = r.pos
	t.gone = deleted && t.entry.Exists()
	t.notify()
	r.sweep(t)
}

// connected begins a new generation.
func (r *registry) connected(gen uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.up, r.gen = true, gen
	for _, t := range r.watches {
		t.events++
		t.status, t.entry, t.firedAt, t.gone = idle, backend.Entry{}, 0, false
		t.notify()
		r.sweep(t)
	}
}

func (r *registry) disconnected() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.up = false
}

// read starts to read a path and to set its watch, unless such a read is pending. If nothing is there,
// awaitCreation leaves a watch for its creation. While the session is suspended, read does nothing: the
// next generation wakes all. The caller holds mu.
func (r *registry) read(t *watch, awaitCreation bool) {
	if t.pending > 0 || !r.up || !r.s.Begin() {
		return
	}
	t.reads++
	go func(began reading) {
		defer r.s.Done()
		e, watched, err := r.s.getWatched(t.key.path, awaitCreation)
		r.s.leave(began.gen, err)
		r.mu.Lock()
		defer r.mu.Unlock()
		defer r.sweep(t)
		switch current := r.end(began, err); {
		case err != nil && !transient(err):
			t.status, t.err = failed, err
		case !current:
			t.status = idle
			if transient(err) && began.gen == r.gen {
				return // the link is going down; the next generation wakes all
			}
		case !watched:
			t.status, t.entry = absent, e
		default:
			t.status, t.entry, t.armedAt = armed, e, r.pos
		}
		t.notify()
	}(r.begin(t))
}

// ahead starts to read a path and to set its watch, for a call that is about to need them.
func (r *registry) ahead(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.of(watchKey{path, dataWatch})
	if !t.valid() {
		r.read(t, false)
	}
	r.sweep(t)
}

// reading is a pending request that sets a watch.
type reading struct {
	t           *watch
	gen, events uint64
}

// begin notes that a watch is about to be set. The caller holds mu.
func (r *registry) begin(t *watch) reading {
	t.status, t.firedAt, t.gone, t.err = idle, 0, false, nil
	t.pending++
	return reading{t: t, gen: r.gen, events: t.events}
}

// end reports whether the reply shows the present point of the stream. The caller holds mu.
func (r *registry) end(began reading, err error) bool {
	began.t.pending--
	return err == nil && began.gen == r.gen && began.events == began.t.events
}

// getWatched reads an entry and sets a watch on it: by getData, because an exists watch on a node that
// is gone stays at the server for good. It returns whether a watch was set. It rides out temporary
// errors for as long as the link exists: a seat, or a place, may depend on this watch.
func (s *session) getWatched(path string, awaitCreation bool) (backend.Entry, bool, error) {
	nothing := backend.Entry{Key: s.key(path)}
	for refused := (tries{}); ; {
		data, stat, err := s.getW(path)
		if err == nil {
			return s.entry(path, node{data, stat}), true, nil
		}
		if errors.Is(err, zk.ErrNoNode) {
			if !awaitCreation {
				return nothing, false, nil
			}
			var exists bool
			if exists, err = s.existsW(path); err == nil && exists {
				continue // it was created in between
			}
			if err == nil {
				return nothing, true, nil
			}
		}
		if s.Ctx.Err() != nil || transient(err) || !passing(err) {
			return nothing, false, s.explain(err)
		}
		if !refused.again(s.Ctx, s, err) {
			s.cfg.Logger.Warn("zookeeper: a watch cannot be set; trying again", "session", s.ID(), "key", nothing.Key, "error", err)
			refused.bout = driver.Bout{}
		}
	}
}

// getW reads a node and sets a watch on it, if it is there.
func (s *session) getW(path string) ([]byte, *zk.Stat, error) {
	defer s.pin.Watching(wire.OpGetData, path)()
	return s.conn.Get(path)
}

// existsW looks for a node and sets a watch on it, whether or not it exists.
func (s *session) existsW(path string) (bool, error) {
	defer s.pin.Watching(wire.OpExists, path)()
	exists, _, err := s.conn.Exists(path)
	return exists, err
}

// on returns what the watch is on, as servers number it.
func (k watchKey) on() byte {
	if k.kind == childWatch {
		return wire.OnChildren
	}
	return wire.OnNode
}

// unwatch removes a watch at the server.
func (s *session) unwatch(key watchKey) error {
	ask, done := s.pin.Unwatch(key.on(), key.path)
	defer done()
	_, err := s.conn.Sync(ask)
	return err
}

// childrenW lists a node's children and sets a watch on the list.
func (s *session) childrenW(path string) ([]string, *zk.Stat, error) {
	defer s.pin.Watching(wire.OpChildren, path)()
	return s.conn.Children(path)
}
