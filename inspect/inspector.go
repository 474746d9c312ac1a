package inspect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy"
)

// Options configure an Inspector. The zero value is usable.
type Options struct {
	// Strategies are your own strategies, such as those with a CustomLayout. The name in an election's
	// record is looked up here first, and then in strategy/catalog.
	Strategies []strategy.Strategy
	// TTL is the session timeout to ask for; zero means the backend's default.
	TTL time.Duration

	_ struct{}
}

// ErrUnknownStrategy: the election's record names a strategy that is neither in strategy/catalog nor in
// Options.Strategies. Who leads and who stands is reported as far as the entries show it; nothing is
// changed in such an election.
var ErrUnknownStrategy = errors.New("strategy is unknown here")

// An Inspector looks into elections from outside. It is safe for concurrent use.
type Inspector struct {
	backend    *backend.Shared
	strategies []known
	ctx        context.Context // ends with elector.ErrClosed when Close begins
	cancel     context.CancelCauseFunc
	opening    chan struct{} // held while the session is looked up or opened, and finally by Close
	watches    sync.WaitGroup
	waiting    chan struct{} // has room for the watches that may wait; nil if all may

	session *backend.Session // or nil; guarded by opening
}

// New makes an Inspector. It does not connect: the first call that needs the service does. The caller must
// Close it, and still owns b. The error wraps elector.ErrConfig, and lists all that is wrong.
func New(b backend.Backend, o Options) (*Inspector, error) {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("inspect: "+format+": %w", append(args, elector.ErrConfig)...))
	}
	if b == nil {
		bad("the backend is nil: give one, for example of dial.Open")
	} else if l := b.Limits(); o.TTL != 0 && (o.TTL < l.MinTTL || o.TTL > l.MaxTTL) {
		bad("Options.TTL %v is out of range: backend %v takes %v to %v", o.TTL, b, l.MinTTL, l.MaxTTL)
	}
	named := make(map[string]bool)
	for n, s := range o.Strategies {
		switch {
		case s == nil:
			bad("Options.Strategies[%d] is nil", n)
		case s.Name() == "":
			bad("Options.Strategies[%d], %T, has no name", n, s)
		case named[s.Name()]:
			bad("Options.Strategies[%d] is the second one named %q: an election's record does not tell them apart", n, s.Name())
		default:
			named[s.Name()] = true
		}
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	i := &Inspector{backend: backend.Share(b, o.TTL), strategies: all(o.Strategies), opening: make(chan struct{}, 1)}
	if most := b.Limits().Waits; most > 0 {
		i.waiting = make(chan struct{}, max(1, most/3/waitsPerWatch))
	}
	i.ctx, i.cancel = context.WithCancelCause(context.Background())
	return i, nil
}

// cleanupTimeout limits how long a call waits for an abandoned session to close, in addition to its ctx.
const cleanupTimeout = 2 * time.Second

// Close ends the session and all watches, and waits for that until ctx ends. If ctx has already ended, for
// example because of a signal, it waits for up to two seconds. Later calls return elector.ErrClosed.
func (i *Inspector) Close(ctx context.Context) error {
	i.cancel(elector.ErrClosed)
	if ctx.Err() != nil {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		ctx = late
	}
	ended := make(chan struct{})
	go func() { i.watches.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
		return fmt.Errorf("inspect: close: a watch has not ended: %w", context.Cause(ctx))
	}
	select {
	case i.opening <- struct{}{}:
		defer func() { <-i.opening }()
	case <-ctx.Done():
		return fmt.Errorf("inspect: close: a session is being opened: %w", context.Cause(ctx))
	}
	s := i.session
	i.session = nil
	if s == nil {
		return nil
	}
	if err := s.Close(ctx); err != nil {
		return fmt.Errorf("inspect: close: %w", err)
	}
	return nil
}

// bind returns a copy of ctx that also ends, with the cause elector.ErrClosed, when the Inspector closes.
func (i *Inspector) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	bound, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(i.ctx, func() { cancel(elector.ErrClosed) })
	if i.ctx.Err() != nil {
		cancel(elector.ErrClosed) // AfterFunc cancels on another goroutine, perhaps too late
	}
	return bound, func() { stop(); cancel(nil) }
}

// fail wraps the error of an exported call. ctx is the result of bind.
func fail(ctx context.Context, what, election string, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return fmt.Errorf("inspect: %s %s: %w", what, election, err)
}

// patience is how long opening a session may take: a server that accepts the connection and then does not
// answer counts as unavailable.
const patience = 10 * time.Second

// live returns the session, or opens one.
func (i *Inspector) live(ctx context.Context) (*backend.Session, error) {
	select {
	case i.opening <- struct{}{}:
		defer func() { <-i.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if i.ctx.Err() != nil {
		return nil, elector.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if i.session != nil && i.session.State() != backend.Lost {
		return i.session, nil
	}
	if i.session != nil {
		done, cancel := context.WithTimeout(ctx, cleanupTimeout)
		_ = i.session.Close(done) // Lost is final; this only waits for its goroutines
		cancel()
	}
	trying, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := i.backend.Open(trying, backend.OpenOptions{})
	if err != nil {
		if trying.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("no session after %v: %w: %w", patience, backend.ErrUnavailable, err)
		}
		return nil, err
	}
	i.session = s
	return s, nil
}
