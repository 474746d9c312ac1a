package consul

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

const (
	// longPoll is how long a blocking query may stay unanswered. A request a minute per watch keeps
	// proxies from forgetting the connection.
	longPoll = time.Minute
	// linger is how long a watch that nobody waits for is kept.
	linger = time.Second
)

// The registry holds one watch per key, or directory, that is waited for. A watch is a blocking query:
// a request with a known index that is answered when there is a later one, or when time is up. It
// subscribes and reads in one.
//
// A watch need not show the present: other calls of this session may have shown later states meanwhile.
// floor is the least index at which what it shows may be used.
type registry struct {
	s *session

	mu      sync.Mutex
	closed  bool
	watches map[watchKey]*watch
	tree    *watch    // or nil: see tree.go
	bare    time.Time // until then only enough waits make another one
	enough  int
}

type watchKey struct {
	key  string
	list bool
	tree bool
}

// A watch is on one key. All but its identity is guarded by registry.mu.
type watch struct {
	watchKey
	running bool               // there is a goroutine, with a pending query
	stop    context.CancelFunc // ends that query; the goroutine continues
	since   uint64             // the index after which it waits; 0: it does not wait
	dropped bool               // the goroutine ends
	waiters []driver.Waker
	idle    *time.Timer // runs when nobody waits

	known   bool // whether the following is set
	entry   backend.Entry
	listing backend.Listing
	index   uint64 // of what was shown; if nothing exists, of all data
	floor   uint64
	err     error
	crowded bool // the agent had no connection for its query: see rest
	refused bout

	of      *watch                 // the tree that shows what this one waits for, without a query of its own
	planted int                    // how many had queries of their own when a tree was made
	members int                    // how many have none
	pairs   map[string]*api.KVPair // what a tree has shown
	fits    bool                   // it does not bring too much; only its goroutine uses this
	missed  int                    // looks in a row that could not read it
}

// join makes w a waiter of a watch. A new watch shows known, at index, unless that is 0. Caller holds
// mu.
func (r *registry) join(w driver.Waker, key watchKey, known backend.Entry, list backend.Listing, index uint64) *watch {
	t := r.watches[key]
	if t == nil {
		t = &watch{watchKey: key}
		if index != 0 {
			t.known, t.entry, t.listing, t.index = true, known, list, index
		}
		r.watches[key] = t
	}
	if t.idle != nil {
		t.idle.Stop()
		t.idle = nil
	}
	t.floor = max(t.floor, index)
	t.waiters = append(t.waiters, w)
	return t
}

// leave undoes join.
func (r *registry) leave(w driver.Waker, t *watch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(t.waiters, w); i >= 0 {
		t.waiters = slices.Delete(t.waiters, i, i+1)
	}
	if len(t.waiters) > 0 || r.watches[t.watchKey] != t {
		return
	}
	if !t.running && t.of == nil || r.closed {
		r.drop(t)
		return
	}
	t.idle = time.AfterFunc(linger, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(t.waiters) == 0 {
			r.drop(t)
		}
	})
}

// drop ends a watch. Caller holds mu.
func (r *registry) drop(t *watch) {
	t.dropped = true
	if t.stop != nil {
		t.stop()
	}
	if t.idle != nil {
		t.idle.Stop()
	}
	if r.watches[t.watchKey] == t {
		delete(r.watches, t.watchKey)
	}
	r.detach(t)
}

// close ends all watches.
func (r *registry) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, t := range r.watches {
		r.drop(t)
	}
}

// restart sends all queries again: the link that they were sent on may be broken, which the client
// would not notice before they time out.
func (r *registry) restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.watches {
		if t.stop != nil {
			t.stop()
		}
	}
}

// note notes what another call of this session has shown.
func (r *registry) note(entries ...backend.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries {
		t := r.watches[watchKey{key: e.Key}]
		if t == nil || !t.known {
			continue
		}
		if e.Exists() {
			t.floor = max(t.floor, indexOf(e))
		} else if t.entry.Exists() {
			t.known = false // it is gone, or did not exist yet: read again
		}
	}
}

// shows reports whether what the watch shows may be used. Caller holds mu.
func (t *watch) shows() bool { return t.known && t.index >= t.floor }

// ensure makes a watch run, and read again if what it has shown is in doubt. Caller holds mu.
func (r *registry) ensure(t *watch) {
	if t.running && !t.known && t.since != 0 && t.stop != nil {
		t.stop()
	}
	if t.of != nil && !t.known {
		r.detach(t)
	}
	if t.running || t.of != nil || t.dropped || r.attach(t) || t.running || !r.s.Begin() { // attach may have made it run
		return
	}
	t.running = true
	go r.run(t)
}

// doubt marks watches whose replies were not confirmed, which are read again.
func (r *registry) doubt(all []*watch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range all {
		t.known = false
	}
}

func (t *watch) notify() {
	for _, w := range t.waiters {
		w.Wake()
	}
}

// run asks until there is something new to show.
func (r *registry) run(t *watch) {
	defer r.s.Done()
	// If nothing is there the index is that of all data, and every write by anybody causes a reply.
	for again := (driver.Pause{}); ; {
		r.mu.Lock()
		if t.dropped || r.s.Ctx.Err() != nil {
			t.running = false
			r.mu.Unlock()
			return
		}
		if r.attach(t) {
			t.running = false
			r.mu.Unlock()
			return
		}
		ctx, stop := context.WithCancel(context.Background()) // close ends it
		t.stop = stop
		since, floor := t.index, t.floor
		if !t.known {
			since = 0
		}
		t.since = since
		rests := t.crowded && (since != 0 || t.tree)
		r.mu.Unlock()
		if rests {
			r.rest(ctx)
		}
		var a answer
		err := ctx.Err() // a client's own transport may send a request whose ctx has ended
		if err == nil {
			a, err = r.ask(ctx, t, since)
		}
		interrupted := ctx.Err() != nil
		stop()
		r.mu.Lock()
		t.stop = nil
		done := r.take(t, a, err, since, floor, interrupted)
		if done {
			t.running = false
		}
		refused := bout{news: t.refused.news}
		t.refused.news = nil
		r.mu.Unlock()
		refused.tell(r.s)
		if done {
			return
		}
		switch {
		case interrupted, err == nil && a.late:
		case err == nil && t.tree:
			again = driver.Pause{}
			r.breathe(t)
		default:
			_ = r.s.Pause(r.s.Ctx, &again) // its error is noticed above
		}
	}
}

// An answer is what a query has shown.
type answer struct {
	entry   backend.Entry
	listing backend.Listing
	pairs   api.KVPairs // of a tree
	sure    uint64      // a consistent read shows all up to this index
	index   uint64
	late    bool // time was up
}

// take stores an answer, and reports whether the query is done. Caller holds mu.
func (r *registry) take(t *watch, a answer, err error, since, floor uint64, interrupted bool) (done bool) {
	switch {
	case t.dropped, r.s.Ctx.Err() != nil:
		return true
	case t.tree && (errors.Is(err, errWide) || forbidden(err) && (t.pairs == nil || t.refused.denied.Over(mostRefused))):
		r.fell(t, err)
		return true
	case interrupted, t.rides(r.s, err, since):
		t.known = t.known && !(t.tree && forbidden(err)) // nor can looks read it: see look
		return false
	case err != nil && t.tree:
		r.fell(t, err)
		return true
	case err != nil:
		// All current waiters get the error; a later caller asks again.
		t.err = answerError(err)
		delete(r.watches, t.watchKey)
		t.notify()
		return true
	case a.index < since, a.index < t.floor && (since != 0 || t.floor != floor):
		// A leader that was deposed, or data that was restored: read again.
		t.known = false
		return false
	}
	t.refused = bout{}
	t.crowded = t.crowded && since == 0
	t.floor = min(t.floor, a.index) // a consistent read is right, even below the floor
	if t.tree {
		r.harvest(t, a)
		return false
	}
	same := t.known && (t.list && sameKeys(t.listing, a.listing) || !t.list && t.entry.Same(a.entry))
	t.known, t.entry, t.listing, t.index = true, a.entry, a.listing, a.index
	if same {
		return false
	}
	r.s.learned.saw(a.index)
	if !t.list {
		r.s.learned.note(a.entry)
	}
	t.notify()
	if len(t.waiters) == 0 {
		r.drop(t)
	}
	return true
}

// rest is for a wait for which the agent had no connection. Until it has one, the session's looks show
// changes, a third of the TTL apart, and stop ends the rest: see look. If the waits share the
// heartbeats' client the wait does not ask again, as it might get their connection.
func (r *registry) rest(ctx context.Context) {
	if every := r.s.lease.every(); r.s.b.waitsApart() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, every/2+rand.N(every))
		defer cancel()
	}
	<-ctx.Done()
}

// rides reports whether to send a query again after an error. Caller holds registry.mu.
func (t *watch) rides(s *session, err error, since uint64) bool {
	switch {
	case !transient(err):
		return false
	case crowded(err) && (since != 0 || t.tree && s.b.waitsApart()): // queries instead of a tree would need more connections
		t.crowded = true
		t.refused.note(err)
		return true
	case since != 0 && !forbidden(err):
		t.refused.note(err)
		return true // there is nothing to read, and looks make sure of that
	}
	t.refused.pauses(s)
	return !t.refused.over(s, err) // if rights are missing for good the waiters must know
}

// ask sends one query. The first one is answered at once and must be consistent; the others show
// something later.
func (r *registry) ask(ctx context.Context, t *watch, since uint64) (answer, error) {
	o := consistent(ctx)
	limit := r.s.patience
	if since != 0 {
		o.RequireConsistent, o.WaitIndex, o.WaitTime = false, since, longPoll
		limit += longPoll + longPoll/16 // the servers add that at random
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	o = o.WithContext(ctx)
	var a answer
	var err error
	if since == 0 {
		a.sure = r.s.learned.newest.Load()
	}
	switch {
	case t.tree:
		a.pairs, a.index, err = r.askTree(t, o)
	case t.list:
		var pairs api.KVPairs
		if pairs, a.index, err = r.s.b.kvList(path(t.key)+"/", o); err == nil {
			a.listing = listing(t.key, enqueued(t.key, pairs), a.index)
		}
	default:
		var p *api.KVPair
		if p, a.index, err = r.s.b.kvGet(path(t.key), o); err == nil {
			a.entry = entryAt(t.key, p)
		}
	}
	if err != nil {
		if speechless(err) {
			r.s.trouble()
		}
		return a, silent(ctx, err)
	}
	a.index, a.late = max(a.index, 1), time.Since(began) >= longPoll
	return a, nil
}
