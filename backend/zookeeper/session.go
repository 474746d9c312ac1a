package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// closeGrace is how long the end of a session may wait for the server's answer to
// the closing request. The client library's own patience is a little more.
const closeGrace = 3 * time.Second

var (
	errClosed       = errors.New("closed")
	errExpired      = errors.New("expired, or replaced by another session")
	errWindow       = errors.New("trust window has passed")
	errShorter      = errors.New("the server now grants a shorter timeout")
	errNotConfirmed = errors.New("the server did not confirm: entries stay until the session times out")
)

// A session is one ZooKeeper session over one zk.Conn.
//
// Three parties call in: the user; the client library's loop, through event, dial
// and the pin, which must never block; and the window's timer. mu guards the
// state; whoever waits, waits on changed or ctx.
type session struct {
	cfg   *Config
	asked time.Duration
	hosts *hosts
	pin   *pin
	// ballot is shared by the sessions of a Backend.
	ballot *ballot

	started chan struct{} // closed when conn and events are set
	conn    *zk.Conn
	events  <-chan zk.Event // closed when the client library's loop has ended

	dialing     context.Context // cancelled to interrupt a dial
	stopDialing context.CancelCauseFunc

	opened chan struct{}   // closed when the session was granted and is live
	done   chan struct{}   // closed when all its goroutines have ended
	ctx    context.Context // ends when it is over
	cancel context.CancelCauseFunc

	// Set once, before opened is closed.
	number int64
	id     string
	ttl    time.Duration
	window *driver.Window

	took atomic.Int64 // by the slowest of the latest heartbeats, in nanoseconds

	mu      sync.Mutex
	state   backend.State
	gen     uint64          // counts links on which the session was live
	hasLink bool            // it has one now
	changed chan struct{}   // closed and replaced at each change of state or gen
	cause   error           // why it was lost
	closeBy time.Time       // when it is given up to close it at the server
	abort   context.Context // ends when it does not wait any more
	stop    context.CancelFunc
	calls   sync.WaitGroup
	timer   *time.Timer // of the next heartbeat, or nil

	watches  registry
	memory   memory
	reaper   *driver.Reaper
	turns    driver.Turns
	late     late
	confirms bool // the server has confirmed the close
}

func newSession(cfg *Config, ballot *ballot, ttl time.Duration) *session {
	s := &session{
		cfg:     cfg,
		ballot:  ballot,
		asked:   ttl,
		hosts:   newHosts(cfg.Servers, cfg.Heartbeat == HeartbeatPing),
		started: make(chan struct{}),
		opened:  make(chan struct{}),
		done:    make(chan struct{}),
		changed: make(chan struct{}),
		state:   backend.Suspended,
	}
	s.dialing, s.stopDialing = context.WithCancelCause(context.Background())
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.abort, s.stop = context.WithCancel(context.Background())
	s.pin = &pin{
		granted:  s.granted,
		answered: s.answered,
		voted:    s.voteAnswered,
		expired:  func() { s.lose(errExpired) },
		acked:    make(chan struct{}),
	}
	s.pin.buffers.maxAnswer = cfg.MaxResponse
	s.reaper = driver.NewReaper(s.ctx, s.run, func(err error) {
		s.cfg.Logger.Warn("zookeeper: an entry could not be removed; trying again", "session", s.id, "error", err)
	})
	s.watches.init(s)
	s.memory.init()
	return s
}

// ID implements backend.Driver: the session's number as 16 hex digits.
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
			return state, fmt.Errorf("zookeeper: await state: %w", driver.ContextError(ctx))
		}
	}
}

// path is the server's path of a key.
func (s *session) path(key string) string { return s.cfg.Chroot + key }

// key is the key of a server's path.
func (s *session) key(path string) string { return path[len(s.cfg.Chroot):] }

// granted is called with each connect response that grants or resumes the session.
func (s *session) granted(id int64, timeout time.Duration, sent time.Time) error {
	s.mu.Lock()
	first := s.window == nil
	if s.state == backend.Lost {
		closing := s.cause == errClosed
		s.mu.Unlock()
		if first || closing {
			return nil // so that it can be closed, see shutdown
		}
		return errClosed
	}
	if first {
		margin := min(s.cfg.Margin, s.cfg.longestMargin(timeout)) // if that is shorter, Open fails
		if margin == 0 {
			margin = s.cfg.margin(timeout)
		}
		s.number, s.id, s.ttl = id, formatSession(id), timeout
		s.window = driver.NewWindow(sent, timeout, margin, func() { s.lose(errWindow) })
	}
	s.mu.Unlock()
	switch {
	case first:
		return nil
	case timeout < s.ttl:
		// A server with other bounds. The window counts with the old timeout; it
		// cannot be moved back once it was shown to anyone.
		s.lose(errShorter)
		return errShorter
	}
	s.answered(sent) // with HeartbeatLeader it takes more: see beat
	return nil
}

// answered is called with each answer, which proves that what was sent at sent
// was received, by the server that the link goes to.
func (s *session) answered(sent time.Time) {
	if s.cfg.Heartbeat == HeartbeatPing {
		s.window.Extend(sent)
	}
}

// voteAnswered is called with each write that is answered: a quorum has followed the leader
// of the epoch since it was sent, and the server serves.
func (s *session) voteAnswered(sent time.Time, epoch uint64) {
	s.ballot.cast(sent, epoch)
	s.hosts.serves()
}

// event is called by the client library for every event, synchronously and in the
// order in which the server sent them. It must not block.
func (s *session) event(e zk.Event) {
	if e.Type != zk.EventSession {
		s.watches.event(e)
		return
	}
	switch e.State {
	case zk.StateHasSession:
		s.live()
	case zk.StateDisconnected:
		s.suspend()
	case zk.StateExpired:
		s.lose(errExpired)
	}
}

// isOpen tells whether the session was granted, and is live or was.
func (s *session) isOpen() bool {
	select {
	case <-s.opened:
		return true
	default:
		return false
	}
}

func (s *session) live() {
	s.mu.Lock()
	s.hasLink = true
	if s.state == backend.Lost {
		s.broadcast()
		s.mu.Unlock()
		return
	}
	s.state = backend.Live
	s.gen++
	gen := s.gen
	s.broadcast()
	s.mu.Unlock()
	s.watches.connected(gen)
	s.lookLate()
	if gen == 1 {
		close(s.opened)
	}
}

func (s *session) suspend() {
	s.mu.Lock()
	s.hasLink = false
	if s.state == backend.Live {
		s.state = backend.Suspended
		s.broadcast()
	}
	s.mu.Unlock()
	s.watches.disconnected()
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
		if cause == errExpired && !s.confirms { // as whoever closes it is told on a new link
			s.confirms = true
			s.broadcast()
		}
		return
	}
	s.state = backend.Lost
	s.cause = cause
	s.closeBy = time.Now().Add(closeGrace)
	s.pin.leave()
	if s.window != nil {
		s.window.Stop()
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.broadcast()
	s.cancel(fmt.Errorf("%w: %w", backend.ErrSessionLost, cause))
	go s.shutdown(cause) // Close waits for it by done
}

// lostError is what every call returns once the session is lost.
func (s *session) lostError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Errorf("%w: %w", backend.ErrSessionLost, s.cause)
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

// shutdown closes the session at the server where that is of use, and ends all
// goroutines. It is the last goroutine of the session.
func (s *session) shutdown(cause error) {
	switch failure := s.hosts.failure(); {
	case cause == errClosed, !s.isOpen():
		s.cfg.Logger.Debug("zookeeper: session over", "session", s.id, "cause", cause)
	case failure != nil:
		s.cfg.Logger.Warn("zookeeper: session lost", "session", s.id, "error", fmt.Errorf("%w; no server: %w", cause, failure))
	default:
		s.cfg.Logger.Warn("zookeeper: session lost", "session", s.id, "error", cause)
	}
	<-s.started
	if cause == errExpired {
		s.pin.kill(errExpired) // nothing is left at the server
	}
	if !s.isOpen() {
		// Nobody wants it any more. What is granted already is closed below; nothing is
		// asked for that the server would keep for its whole timeout.
		s.hosts.close()
		s.pin.stop(errClosed)
		s.stopDialing(errClosed)
	}
	patience := closeGrace
	if cause != errClosed {
		patience = time.Second // it is only for the entries to go somewhat sooner
	}
	limit, cancel := context.WithTimeout(s.abort, patience)
	if cause == errClosed && s.isOpen() {
		if s.awaitLink(limit) {
			cancel() // there is nothing to close any more
		}
		s.present(limit)
	}
	// While the client library can still reach the server, it closes the session
	// there, so that the entries go at once. Whatever else was queued fails now.
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.conn.Close() // two seconds at most
		for range s.events {
			// The client library closes it when its loop has ended.
		}
	}()
	select {
	case <-s.pin.acked:
		s.mu.Lock()
		s.confirms = true
		s.mu.Unlock()
	case <-ended:
	case <-limit.Done():
	}
	cancel()
	s.hosts.close()
	s.stopDialing(errClosed)
	s.pin.kill(errClosed)
	<-ended
	s.calls.Wait()
	s.stop()
	close(s.done)
}

// awaitLink waits for a link on which the session can be closed: the client library makes no
// other once it has been told to close. It tells whether the session has been found to be over.
func (s *session) awaitLink(ctx context.Context) (over bool) {
	for {
		s.mu.Lock()
		found, ready, changed := s.confirms, s.hasLink, s.changed
		s.mu.Unlock()
		if found || ready || ctx.Err() != nil {
			return found
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// present waits until the server of a new link has the credentials: one that enforces them takes
// no closing request before. The client library sends a request only once it has presented them
// all, and presents none once it has been told to close.
func (s *session) present(ctx context.Context) {
	if len(s.cfg.Auth) == 0 {
		return
	}
	presented := make(chan struct{})
	s.calls.Go(func() {
		defer close(presented)
		_ = s.conn.AddAuth(s.cfg.Auth[0].Scheme, s.cfg.Auth[0].Credentials) // Close fails then, too
	})
	select {
	case <-presented:
	case <-ctx.Done():
	}
}

// Close implements backend.Driver. It tries for three seconds, and takes two more at
// most. It waits for a link, and asks one server once, as the client library makes no other link
// after that. Where no server can be reached, or that one does not answer, the entries live on
// until the session times out, and the error says so.
func (s *session) Close(ctx context.Context) error {
	s.lose(errClosed)
	select {
	case <-s.done:
	case <-ctx.Done():
		s.stop()
		// What is left ends by itself: nothing of it waits for the network now.
		return fmt.Errorf("session %s: %w: %w", s.id, errNotConfirmed, driver.ContextError(ctx))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == errExpired || s.confirms {
		return nil
	}
	select {
	case <-s.pin.acked:
		return nil
	default:
	}
	return fmt.Errorf("session %s: %w", s.id, errNotConfirmed)
}
