package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// closeGrace is how long the end of a session may take to revoke the lease.
const closeGrace = 3 * time.Second

// marginPart is the part of the granted timeout that the trust window leaves out.
const marginPart = 8

var (
	errClosed       = errors.New("closed")
	errExpired      = errors.New("the lease has expired or was revoked")
	errElsewhere    = errors.New("the lease was renewed by another member than the one that a quorum has confirmed")
	errWindow       = errors.New("trust window has passed")
	errNotConfirmed = errors.New("the server did not confirm: entries stay until the lease expires")
)

// A session is one lease. mu guards the state; whoever waits, waits on changed or
// on ctx, which ends when the session is lost.
type session struct {
	client *clientv3.Client
	cfg    *Config
	lease  clientv3.LeaseID
	id     string
	ttl    time.Duration
	window *driver.Window

	ctx    context.Context
	cancel context.CancelFunc
	abort  context.Context
	stop   context.CancelFunc // of abort: nobody waits for the revocation any more
	done   chan struct{}      // closed when all its goroutines have ended

	mu      sync.Mutex
	state   backend.State
	changed chan struct{} // closed and replaced at each change of state
	missed  error         // why the last heartbeat of an outage has failed
	cause   error         // why it was lost
	revoked bool          // the server has confirmed the end
	calls   sync.WaitGroup
	timer   *time.Timer // of the next heartbeat
	beating bool        // one is under way
	due     bool        // another one is wanted at once

	keeper keeper // the heartbeat's

	newest atomic.Int64 // the highest revision in any answer
	shown  atomic.Int64 // the highest revision of what a caller was told
	memory memory

	streams streams
	watches registry
	reaper  *driver.Reaper
	turns   driver.Turns
}

// start makes the session of a lease that was asked for at sent.
func (b *Backend) start(lease *clientv3.LeaseGrantResponse, sent time.Time) *session {
	s := &session{
		client: b.client, cfg: &b.cfg,
		lease: lease.ID, id: formatSession(lease.ID), ttl: time.Duration(lease.TTL) * time.Second,
		done:  make(chan struct{}),
		state: backend.Live, changed: make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.abort, s.stop = context.WithCancel(context.Background())
	s.saw(lease.ResponseHeader.GetRevision())
	s.streams.renew(s.ctx, 0)
	s.reaper = driver.NewReaper(s.ctx, s.run, func(err error) {
		s.cfg.Logger.Warn("etcd: an entry could not be removed; trying again", "session", s.id, "error", err)
	})
	s.watches.init(s)
	s.keeper = keeper{s: s, lines: &b.lines, last: sent}
	s.keeper.begin()
	s.mu.Lock() // the window may have passed already
	defer s.mu.Unlock()
	s.window = driver.NewWindow(sent, s.ttl, s.ttl/marginPart, func() { s.lose(errWindow) })
	s.timer = time.AfterFunc(s.interval(), s.beat) // the grant was the first renewal
	return s
}

// ID implements backend.Driver: the lease's ID in hex, as etcdctl has it.
func (s *session) ID() string { return s.id }

// TTL implements backend.Driver.
func (s *session) TTL() time.Duration { return s.ttl }

// Deadline implements backend.Driver.
func (s *session) Deadline() time.Time { return s.window.Deadline() }

// State implements backend.Driver.
func (s *session) State() backend.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// AwaitState implements backend.Driver.
func (s *session) AwaitState(ctx context.Context, prev backend.State) (backend.State, error) {
	for {
		s.mu.Lock()
		state, changed := s.state, s.changed
		s.mu.Unlock()
		if state != prev || state == backend.Lost {
			return state, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return state, fmt.Errorf("etcd: await state: %w", driver.ContextError(ctx))
		}
	}
}

// awaitLive blocks while the session is suspended.
func (s *session) awaitLive(ctx context.Context) error {
	if err := s.over(ctx); err != nil {
		return err
	}
	if s.State() == backend.Suspended {
		_, _ = s.AwaitState(ctx, backend.Suspended) // what has ended is told by over
	}
	return s.over(ctx)
}

// suspend notes that no heartbeat gets through, and why.
func (s *session) suspend(why error) {
	s.mu.Lock()
	s.missed = why
	s.mu.Unlock()
	if s.become(backend.Suspended) {
		s.cfg.Logger.Info("etcd: session suspended", "session", s.id, "error", why)
	}
}

// become changes between Live and Suspended, and returns whether it was not so already.
func (s *session) become(state backend.State) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == backend.Lost || s.state == state {
		return false
	}
	s.state = state
	if state == backend.Live {
		s.missed = nil
	}
	s.broadcast()
	return true
}

// broadcast wakes all who wait for a change. Caller holds mu.
func (s *session) broadcast() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// lose ends the session for good. It does not block.
func (s *session) lose(cause error) {
	s.mu.Lock()
	if s.state == backend.Lost {
		s.mu.Unlock()
		return
	}
	s.state, s.cause = backend.Lost, cause
	s.window.Stop()
	s.timer.Stop()
	s.broadcast()
	s.cancel()
	go s.shutdown(cause) // Close waits for it by done
	s.mu.Unlock()
}

// lostError is what every call returns once the session is lost.
func (s *session) lostError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Errorf("%w: %w", backend.ErrSessionLost, s.cause)
}

// over is the error of a call that cannot go on, because the session is lost or ctx
// has ended.
func (s *session) over(ctx context.Context) error {
	switch {
	case s.ctx.Err() != nil:
		return s.lostError()
	case ctx.Err() != nil:
		return driver.ContextError(ctx)
	}
	return nil
}

// bind returns a context that ends with ctx and with the session.
func (s *session) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	bound, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return bound, func() { stop(); cancel() }
}

// begin counts a goroutine of the session's; it returns false once it is over.
// The goroutine calls s.calls.Done.
func (s *session) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == backend.Lost {
		return false
	}
	s.calls.Add(1)
	return true
}

// run starts a goroutine of the session's; it returns false once it is over.
func (s *session) run(do func()) bool {
	if !s.begin() {
		return false
	}
	go func() {
		defer s.calls.Done()
		do()
	}()
	return true
}

// saw notes the revision of an answer.
func (s *session) saw(rev int64) { raise(&s.newest, rev) }

// shows notes the revision of what a caller is told.
func (s *session) shows(rev int64) { raise(&s.shown, rev) }

func raise(to *atomic.Int64, rev int64) {
	for {
		have := to.Load()
		if rev <= have || to.CompareAndSwap(have, rev) {
			return
		}
	}
}

// checkLease asks whether the lease is there, so that a session that has ended is told
// from entries that were deleted.
func (s *session) checkLease(ctx context.Context) error {
	answer, err := try(ctx, s, func(ctx context.Context) (*clientv3.LeaseTimeToLiveResponse, error) {
		return s.client.Lease.TimeToLive(ctx, s.lease)
	})
	if err == nil && answer.TTL < 0 { // 0 is less than a second
		s.lose(errExpired)
		err = s.lostError()
	}
	return err
}

// shutdown revokes the lease where that is of use, so that the entries go at once,
// and ends all goroutines. It is the last goroutine of the session.
func (s *session) shutdown(cause error) {
	s.mu.Lock()
	missed := s.missed
	s.mu.Unlock()
	switch {
	case cause == errClosed:
		s.cfg.Logger.Debug("etcd: session closed", "session", s.id)
	case missed != nil:
		s.cfg.Logger.Warn("etcd: session lost", "session", s.id, "error", fmt.Errorf("%w; the last heartbeat: %w", cause, missed))
	default:
		s.cfg.Logger.Warn("etcd: session lost", "session", s.id, "error", cause)
	}
	if cause != errExpired {
		ctx, cancel := context.WithTimeout(s.abort, closeGrace)
		for p, times := newPause(), 1; !s.revoke(ctx, times) && p.wait(ctx); times = 2 {
		}
		cancel()
	}
	s.calls.Wait()
	s.keeper.end()
	s.stop()
	close(s.done)
}

// revoke tells whether the lease is known to be gone. It asks so many members at once, and leaves
// time for others: one may be frozen, and its link look well.
func (s *session) revoke(ctx context.Context, times int) bool {
	asking, cancel := context.WithTimeout(ctx, time.Duration(times)*closeGrace/4)
	defer cancel()
	_, err := several(asking, times, func(ctx context.Context) (*clientv3.LeaseRevokeResponse, error) {
		return s.client.Lease.Revoke(ctx, s.lease)
	})
	if err != nil && !is(err, rpctypes.ErrLeaseNotFound) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked = true
	return true
}

// Close implements backend.Driver. Where the server cannot be reached within three
// seconds, the entries live on until the lease expires, and the error says so.
func (s *session) Close(ctx context.Context) error {
	s.lose(errClosed)
	select {
	case <-s.done:
	case <-ctx.Done():
		s.stop()
		return fmt.Errorf("session %s: %w: %w", s.id, errNotConfirmed, driver.ContextError(ctx))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.revoked || s.cause == errExpired {
		return nil
	}
	return fmt.Errorf("session %s: %w", s.id, errNotConfirmed)
}
