package conformance

import (
	"context"
	"sync"

	"github.com/elector-go/elector/backend"
)

// A tap stands between an elector and its backend and counts what passes.
type tap struct {
	backend.Backend

	mu       sync.Mutex
	sessions []backend.Session
	counts   counts
	deaf     chan struct{} // while not nil: nothing is heard of a session's state
}

// counts are calls that have returned.
type counts struct {
	awaits  int // with news of an entry
	lists   int // List and AwaitList
	reads   int // Get and Predecessor
	commits int
}

func (t *tap) Open(ctx context.Context, o backend.OpenOptions) (backend.Session, error) {
	s, err := t.Backend.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions = append(t.sessions, s)
	return tapped{s, t}, nil
}

// session returns the session that was opened last.
func (t *tap) session() backend.Session {
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

func (t *tap) seen() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}

func (t *tap) count(n *int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*n++
}

type tapped struct {
	backend.Session
	t *tap
}

func (s tapped) Get(ctx context.Context, key string) (backend.Entry, error) {
	e, err := s.Session.Get(ctx, key)
	s.t.count(&s.t.counts.reads)
	return e, err
}

func (s tapped) Predecessor(ctx context.Context, e backend.Entry) (backend.Entry, error) {
	p, err := s.Session.Predecessor(ctx, e)
	s.t.count(&s.t.counts.reads)
	return p, err
}

func (s tapped) List(ctx context.Context, dir string) (backend.Listing, error) {
	l, err := s.Session.List(ctx, dir)
	s.t.count(&s.t.counts.lists)
	return l, err
}

func (s tapped) AwaitList(ctx context.Context, known backend.Listing) (backend.Listing, error) {
	l, err := s.Session.AwaitList(ctx, known)
	s.t.count(&s.t.counts.lists)
	return l, err
}

func (s tapped) Await(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
	now, err := s.Session.Await(ctx, known...)
	if err == nil {
		s.t.count(&s.t.counts.awaits)
	} else if !s.t.hears(ctx) {
		return nil, ctx.Err()
	}
	return now, err
}

func (s tapped) Commit(ctx context.Context, guards []backend.Guard, ops ...backend.Op) ([]backend.Entry, error) {
	out, err := s.Session.Commit(ctx, guards, ops...)
	s.t.count(&s.t.counts.commits)
	return out, err
}

// deafen keeps from the elector what becomes of its sessions, until hear.
func (t *tap) deafen() (hear func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.deaf = make(chan struct{})
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		close(t.deaf)
		t.deaf = nil
	})
}

// hears blocks while the elector is deaf. It returns false if ctx ended first.
func (t *tap) hears(ctx context.Context) bool {
	t.mu.Lock()
	deaf := t.deaf
	t.mu.Unlock()
	if deaf == nil {
		return true
	}
	select {
	case <-deaf:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s tapped) State() backend.State {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if s.t.deaf != nil {
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
		if !s.t.hears(ctx) {
			return state, ctx.Err()
		}
	}
}

func (s tapped) hearsNow() bool {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	return s.t.deaf == nil
}
