package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

var errWatchEnded = errors.New("the watch has ended")

// A registry is the watches of a session. A watch that nobody waits on is kept for the next call, for
// at most the session's timeout, and until another watch with one of its keys is made.
type registry struct {
	s      *session
	mu     sync.Mutex
	byKey  map[string][]*watch // under each of their keys
	dirs   map[string]int      // how many are in byKey, by directory
	below  map[string]int      // how many directories are in dirs, by feedPath
	feeds  map[string]*feed    // by path
	unfed  map[string]bool     // the paths that are not to have a feed
	unused int                 // watches made ahead since a call waited on one: see ahead
	spent  *watch              // nobody waits on it any more, and it holds the stream: see spend
}

// A watch keeps what exists under some keys of one directory, in the order in which the service has
// changed it: all keys are in the range of one etcd watch. Events of keys in between are passed over.
//
// The etcd watch begins at the newest revision. From an older one a server serves it only every 100 ms
// until it has caught up, which a handover would have to wait for. So before any event is applied, a
// read gets what exists at the revision of the reply to the watch's creation, or at a later one: no
// change in between is missed (see meet). As a rule nothing waits for that read: it is sent beside the
// creation, or the watch was made ahead.
type watch struct {
	keys    []string // sorted
	ctx     context.Context
	cancel  context.CancelFunc
	reading chan struct{} // held by the goroutine that reads

	// Guarded by registry.mu.
	now     snapshot // as of rev; nil before the first read
	rev     int64
	feed    *feed             // that feeds it; nil: it has an etcd watch of its own, or none yet
	met     bool              // what exists is known as of the feed's position, or was as it ended
	inbox   []*clientv3.Event // of the feed, until they are applied
	hidden  bool              // it is being made ahead: join does not find it
	spare   bool              // it was made ahead, and nobody has waited on it
	err     error             // why it has ended
	waiters []*waiter
	idle    *time.Timer
}

// A waiter is one call that waits until something differs from what it knows.
type waiter struct {
	known []backend.Entry
	since int64                // the caller was given what existed then
	out   chan []backend.Entry // nil: a read is needed
}

func newWaiter(known []backend.Entry, since int64) *waiter {
	return &waiter{known: known, since: since, out: make(chan []backend.Entry, 1)}
}

// join makes a waiter wait on a watch that covers the keys.
func (r *registry) join(w *waiter, keys []string) *watch {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.find(keys)
	if t == nil {
		r.retire(keys)
		t = r.make(keys)
		r.list(t)
		r.recall(t)
		r.run(t)
	}
	if t.spare {
		t.spare, r.unused = false, 0
	}
	if t.idle != nil {
		t.idle.Stop()
		t.idle = nil
	}
	t.waiters = append(t.waiters, w)
	return t
}

// make returns a new watch, which join does not find yet.
func (r *registry) make(keys []string) *watch {
	t := &watch{keys: keys, reading: make(chan struct{}, 1)}
	t.ctx, t.cancel = context.WithCancel(r.s.Ctx)
	return t
}

// list makes join find a watch, and a feed feed it. Caller holds mu.
func (r *registry) list(t *watch) {
	for _, key := range t.keys {
		r.byKey[key] = append(r.byKey[key], t)
	}
	if dir := backend.Parent(t.keys[0]); feedPath(t.keys[0]) != "" {
		if r.dirs[dir]++; r.dirs[dir] == 1 {
			r.below[feedPath(t.keys[0])]++
		}
	}
}

// find returns a watch that covers the keys. Caller holds mu.
func (r *registry) find(keys []string) *watch {
	for _, t := range r.byKey[keys[0]] {
		if !t.hidden && !slices.ContainsFunc(keys, func(key string) bool { return !slices.Contains(t.keys, key) }) {
			return t
		}
	}
	return nil
}

// recall uses what Enqueue has read as the first read. Caller holds mu.
func (r *registry) recall(t *watch) {
	st := r.s.learned.last()
	for _, key := range t.keys {
		if key != st.own.Key && (key != st.before.Key || !st.before.Exists()) {
			return
		}
	}
	t.now, t.rev = snapshot{st.own}, st.rev
	if st.before.Exists() {
		t.now = append(t.now, st.before)
		r.unused = 0 // one made ahead would have been of use
	}
}

// leave ends the wait.
func (r *registry) leave(w *waiter, t *watch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.waiters = slices.DeleteFunc(t.waiters, func(o *waiter) bool { return o == w })
	if len(t.waiters) == 0 && t.ctx.Err() == nil {
		r.keep(t)
	}
}

// keep keeps a watch that nobody waits on for the next call. Caller holds mu.
func (r *registry) keep(t *watch) {
	t.idle = time.AfterFunc(r.s.TTL(), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(t.waiters) == 0 {
			r.drop(t)
		}
	})
}

// retire drops the watches with one of these keys that nobody waits on. Caller holds mu.
func (r *registry) retire(keys []string) {
	for _, key := range keys {
		for _, t := range slices.Clone(r.byKey[key]) {
			if len(t.waiters) == 0 && !t.hidden {
				r.drop(t)
			}
		}
	}
}

// drop ends a watch. Caller holds mu.
func (r *registry) drop(t *watch) {
	t.cancel()
	if t.idle != nil {
		t.idle.Stop()
	}
	if r.spent == t {
		r.spent = nil
	}
	r.detach(t)
	r.unlist(t)
}

// unlist stops join from finding a watch. Caller holds mu.
func (r *registry) unlist(t *watch) {
	listed := false
	for _, key := range t.keys {
		was := len(r.byKey[key])
		left := slices.DeleteFunc(r.byKey[key], func(o *watch) bool { return o == t })
		listed = len(left) < was
		if len(left) == 0 {
			delete(r.byKey, key)
		} else {
			r.byKey[key] = left
		}
	}
	dir, path := backend.Parent(t.keys[0]), feedPath(t.keys[0])
	if !listed || path == "" {
		return
	}
	if r.dirs[dir]--; r.dirs[dir] == 0 {
		delete(r.dirs, dir)
		if r.below[path]--; r.below[path] == 0 {
			delete(r.below, path)
			if f := r.feeds[path]; f != nil {
				r.close(f)
			}
		}
	}
}

// spend keeps a watch that is of no more use until the next one is made, or its time is over: the
// client ends a stream with its last watch, and a former leader usually comes again. Caller holds mu.
func (r *registry) spend(t *watch) {
	if t.idle == nil || t.feed != nil {
		r.drop(t)
		return
	}
	if r.spent != nil && r.spent != t {
		r.drop(r.spent)
	}
	r.spent = t
	r.unlist(t)
}

// look returns what differs from what the waiter knows, or reports that this must be read. What the
// watch knows may be older than what the caller was given elsewhere: the watch will hear of the rest.
func (r *registry) look(w *waiter, t *watch) (seen []backend.Entry, read bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.now == nil {
		return nil, true
	}
	seen, differs := compare(w.known, t.now)
	switch {
	case !differs:
		return nil, false
	case t.position() < w.since:
		return nil, true
	}
	r.s.shows(t.rev)
	return seen, false
}

// has reports whether the watch knows what exists, as of the revision since or later.
func (r *registry) has(t *watch, since int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return t.now != nil && t.position() >= since
}

// position returns the revision as of which it is known what exists. Caller holds registry.mu.
func (t *watch) position() int64 {
	if t.feed != nil && t.met {
		return max(t.rev, t.feed.pos)
	}
	return t.rev
}

// merge stores what was read at a revision.
func (r *registry) merge(t *watch, found snapshot, rev int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.now != nil && rev < t.position() {
		return
	}
	t.now = make(snapshot, len(t.keys))
	for i, key := range t.keys {
		t.now[i] = found.at(key)
	}
	t.rev = rev
	t.tell(r.s)
}

// run starts the watch. Caller holds mu.
func (r *registry) run(t *watch) {
	if r.s.Begin() { // else the session is over, and t.ctx with it
		go r.follow(t)
	}
}

// tell wakes the waiters that know something else. Caller holds registry.mu.
func (t *watch) tell(s *session) {
	t.waiters = slices.DeleteFunc(t.waiters, func(w *waiter) bool {
		seen, differs := compare(w.known, t.now)
		if !differs {
			return false
		}
		if t.position() < w.since {
			seen = nil // the caller was given something later
		} else {
			s.shows(t.rev)
		}
		w.out <- seen
		return true
	})
}

// follow keeps a watch current until it is dropped. When the etcd watch ends for any reason, such as a
// compaction or a member without a leader, follow reads again, and makes another watch.
func (r *registry) follow(t *watch) {
	defer r.s.Done()
	last := t.keys[len(t.keys)-1] + "\x00"
	for pause := (driver.Pause{}); ; {
		began := time.Now()
		var fed bool
		var unread, err error
		if f := r.feed(t); f != nil {
			if fed, unread, err = r.attach(f, t); fed {
				return // supply calls run again when the feed ends
			}
			if errors.Is(err, errUnawaited) {
				continue
			}
		} else {
			answers, end := r.s.watch(t.ctx, t.keys[0], clientv3.WithRange(last), clientv3.WithCreatedNotify())
			unread, err = r.receive(t, answers)
			end(err)
		}
		if t.ctx.Err() != nil {
			r.mu.Lock()
			r.drop(t) // else its timer would hold the lost session and the client for a while
			r.mu.Unlock()
			return
		}
		if unread == nil && isForbidden(err) {
			err = as(backend.ErrDenied, err)
		} else {
			if time.Since(began) > time.Second {
				pause = driver.Pause{}
			}
			r.s.BeatSoon()
			pause.Wait(t.ctx)
			if err = unread; err == nil {
				err = r.s.refresh(t.ctx, t, r.position(t)+1)
			}
			if refused(err) && t.ctx.Err() == nil {
				// Reads are refused, and heartbeats are not: no reason to leave a seat or a place.
				r.s.cfg.Logger.Warn("etcd: a watch cannot go on; trying again", "session", r.s.ID(), "error", err)
				continue
			}
		}
		if err != nil {
			r.mu.Lock()
			t.err = err
			r.drop(t)
			r.mu.Unlock()
			return
		}
	}
}

func (r *registry) position(t *watch) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return t.position()
}

// receive applies events until the etcd watch ends, or what exists cannot be read when it begins:
// unread is why.
func (r *registry) receive(t *watch, answers clientv3.WatchChan) (unread, err error) {
	for answer := range answers {
		if err := watchError(&answer); err != nil {
			return nil, err
		}
		if answer.Created && answer.Header.GetRevision() <= 0 {
			return nil, errHollow // nobody knows from where it reports, nor does the client, which would resume from there
		}
		r.s.streams.heard.Add(1)
		r.s.saw(answer.Header.GetRevision())
		if answer.Created {
			if unread = r.meet(t, answer.Header.GetRevision()); unread != nil {
				return unread, nil
			}
			continue
		}
		r.mu.Lock()
		r.apply(t, answer.Events)
		r.mu.Unlock()
	}
	return nil, errWatchEnded
}

// meet is called when the etcd watch has been made, which reports all that is done after the revision
// rev. What was done before is read, unless what existed then is already known: events that arrive
// meanwhile wait, so that none of them is reported before an earlier change.
func (r *registry) meet(t *watch, rev int64) error {
	r.mu.Lock()
	if r.spent != nil && r.spent != t {
		r.drop(r.spent)
	}
	rev = t.since(rev)
	unwanted := t.now == nil && len(t.waiters) == 0 && !t.spare
	if unwanted {
		r.drop(t)
	}
	r.mu.Unlock()
	if unwanted {
		return nil
	}
	return r.s.refresh(t.ctx, t, rev)
}

// apply applies all events that have arrived together: whole transactions, the last of which shows what
// exists. Caller holds mu.
func (r *registry) apply(t *watch, events []*clientv3.Event) {
	events = slices.DeleteFunc(events, func(e *clientv3.Event) bool { return e.Kv.ModRevision <= t.rev })
	if len(events) == 0 {
		return
	}
	t.rev = events[len(events)-1].Kv.ModRevision
	changed, gone := t.take(events)
	switch {
	case gone && len(t.waiters) == 0:
		r.spend(t) // the call that waited on it is done with it
	case changed:
		t.tell(r.s)
	}
}

// take notes what has changed, and reports whether something was deleted.
func (t *watch) take(events []*clientv3.Event) (changed, gone bool) {
	for _, event := range events {
		key := string(event.Kv.Key)
		i := t.now.index(key)
		if i < 0 {
			continue
		}
		changed = true
		if event.Type == mvccpb.DELETE {
			t.now[i], gone = backend.Entry{Key: key}, true
		} else {
			t.now[i] = toEntry(key, event.Kv)
		}
	}
	return changed, gone
}

// reason returns why a watch that a call waits on has ended.
func (r *registry) reason(ctx context.Context, t *watch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.err != nil {
		return t.err
	}
	if err := r.s.Over(ctx); err != nil {
		return err
	}
	return errWatchEnded
}

// watchError returns what a watch's response says about the watch itself.
func watchError(answer *clientv3.WatchResponse) error {
	err := answer.Err()
	if err == nil {
		return nil
	}
	// The client passes a refusal on as text.
	text := answer.CancelReason + err.Error()
	for _, denied := range []error{rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty} {
		if strings.Contains(text, denied.Error()) {
			return errors.Join(denied, err)
		}
	}
	for _, stale := range []error{rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision} {
		if strings.Contains(text, stale.Error()) {
			return fmt.Errorf("%w: %v", errWatchEnded, err) // not ErrDenied: a new stream may be accepted
		}
	}
	return err
}
