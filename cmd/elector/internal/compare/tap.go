package compare

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend"
)

// activity tells whether candidates are at rest.
type activity struct {
	busy  atomic.Int64 // calls and notices under way; a wait that is blocked is not
	moves atomic.Int64 // beginnings and ends of them, and of waits
}

func (a *activity) begin() { a.busy.Add(1); a.moves.Add(1) }
func (a *activity) end()   { a.busy.Add(-1); a.moves.Add(1) }

// A tap is a Backend that passes everything on, tells what is under way, and makes each
// message take its time: requests, answers, and notices of changes take half a round trip
// each. That nothing overtakes anything on the way is not simulated: a candidate's calls
// come one after the other wherever their order matters.
type tap struct {
	backend.Backend
	activity *activity
	half     time.Duration // of a round trip
}

// Open implements backend.Backend.
func (t *tap) Open(ctx context.Context, o backend.OpenOptions) (backend.Session, error) {
	return travel(t, func() (backend.Session, error) {
		s, err := t.Backend.Open(ctx, o)
		if err != nil {
			return nil, err
		}
		return &tapped{Session: s, tap: t}, nil
	})
}

// travel makes a call of which the answer is awaited.
func travel[T any](t *tap, do func() (T, error)) (T, error) {
	t.activity.begin()
	defer t.activity.end()
	time.Sleep(t.half)
	v, err := do()
	time.Sleep(t.half)
	return v, err
}

// await makes a call that blocks until there is a notice. It subscribes first.
func await[T any](t *tap, do func() (T, error)) (T, error) {
	t.activity.begin()
	time.Sleep(t.half)
	t.activity.end()
	v, err := do()
	t.activity.begin()
	defer t.activity.end()
	if err == nil {
		time.Sleep(t.half)
	}
	return v, err
}

type tapped struct {
	backend.Session
	tap *tap
}

// Unwrap returns the session below.
func (s *tapped) Unwrap() backend.Session { return s.Session }

func (s *tapped) Get(ctx context.Context, key string) (backend.Entry, error) {
	return travel(s.tap, func() (backend.Entry, error) { return s.Session.Get(ctx, key) })
}

func (s *tapped) Survey(ctx context.Context, key string, known func(backend.Entry) string) (e backend.Entry, strangers []string, err error) {
	e, err = travel(s.tap, func() (e backend.Entry, err error) {
		e, strangers, err = s.Session.Survey(ctx, key, known)
		return e, err
	})
	return e, strangers, err
}

func (s *tapped) List(ctx context.Context, dir string) (backend.Listing, error) {
	return travel(s.tap, func() (backend.Listing, error) { return s.Session.List(ctx, dir) })
}

func (s *tapped) Predecessor(ctx context.Context, e backend.Entry) (backend.Entry, error) {
	return travel(s.tap, func() (backend.Entry, error) { return s.Session.Predecessor(ctx, e) })
}

func (s *tapped) AwaitList(ctx context.Context, known backend.Listing) (backend.Listing, error) {
	return await(s.tap, func() (backend.Listing, error) { return s.Session.AwaitList(ctx, known) })
}

func (s *tapped) Await(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
	do := func() ([]backend.Entry, error) { return s.Session.Await(ctx, known...) }
	if slices.ContainsFunc(known, backend.Entry.IsUnknown) {
		return travel(s.tap, do) // a read
	}
	return await(s.tap, do)
}

func (s *tapped) Commit(ctx context.Context, guards []backend.Guard, ops ...backend.Op) ([]backend.Entry, error) {
	return travel(s.tap, func() ([]backend.Entry, error) { return s.Session.Commit(ctx, guards, ops...) })
}

func (s *tapped) Drop(ctx context.Context, e backend.Entry) error {
	_, err := travel(s.tap, func() (struct{}, error) { return struct{}{}, s.Session.Drop(ctx, e) })
	return err
}
