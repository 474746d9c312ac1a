package elector

import (
	"context"

	"github.com/elector-go/elector/backend"
)

// An aside is a session whose requests run on goroutines of their own. The caller is a
// campaign, which may go on to wait for days, and Go would leave it the stack that one
// deep call has taken: up to 16 KB for a request to etcd or Consul, of which waiting
// needs 4.
type aside struct{ backend.Session }

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

// apart runs a call on a goroutine of its own, and waits for it.
func apart[T any](do func() (T, error)) (v T, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		v, err = do()
	}()
	<-done
	return v, err
}
