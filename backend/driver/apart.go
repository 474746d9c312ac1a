package driver

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/elector-go/elector/backend"
)

// Apart runs a call that needs a deep stack on a goroutine of its own, and waits for it. The caller may be
// a campaign, which then waits for days: Go would leave it the stack that one deep call took, up to 16 KB
// for a request to etcd or Consul, where waiting needs 4.
//
// A panic is passed on to the caller as text, with the stack of the goroutine on which it happened. The end
// of that goroutine (runtime.Goexit, as by FailNow of a test in a trace) also ends the caller's.
func Apart[T any](do func() (T, error)) (done T, err error) {
	panicked, returned := "", false
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			if p := recover(); p != nil {
				panicked = fmt.Sprintf("%v\n\nin a request, on a goroutine of its own:\n%s", p, debug.Stack())
			}
		}()
		grow(0)
		done, err = do()
		returned = true
	}()
	<-ended
	switch {
	case panicked != "":
		panic(panicked)
	case !returned:
		runtime.Goexit()
	}
	return done, err
}

// grow makes the stack of a new goroutine large enough for most requests, while it is empty. By itself it would grow
// several times in the depth of the request, and each time Go copies all frames that are on it.
//
//go:noinline
func grow(i int) byte {
	var deep [5 << 10]byte
	return deep[i]
}

// OpenApart is Open for a backend whose requests all need a deep stack: the opening and each request of the
// session run on goroutines of their own. Calls that wait (Await, AwaitList), discard or close do not:
// there the backend keeps deep stacks from the caller.
func OpenApart[D backend.Driver](ctx context.Context, b backend.Backend, o backend.OpenOptions, open func(ctx context.Context, ttl time.Duration) (D, error)) (*backend.Session, error) {
	s, err := Open(ctx, b, o, func(ctx context.Context, ttl time.Duration) (D, error) {
		return Apart(func() (D, error) { return open(ctx, ttl) })
	})
	if err != nil {
		return nil, err
	}
	return s.Around(backend.Layer{Call: func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
		switch c.Kind {
		case backend.CallAwait, backend.CallAwaitList, backend.CallDiscard, backend.CallClose:
			return next(ctx)
		}
		_, err := Apart(func() (struct{}, error) { return struct{}{}, next(ctx) })
		return err
	}}), nil
}
