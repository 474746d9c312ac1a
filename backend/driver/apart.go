package driver

import (
	"context"
	"errors"

	"github.com/elector-go/elector/backend"
)

// errGoexit is the outcome of a call that has none: a zero result without an error would be
// taken for an answer.
var errGoexit = errors.New("the call has ended its goroutine (runtime.Goexit, or FailNow of a test in a trace)")

// Apart runs a call that needs a deep stack on a goroutine of its own, and waits for it. The
// caller may be a campaign, which goes on to wait for days: Go would leave it the stack that one
// deep call has taken, up to 16 KB for a request to etcd or Consul, of which waiting needs 4.
func Apart[T any](do func() (T, error)) (T, error) {
	var done T
	err := errGoexit
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		done, err = do()
	}()
	<-ended
	return done, err
}

// EachApart returns s for a backend all of whose requests need a deep stack: each runs Apart. What
// waits (Await, AwaitList), discards or closes does not: the backend keeps its depth from the caller.
func EachApart(s *backend.Session) *backend.Session {
	return s.Around(backend.Layer{Call: func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
		switch c.Kind {
		case backend.CallAwait, backend.CallAwaitList, backend.CallDiscard, backend.CallClose:
			return next(ctx)
		}
		_, err := Apart(func() (struct{}, error) { return struct{}{}, next(ctx) })
		return err
	}})
}
