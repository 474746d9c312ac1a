package consul

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// closeGrace is how long the end of a session may wait for the servers to confirm it.
const closeGrace = 3 * time.Second

var (
	errClosed       = errors.New("closed")
	errExpired      = errors.New("the servers do not know it any more")
	errUnread       = errors.New("the servers did not know it yet")
	errWindow       = errors.New("trust window has passed")
	errTampered     = errors.New("somebody has deleted or changed the keys of the session below " + slotDir)
	errNotConfirmed = errors.New("the servers did not confirm: entries stay until the session times out, which takes up to twice its TTL")
)

// A session is one Consul session. mu guards the state; whoever waits, waits on
// changed or ctx.
type session struct {
	b        *Backend
	id       string
	lease    lease
	window   *driver.Window
	patience time.Duration // for one request

	ctx    context.Context         // ends when the session is lost
	cancel context.CancelCauseFunc // with the reason
	done   chan struct{}           // closed when all its goroutines have ended
	abort  chan struct{}           // closed when its end is not waited for any more
	poked  chan struct{}           // asks for a heartbeat

	mu       sync.Mutex
	state    backend.State
	changed  chan struct{} // closed and replaced at each change of state
	missed   error         // why the last heartbeat of an outage has failed
	cause    error         // why it was lost
	calls    sync.WaitGroup
	confirms bool // the servers have confirmed its end
	aborted  bool

	slots   slots
	turns   driver.Turns // for doubts alone: slots tell commits apart
	memory  memory
	watches registry
	reaper  *driver.Reaper
}

func newSession(b *Backend, id string, l lease, sent time.Time) *session {
	s := &session{
		b:        b,
		id:       id,
		lease:    l,
		patience: l.patience(),
		done:     make(chan struct{}),
		abort:    make(chan struct{}),
		poked:    make(chan struct{}, 1),
		state:    backend.Live,
		changed:  make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.memory.init()
	s.reaper = driver.NewReaper(s.ctx, s.run, func(err error) {
		s.b.cfg.Logger.Warn("consul: an entry could not be removed; trying again", "session", s.id, "error", err)
	})
	s.watches.init(s)
	s.mu.Lock() // the window may have passed already
	s.window = driver.NewWindow(sent, l.ttl, l.margin(), func() { s.lose(errWindow) })
	s.mu.Unlock()
	if s.begin() {
		go s.beat(sent)
	}
	return s
}

// ID implements backend.Driver: Consul's name of the session.
func (s *session) ID() string { return s.id }

// TTL implements backend.Driver.
func (s *session) TTL() time.Duration { return s.lease.ttl }

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
			return state, fmt.Errorf("consul: await state: %w", driver.ContextError(ctx))
		}
	}
}

// resume notes that the session is in touch, and returns whether it was not.
func (s *session) resume() bool { return s.turn(backend.Suspended, backend.Live) }

// suspend notes that it is out of touch.
func (s *session) suspend() bool { return s.turn(backend.Live, backend.Suspended) }

func (s *session) turn(from, to backend.State) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != from {
		return false
	}
	s.state = to
	if to == backend.Live {
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
	defer s.mu.Unlock()
	if s.state == backend.Lost {
		return
	}
	s.state, s.cause = backend.Lost, cause
	s.broadcast()
	s.cancel(fmt.Errorf("%w: %w", backend.ErrSessionLost, cause))
	go s.shutdown(cause) // Close waits for it by done
}

// lostError is what every call returns once the session is lost.
func (s *session) lostError() error { return context.Cause(s.ctx) }

// begin counts a goroutine of the session's; it returns false once it is over. The
// goroutine calls s.calls.Done.
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

// shutdown ends the session at the servers, so that its entries go at once, and all
// its goroutines. It is the last of them.
func (s *session) shutdown(cause error) {
	s.mu.Lock()
	missed := s.missed
	s.mu.Unlock()
	switch {
	case cause == errClosed:
		s.b.cfg.Logger.Debug("consul: session closed", "session", s.id)
	case missed != nil:
		s.b.cfg.Logger.Warn("consul: session lost", "session", s.id, "error", fmt.Errorf("%w; the last heartbeat: %w", cause, missed))
	default:
		s.b.cfg.Logger.Warn("consul: session lost", "session", s.id, "error", cause)
	}
	s.window.Stop()
	s.watches.close()
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	go func() {
		select {
		case <-s.abort:
			cancel()
		case <-ctx.Done():
		}
	}()
	removed := make(chan error, 1)
	go func() { removed <- s.b.deregister(ctx, s.lease) }() // the agent may be there without the servers
	err := s.destroy(ctx)
	s.mu.Lock()
	s.confirms = err == nil
	s.mu.Unlock()
	if err := <-removed; err != nil {
		s.b.cfg.Logger.Debug("consul: the health check of a session stays until the agent removes it", "session", s.id, "error", err)
	}
	cancel()
	s.calls.Wait()
	close(s.done)
}

// destroy ends the session at the servers. One that is not there any more is as good, but
// that takes a consistent read to know, as it does for a renewal: a leader that has not read
// of the session yet says, too, that it has ended it.
func (s *session) destroy(ctx context.Context) error {
	for pause := newPause(); ; {
		_, err := bounded(ctx, s.patience, func(ctx context.Context) (*api.WriteMeta, error) {
			return s.b.client.Session().Destroy(s.id, new(api.WriteOptions).WithContext(ctx))
		})
		if err == nil {
			var left *api.SessionEntry
			if left, err = bounded(ctx, s.patience, s.read); left != nil {
				err = errUnread
			}
		}
		if !transient(err) {
			return err
		}
		if pause.wait(ctx) != nil {
			return err
		}
	}
}

// Close implements backend.Driver. It tries for a few seconds to end the session at
// the servers. Where they cannot be reached, or refuse, the error says that the entries
// live on until the session times out.
func (s *session) Close(ctx context.Context) error {
	s.lose(errClosed)
	select {
	case <-s.done:
	case <-ctx.Done():
		s.mu.Lock()
		if !s.aborted {
			s.aborted = true
			close(s.abort)
		}
		s.mu.Unlock()
		// What is left ends by itself: nothing of it waits for the network now.
		return fmt.Errorf("session %s: %w: %w", s.id, errNotConfirmed, driver.ContextError(ctx))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.confirms {
		return fmt.Errorf("session %s: %w", s.id, errNotConfirmed)
	}
	return nil
}
