package simulate

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// nameSize is what one name of a listing takes on ZooKeeper's wire: backend/zookeeper's
// names are 46 bytes, and 4 bytes tell the length.
const nameSize = 50

// A server is the model at work. It is a queue and the watches; what is written stands in
// a memory.Service.
type server struct {
	ctx context.Context // of the caller, from outside of the bubble: asked, never waited for

	mu      sync.Mutex
	changed sync.Cond // when something that settle waits for may have come about
	model   report.Model
	free    time.Time // when the server will have done all that is queued
	heard   time.Time // when the last notice will have arrived
	moving  int       // requests that are under way
	packets int       // requests, answers and notices
	watches map[watchKey][]*watch
	random  *rand.Rand
	gate    chan struct{} // while not nil, lists and watches wait for it to be closed
	trace   func(report.Event)
}

func newServer(ctx context.Context, random *rand.Rand) *server {
	s := &server{ctx: ctx, watches: make(map[watchKey][]*watch), random: random}
	s.changed.L = &s.mu
	return s
}

// use sets the model; the zero Model takes no time.
func (s *server) use(m report.Model) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.model = m
}

// there and back are the halves of a round trip.
func there(m report.Model) time.Duration { return m.RoundTrip / 2 }
func back(m report.Model) time.Duration  { return m.RoundTrip - m.RoundTrip/2 }

// A visit is one request at the server: from the return of serve until done it is the
// server's turn to do what was asked for.
type visit struct {
	s     *server
	by    int // the candidate
	began time.Time
	model report.Model
}

// serve brings a request to the server and returns when the server has spent its cost on
// it. The caller must call done.
func (s *server) serve(by int, cost func(report.Model) time.Duration) (visit, error) {
	if err := s.ctx.Err(); err != nil {
		return visit{}, err
	}
	s.mu.Lock()
	s.moving++
	v := visit{s: s, by: by, began: time.Now(), model: s.model}
	s.mu.Unlock()
	time.Sleep(there(v.model))
	s.mu.Lock()
	s.packets++
	turn := s.queue(cost(v.model))
	s.mu.Unlock()
	time.Sleep(time.Until(turn))
	return v, nil
}

// queue adds work to the queue, and returns when it will be done. Caller holds mu.
func (s *server) queue(cost time.Duration) time.Time {
	if now := time.Now(); s.free.Before(now) {
		s.free = now
	}
	s.free = s.free.Add(cost)
	return s.free
}

// done brings the answer back.
func (v visit) done(kind report.EventKind) {
	s := v.s
	s.mu.Lock()
	s.packets++
	s.mu.Unlock()
	time.Sleep(back(v.model))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell(report.Event{At: sinceStart(v.began), Took: time.Since(v.began), Candidate: v.by, Kind: kind})
	if s.moving--; s.moving == 0 {
		s.changed.Broadcast()
	}
}

// sinceStart is an instant of the bubble's as a duration, for events, which are told
// relative to one of them later.
func sinceStart(t time.Time) time.Duration { return time.Duration(t.UnixNano()) }

// tell passes an event on to who watches closely. Caller holds mu.
func (s *server) tell(e report.Event) {
	if s.trace != nil {
		s.trace(e)
	}
}

// fire spends the watches on what has changed, at the instant of the change: a notice to
// each joins the queue. That to the session by, whose write it was, goes first and arrives
// with the answer, which in ZooKeeper does not overtake it. The order of the others is
// random, as it is not the server's to choose; the same seed makes the same order. Caller
// holds mu.
func (s *server) fire(by *session, key watchKey, gone bool) {
	fired := s.watches[key]
	if len(fired) == 0 {
		return
	}
	delete(s.watches, key)
	slices.SortFunc(fired, func(a, b *watch) int { return cmp.Compare(a.s.number, b.s.number) })
	s.random.Shuffle(len(fired), func(i, j int) { fired[i], fired[j] = fired[j], fired[i] })
	if i := slices.IndexFunc(fired, func(w *watch) bool { return w.s == by }); i > 0 {
		fired[0], fired[i] = fired[i], fired[0]
	}
	for _, w := range fired {
		s.packets++
		w.fired, w.gone = true, gone
		if gone {
			w.entry.Value = nil // nobody is to read it, and the watch stays
		}
		w.heard = s.queue(s.model.Notice).Add(back(s.model))
		if s.heard.Before(w.heard) {
			s.heard = w.heard
		}
		if w.s == by {
			w.heard = time.Now().Add(back(s.model))
		}
		s.tell(report.Event{At: sinceStart(w.heard), Candidate: w.s.number, Kind: report.WokenUp})
		w.s.signal()
	}
}

// written fires what the ops of a commit have changed. Caller holds mu.
func (s *server) written(by *session, ops []backend.Op, made []backend.Entry) {
	for i, op := range ops {
		switch op.Kind {
		case backend.OpCreateEphemeral, backend.OpEnqueue:
			s.appeared(by, made[i].Key)
		case backend.OpDelete:
			s.disappeared(by, op.Key)
		case backend.OpCompareAndSet:
			if made[i].Version == 1 {
				s.appeared(by, op.Key)
			} else {
				s.fire(by, watchKey{op.Key, false}, false)
			}
		case backend.OpUpdate:
			s.fire(by, watchKey{op.Key, false}, false)
		}
	}
}

func (s *server) appeared(by *session, key string) {
	s.fire(by, watchKey{key, false}, false)
	s.fire(by, watchKey{backend.Parent(key), true}, false)
}

// disappeared is the end of an entry; by is nil where the service itself has ended it.
func (s *server) disappeared(by *session, key string) {
	s.fire(by, watchKey{key, false}, true)
	s.fire(by, watchKey{backend.Parent(key), true}, false)
}

// watch has each event told, from now on; nil ends it.
func (s *server) watch(trace func(report.Event)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trace = trace
}

// sent is the number of packets so far.
func (s *server) sent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.packets
}

// waitAtGate blocks while the crowd joins.
func (s *server) waitAtGate() {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		<-gate
	}
}
