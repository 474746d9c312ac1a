package etcd

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
)

// A feed is one etcd watch for all that a session awaits in elections below one path. With a thousand of them, the
// client would have two goroutines for each watch, and make one after the other; and a server that has a thousand
// watches to tell of one transaction, such as the end of another session, falls behind, and tells some of them
// later than others.
//
// A feed also hears of what the session does not await. It pays if the same processes stand in all these
// elections, which is why they share a session. Where others stand there, too, so that it hears more than it is
// worth, each directory has its own watch again, for as long as the session lives.
type feed struct {
	path   string // of the elections' parent
	ctx    context.Context
	cancel context.CancelFunc
	made   chan struct{} // closed when the etcd watch is made

	// Guarded by registry.mu.
	pos       int64 // all that was done up to this revision has been delivered
	fed       int   // how many watches it feeds
	unawaited int   // events since from that nobody awaits, without those of the session's own entries
	from      time.Time
}

const (
	// fewFed is in how many directories below a path a session waits before it has a feed there.
	fewFed = 8
	// unawaitedPeriod and mostUnawaited bound what a feed may hear that nobody awaits: mostUnawaited events in a
	// period, and some more for each of its watches, as others may come to all elections at once.
	unawaitedPeriod      = 10 * time.Second
	mostUnawaited        = 1000
	mostUnawaitedPerEach = 8
	unawaitedBytes       = 1 << 10 // a longer value counts as several events
)

var errUnawaited = errors.New("too much of what is heard is not awaited")

// feedPath returns the path of a feed that may feed a watch: the parent of the election in whose directory its keys are.
// "/" has everything, and counts as none.
func feedPath(key string) string {
	path := backend.Parent(backend.Parent(backend.Parent(key)))
	if path == "/" {
		return ""
	}
	return path
}

// feed returns the feed for a watch, or nil if the watch is to have an etcd watch of its own.
func (r *registry) feed(t *watch) *feed {
	path := feedPath(t.keys[0])
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.feeds[path]
	if f != nil || path == "" || r.unfed[path] || r.below[path] < fewFed {
		return f
	}
	f = &feed{path: path, made: make(chan struct{}), from: time.Now()}
	f.ctx, f.cancel = context.WithCancel(r.s.Ctx)
	if !r.s.Run(func() { r.supply(f) }) {
		f.cancel()
		return f
	}
	if r.feeds == nil {
		r.feeds, r.unfed = make(map[string]*feed), make(map[string]bool)
	}
	r.feeds[path] = f
	return f
}

// attach makes a feed feed a watch, and reports whether it does. The errors are those of receive.
func (r *registry) attach(f *feed, t *watch) (fed bool, unread, err error) {
	select {
	case <-f.made:
	case <-f.ctx.Done():
	case <-t.ctx.Done():
	}
	r.mu.Lock()
	if f.ctx.Err() != nil || t.ctx.Err() != nil {
		defer r.mu.Unlock()
		if r.unfed[f.path] {
			return false, nil, errUnawaited
		}
		return false, nil, errWatchEnded
	}
	since := t.since(f.pos)
	t.feed, t.inbox = f, nil
	f.fed++
	r.mu.Unlock()
	unread = r.meet(t, since)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case t.feed != f: // it has ended, or the watch was dropped
		return false, unread, errWatchEnded
	case unread != nil:
		r.detach(t)
		return false, unread, nil
	}
	t.met = true
	r.apply(t, t.inbox)
	t.inbox = nil
	return true, nil, nil
}

// since returns the revision as of which a watch must know what exists when its next source begins at pos. What it
// knows from an earlier feed may be of another history. Caller holds registry.mu.
func (t *watch) since(pos int64) int64 {
	if t.met {
		pos, t.met = max(pos, t.rev+1), false
	}
	return pos
}

// detach ends the feeding of a watch. Caller holds mu.
func (r *registry) detach(t *watch) {
	f := t.feed
	if f == nil {
		return
	}
	t.rev, t.feed = t.position(), nil
	f.fed--
}

// close ends a feed. Caller holds mu.
func (r *registry) close(f *feed) {
	f.cancel()
	if r.feeds[f.path] == f {
		delete(r.feeds, f.path)
	}
}

// supply delivers what a feed hears until it ends. Then its watches find another source.
func (r *registry) supply(f *feed) {
	key := r.s.streams.key.Load()
	answers, end := r.s.watch(f.ctx, f.path+"/", clientv3.WithRange(f.path+"0"), clientv3.WithCreatedNotify(), clientv3.WithFragment())
	err := r.distribute(f, answers)
	end(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	if isForbidden(err) {
		r.s.streams.key.Store(key) // which may be read
	}
	if errors.Is(err, errUnawaited) || isForbidden(err) {
		r.unfed[f.path] = true
	}
	r.close(f)
	var all []*watch
	for _, of := range r.byKey {
		all = append(all, of...)
	}
	for _, t := range all {
		if t.feed != f {
			continue
		}
		r.detach(t)
		switch {
		case r.s.Ctx.Err() != nil:
			r.drop(t) // else its timer would hold the lost session and the client for a while
		case t.met: // else attach still runs
			r.run(t)
		}
	}
}

func (r *registry) distribute(f *feed, answers clientv3.WatchChan) error {
	for answer := range answers {
		if err := watchError(&answer); err != nil {
			return err
		}
		r.s.streams.heard.Add(1)
		r.s.saw(answer.Header.GetRevision())
		switch {
		case !answer.Created:
			if err := r.deliver(f, answer.Events); err != nil {
				return err
			}
		case answer.Header.GetRevision() <= 0:
			return errHollow
		default:
			r.mu.Lock()
			f.pos = answer.Header.GetRevision()
			r.mu.Unlock()
			close(f.made)
		}
	}
	return errWatchEnded
}

// deliver passes events, whole transactions, to the watches that cover their keys.
func (r *registry) deliver(f *feed, events []*clientv3.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var to []*watch
	pos := f.pos
	for _, event := range events {
		if event.Kv.ModRevision <= pos {
			continue // the client may tell it twice
		}
		f.pos = event.Kv.ModRevision
		key := string(event.Kv.Key)
		for _, t := range r.byKey[key] {
			if t.feed == f {
				if t.met && len(t.inbox) == 0 {
					to = append(to, t)
				}
				t.inbox = append(t.inbox, event)
			}
		}
		if name, _ := parseName(key); r.byKey[key] == nil && name.lease != r.s.lease {
			f.unawaited += 1 + len(event.Kv.Value)/unawaitedBytes
		}
	}
	for _, t := range to {
		r.apply(t, t.inbox)
		t.inbox = nil
	}
	if time.Since(f.from) < unawaitedPeriod {
		return nil
	}
	if f.unawaited > mostUnawaited+mostUnawaitedPerEach*f.fed {
		return errUnawaited
	}
	f.unawaited, f.from = 0, time.Now()
	return nil
}
