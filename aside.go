package elector

import (
	"context"
	"errors"

	"github.com/elector-go/elector/backend"
)

// aside is the session that a strategy has. It looks for strangers from time to time
// while it waits. Its requests run on goroutines of their own: the caller is a campaign,
// which may go on to wait for days, and Go would leave it the stack that one deep call has
// taken, up to 16 KB for a request to etcd or Consul, of which waiting needs 4.
func aside(s *backend.Session, l *lookout) *backend.Session {
	// look ends the wait of a candidate that finds strangers, so that it withdraws.
	look := func(ctx context.Context) error {
		err := apart(func() error { return l.look(ctx) })
		if err != nil {
			l.report(err)
		}
		return err
	}
	return s.Around(backend.Layer{Call: func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
		switch c.Kind {
		case backend.CallAwait, backend.CallAwaitList:
			return l.watch(ctx, look, next)
		case backend.CallDiscard, backend.CallClose:
			return next(ctx)
		}
		return apart(func() error { return next(ctx) })
	}})
}

// errGoexit is the outcome of a call that has none: a zero result without an error would be
// taken for an answer.
var errGoexit = errors.New("the call has ended its goroutine (runtime.Goexit, or FailNow of a test in a trace)")

// apart runs a call on a goroutine of its own, and waits for it.
func apart(do func() error) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = errGoexit
		err = do()
	}()
	<-done
	return err
}
