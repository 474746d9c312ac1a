package electionrules

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/meter"
)

// A tap is between an elector and its backend, which counts the calls.
type tap struct {
	*meter.Backend

	mu       sync.Mutex
	sessions []*backend.Session
	deaf     chan struct{} // while not nil, the elector hears nothing of a session's state
	frozen   atomic.Bool   // nor of any entry, and the window does not end
	overdue  time.Time     // if set: when the window has ended, though the elector heard nothing of it
	stalls   stops[passing]
	waits    atomic.Int32 // pending, for known entries
}

func (t *tap) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	s, err := t.Backend.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions = append(t.sessions, s)
	closed, ended := context.WithCancel(context.Background())
	life := tapped{s, t, closed, ended}
	return s.Around(backend.Layer{Life: life, Call: life.call}), nil
}

// session returns the session that was opened last.
func (t *tap) session() *backend.Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.sessions) == 0 {
		return nil
	}
	return t.sessions[len(t.sessions)-1]
}

func (t *tap) opened() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.sessions)
}

// waiting reports whether the elector waits for a change of something that it knows.
func (t *tap) waiting() bool { return t.waits.Load() > 0 }

// tapped is the layer around a session, and its Life.
type tapped struct {
	*backend.Session
	t      *tap
	closed context.Context // ends with Close: the elector knows of that itself
	ended  context.CancelFunc
}

func (s tapped) call(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
	if c.Waits() {
		if c.Kind == backend.CallAwait {
			s.t.stalls.pass(passing{await: true})
		}
		s.t.waits.Add(1)
		defer s.t.waits.Add(-1)
	}
	switch c.Kind {
	case backend.CallClose:
		s.ended()
	case backend.CallGet:
		s.t.stalls.pass(passing{read: c.Key})
	case backend.CallCommit:
		s.t.stalls.pass(passing{ops: c.Ops})
		defer s.t.stalls.pass(passing{ops: c.Ops, answer: true})
	case backend.CallAwait:
		err := next(ctx)
		if (err != nil || s.t.frozen.Load()) && !s.hears(ctx) {
			return ctx.Err()
		}
		return err
	}
	return next(ctx)
}

// deafen hides the state of its sessions from the elector, until hear.
func (c *candidate) deafen() (hear func()) { return c.silence(false) }

// freeze makes the elector believe that nothing changes, until thaw: it hears nothing of its sessions and
// of any entry, and its trust in them does not end. Its own calls are done and answered.
func (c *candidate) freeze() (thaw func()) { return c.silence(true) }

func (c *candidate) silence(frozen bool) (end func()) {
	t := c.tap
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deaf = make(chan struct{})
	t.frozen.Store(frozen)
	return c.atEnd(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		close(t.deaf)
		t.deaf = nil
		t.frozen.Store(false)
	})
}

// oversleep ends the trust window now, unnoticed by any timer of the elector.
func (t *tap) oversleep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.overdue = time.Now()
}

// A passing is a commit on its way from the elector to its backend, or its reply on the way back, or an
// Await or a Get on its way there.
type passing struct {
	ops    []backend.Op
	answer bool
	await  bool   // for known entries
	read   string // the key of a Get
}

// commits selects a commit that has an op of this kind.
func commits(kind backend.OpKind) func(passing) bool {
	return func(p passing) bool { return !p.answer && p.has(kind) }
}

// answers selects the reply to such a commit.
func answers(kind backend.OpKind) func(passing) bool {
	return func(p passing) bool { return p.answer && p.has(kind) }
}

// gets selects a Get of this key.
func gets(key string) func(passing) bool { return func(p passing) bool { return p.read == key } }

func (p passing) has(kind backend.OpKind) bool {
	return slices.ContainsFunc(p.ops, func(op backend.Op) bool { return op.Kind == kind })
}

// hears blocks while the elector is deaf. It returns false if ctx ended first.
func (s tapped) hears(ctx context.Context) bool {
	s.t.mu.Lock()
	deaf := s.t.deaf
	s.t.mu.Unlock()
	if deaf == nil {
		return true
	}
	select {
	case <-deaf:
		return true
	case <-s.closed.Done():
		return true
	case <-ctx.Done():
		return false
	}
}

func (s tapped) Deadline() time.Time {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	switch {
	case !s.t.overdue.IsZero():
		return s.t.overdue
	case s.t.frozen.Load():
		return time.Now().Add(1000 * time.Hour)
	}
	return s.Session.Deadline()
}

func (s tapped) State() backend.State {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if s.t.deaf != nil && s.closed.Err() == nil {
		return backend.Live
	}
	return s.Session.State()
}

func (s tapped) AwaitState(ctx context.Context, prev backend.State) (backend.State, error) {
	for {
		state, err := s.Session.AwaitState(ctx, prev)
		if err != nil || s.hearsNow() {
			return state, err
		}
		if !s.hears(ctx) {
			return state, ctx.Err()
		}
	}
}

func (s tapped) hearsNow() bool {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	return s.t.deaf == nil || s.closed.Err() != nil
}

// A stop is a point at which a goroutine of a candidate is held, once, until release.
type stop struct {
	a        *arena
	arrived  chan struct{}
	released chan struct{}
	release  func()
}

// reached waits until the goroutine is held.
func (s *stop) reached(what string) { arrives(s.a, what, s.arrived) }

// stops holds the stops that are set and not yet reached.
type stops[E any] struct {
	mu  sync.Mutex
	set []picking[E]
}

type picking[E any] struct {
	*stop
	at func(E) bool
}

// hold sets a stop at the next event that at selects.
func hold[E any](c *candidate, s *stops[E], at func(E) bool) *stop {
	next := &stop{a: c.a, arrived: make(chan struct{}), released: make(chan struct{})}
	next.release = c.atEnd(func() { close(next.released) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = append(s.set, picking[E]{next, at})
	return next
}

// pass runs on the goroutine that is held. It ignores ctx.
func (s *stops[E]) pass(event E) {
	s.mu.Lock()
	i := slices.IndexFunc(s.set, func(p picking[E]) bool { return p.at(event) })
	if i < 0 {
		s.mu.Unlock()
		return
	}
	at := s.set[i]
	s.set = slices.Delete(s.set, i, i+1)
	s.mu.Unlock()
	close(at.arrived)
	<-at.released
}
