package electionrules

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/meter"
)

// A tap stands between an elector and its backend, which counts what passes.
type tap struct {
	*meter.Backend

	mu       sync.Mutex
	sessions []*backend.Session
	waits    int           // that are under way, for something known
	deaf     chan struct{} // while not nil: nothing is heard of a session's state
	frozen   bool          // nor of any entry, and the window does not end
	overdue  time.Time     // if set: when the window has ended, though nothing was heard of it
	stalls   stops[passing]
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

// waiting tells whether the elector waits for a change of what it has been told of.
func (t *tap) waiting() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waits > 0
}

func (t *tap) wait() (done func()) {
	add := func(n int) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.waits += n
	}
	add(1)
	return func() { add(-1) }
}

// tapped is the layer around a session, and its Life.
type tapped struct {
	*backend.Session
	t      *tap
	closed context.Context // ends with Close: that, the elector knows of itself
	ended  context.CancelFunc
}

func (s tapped) call(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
	if c.Waits() {
		if c.Kind == backend.CallAwait {
			s.t.stalls.pass(passing{await: true})
		}
		defer s.t.wait()()
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
		if (err != nil || s.t.isFrozen()) && !s.hears(ctx) {
			return ctx.Err()
		}
		return err
	}
	return next(ctx)
}

// deafen keeps from the elector what becomes of its sessions, until hear.
func (c *candidate) deafen() (hear func()) { return c.silence(false) }

// freeze has the elector believe that all is as it was, until thaw: nothing is heard
// of its sessions and of any entry, and its trust in them does not end. What it asks
// for itself is done and answered.
func (c *candidate) freeze() (thaw func()) { return c.silence(true) }

func (c *candidate) silence(frozen bool) (end func()) {
	t := c.tap
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deaf, t.frozen = make(chan struct{}), frozen
	return c.atEnd(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		close(t.deaf)
		t.deaf, t.frozen = nil, false
	})
}

func (t *tap) isFrozen() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.frozen
}

// oversleep has the trust window end now, which no timer of the elector's knows of.
func (t *tap) oversleep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.overdue = time.Now()
}

// A passing is a commit on its way from the elector to its backend, or its answer on
// the way back, or an Await or a Get on its way there.
type passing struct {
	ops    []backend.Op
	answer bool
	await  bool   // for something known
	read   string // the key of a Get
}

// commits picks a commit that has an op of this kind.
func commits(kind backend.OpKind) func(passing) bool {
	return func(p passing) bool { return !p.answer && p.has(kind) }
}

// answers picks the answer to such a commit.
func answers(kind backend.OpKind) func(passing) bool {
	return func(p passing) bool { return p.answer && p.has(kind) }
}

// gets picks a Get of this key.
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
	case s.t.frozen:
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
