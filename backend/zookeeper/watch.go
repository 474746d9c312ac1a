package zookeeper

import (
	"errors"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// The registry knows which watches the server holds for this session and what
// was read when each was set, so that waiting for an entry whose watch has not
// fired costs nothing.
//
// The client library gives a channel per watch, which somebody would have to
// receive from, which cannot be given back, and of which it keeps another one each
// time a path is watched on a new link. So the library knows of no watch: the reads
// that set one have it put into the request on its way (see watched). The registry
// is told of every event by the library's event callback: on the
// goroutine that reads from the connection, synchronously, in the order in which
// the server sent them.
//
// # Order of answers and events
//
// The server sends a session's answers and events in the order of the changes they
// show, and the library handles them in that order, on one goroutine. But the
// goroutine that asked learns of its answer later, when events that followed the
// answer may have been through the callback. So a watch is noted as reading BEFORE
// the request is queued, and each event for its path is counted: when the asking
// goroutine comes to note the answer, and finds that the count has changed, it
// reads again. Were the watch noted afterwards, the event would find nothing, and
// the wait would never end. The event may have belonged to an older watch and come
// before the answer; then a read is wasted.
//
// From this, under mu, at any moment: a watch that is armed and has not fired, in
// the present generation, shows what stands at the point of the stream up to which
// events have been handled. Several such watches show one and the same point: that
// is rule 4. A watch that fired by a deletion is known, without a read, to show
// "gone" at that event's point, and whatever was armed before it and fired later,
// or not at all, shows at that point what was read: so the handover of a fair
// election costs no round trip. pos counts events; armedAt and firedAt are in it.
// Changes of one transaction come as separate events in the order of its parts, and
// nothing in an event tells whether another of the same transaction follows: up to 3.8 the
// server sends -1 for the zxid in its header, and from 3.9 on the zxid, which does not tell
// it, either. Await shows what stands by all events that have come.
//
// # Generations
//
// A link's watches end with it. So a new generation makes all watches void, and all
// who wait read again. An answer is of the generation in which its watch was noted,
// unless that has changed since: then it is not used. Watches that the user has set by
// Conn the library has the server compare, on the next link, with what changed
// meanwhile. The events of that comparison may find watches of ours on the same
// paths: they void them needlessly, but a deletion among them is true, as
// the node was not there when the server compared, and a watch set on it
// before has had its own deletion event by then.
//
// A watch cannot be removed at the server. Those nobody waits for stay until they
// fire or the link ends, and are used again.
type registry struct {
	s *session

	mu      sync.Mutex
	up      bool
	gen     uint64
	pos     uint64
	watches map[watchKey]*watch
}

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
	idle   watchStatus = iota // nothing known
	armed                     // the server holds the watch, or has just fired it
	absent                    // nothing there, and no watch
	failed                    // the server refused to tell
)

// A watch is one path's. All but its identity is guarded by registry.mu.
type watch struct {
	key     watchKey
	status  watchStatus
	pending int           // requests on their way that set it
	events  uint64        // counts what may make their answers outdated
	reads   uint64        // counts reads that were begun
	entry   backend.Entry // what was read; without Rev when nothing was there
	rev     uint64        // what was read of a listing
	err     error         // for failed
	armedAt uint64        // events up to here came before entry was noted
	firedAt uint64        // the event that ended it; 0: none yet
	gone    bool          // it was a deletion
	waiters []driver.Waker
}

func (r *registry) init(s *session) {
	r.s = s
	r.watches = make(map[watchKey]*watch)
}

// valid tells whether the watch shows the present point of the stream.
func (t *watch) valid() bool { return t.status == armed && t.firedAt == 0 }

// join makes w a waiter of a path's watch. Caller holds mu.
func (r *registry) join(w driver.Waker, key watchKey) *watch {
	t := r.of(key)
	t.waiters = append(t.waiters, w)
	return t
}

// of returns a path's watch, which is made if there is none. Caller holds mu.
func (r *registry) of(key watchKey) *watch {
	t := r.watches[key]
	if t == nil {
		t = &watch{key: key}
		r.watches[key] = t
	}
	return t
}

// leave is the reverse. Watches that are of no more use are forgotten. Caller
// holds mu.
func (r *registry) leave(w driver.Waker, t *watch) {
	if i := slices.Index(t.waiters, w); i >= 0 {
		t.waiters = slices.Delete(t.waiters, i, i+1)
	}
	r.sweep(t)
}

func (r *registry) sweep(t *watch) {
	if len(t.waiters) == 0 && t.pending == 0 && !t.valid() {
		delete(r.watches, t.key)
	}
}

func (t *watch) notify() {
	for _, w := range t.waiters {
		w.Wake()
	}
}

// event takes one event of the server's.
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
	t := r.watches[key]
	if t == nil {
		return
	}
	t.events++
	if !t.valid() {
		return // only the first event is about what was read
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

// read begins to read a path and to set its watch, unless that is going on. Where
// nothing is there, awaitCreation leaves a watch for its creation. While the session is
// suspended nothing is done: the next generation wakes all. Caller holds mu.
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

// ahead begins to read a path and to set its watch, for whoever is about to need that.
func (r *registry) ahead(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.of(watchKey{path, dataWatch})
	if !t.valid() {
		r.read(t, false)
	}
	r.sweep(t)
}

// reading is a request on its way that sets a watch.
type reading struct {
	t           *watch
	gen, events uint64
}

// begin notes that a watch is about to be set. Caller holds mu.
func (r *registry) begin(t *watch) reading {
	t.status, t.firedAt, t.gone, t.err = idle, 0, false, nil
	t.pending++
	return reading{t: t, gen: r.gen, events: t.events}
}

// end tells whether the answer shows the present point of the stream. Caller
// holds mu.
func (r *registry) end(began reading, err error) bool {
	began.t.pending--
	return err == nil && began.gen == r.gen && began.events == began.t.events
}

// getWatched reads an entry and sets a watch on it: by getData, since an exists
// watch on a node that is gone stays at the server for good. It returns whether a
// watch was set. What may pass is ridden out for as long as the link stands: somebody
// may hold a seat, or a place, by this watch.
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
				continue // it was made in between
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
