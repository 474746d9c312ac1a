package elector

import (
	"context"
	"errors"

	"github.com/elector-go/elector/backend"
)

// An aside is the session that a strategy has. It looks for strangers from time to time
// while it waits. Its requests run on goroutines of their own: the caller is a campaign,
// which may go on to wait for days, and Go would leave it the stack that one deep call has
// taken, up to 16 KB for a request to etcd or Consul, of which waiting needs 4.
type aside struct {
	backend.Session
	lookout *lookout
}

func (s aside) Unwrap() backend.Session { return s.Session }

func (s aside) Get(ctx context.Context, key string) (backend.Entry, error) {
	return apart(func() (backend.Entry, error) { return s.Session.Get(ctx, key) })
}

func (s aside) List(ctx context.Context, dir string) (backend.Listing, error) {
	return apart(func() (backend.Listing, error) { return s.Session.List(ctx, dir) })
}

func (s aside) Predecessor(ctx context.Context, e backend.Entry) (backend.Entry, error) {
	return apart(func() (backend.Entry, error) { return s.Session.Predecessor(ctx, e) })
}

func (s aside) Commit(ctx context.Context, guards []backend.Guard, ops ...backend.Op) ([]backend.Entry, error) {
	return apart(func() ([]backend.Entry, error) { return s.Session.Commit(ctx, guards, ops...) })
}

func (s aside) Survey(ctx context.Context, key string, known func(backend.Entry) string) (e backend.Entry, strangers []string, err error) {
	e, err = apart(func() (e backend.Entry, err error) {
		e, strangers, err = s.Session.Survey(ctx, key, known)
		return e, err
	})
	return e, strangers, err
}

func (s aside) Await(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
	return watchful(ctx, s.lookout, s.look, func(ctx context.Context) ([]backend.Entry, error) {
		return s.Session.Await(ctx, known...)
	})
}

func (s aside) AwaitList(ctx context.Context, known backend.Listing) (backend.Listing, error) {
	return watchful(ctx, s.lookout, s.look, func(ctx context.Context) (backend.Listing, error) {
		return s.Session.AwaitList(ctx, known)
	})
}

// look ends the wait of a candidate that finds strangers, so that it withdraws.
func (s aside) look(ctx context.Context) error {
	_, err := apart(func() (struct{}, error) { return struct{}{}, s.lookout.look(ctx) })
	if err != nil {
		s.lookout.report(err)
	}
	return err
}

// errGoexit is the outcome of a call that has none: a zero result without an error would be
// taken for an answer.
var errGoexit = errors.New("the call has ended its goroutine (runtime.Goexit, or FailNow of a test in a trace)")

// apart runs a call on a goroutine of its own, and waits for it.
func apart[T any](do func() (T, error)) (v T, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = errGoexit
		v, err = do()
	}()
	<-done
	return v, err
}
