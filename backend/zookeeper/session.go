package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
	"github.com/elector-go/elector/backend/zookeeper/internal/wire"
)

var (
	errExpired      = errors.New("expired, or replaced by another session")
	errShorter      = errors.New("the server now grants a shorter timeout")
	errLocal        = errors.New("expired when it made its first entry, right after it was opened: " + words[-120])
	errNotConfirmed = errors.New("the server did not confirm: entries stay until the session times out")
)

// A session is one ZooKeeper session over one zk.Conn.
//
// Three parties call in: the user; the client library's loop, through event, dial and the pin, which
// must never block; and the window's timer. All waits are for a change of the session's Life, or for
// its end.
type session struct {
	driver.Life
	cfg   *Config
	asked time.Duration
	born  time.Time
	hosts *hosts
	pin   *wire.Pin
	// These are shared by all sessions of a Backend.
	ballot *ballot
	locals *atomic.Int32 // sessions in a row that were lost with errLocal
	global atomic.Bool   // it has made an entry

	first   *reached      // by Open, for the first dial of the client library's loop; nil once used
	started chan struct{} // closed when conn and events are set
	conn    *zk.Conn
	events  <-chan zk.Event // closed when the client library's loop has ended

	dialing     context.Context // cancelled to interrupt a dial
	stopDialing context.CancelCauseFunc

	opened chan struct{} // closed when the session was granted and is live

	took atomic.Int64 // the duration of the slowest of the latest heartbeats, in nanoseconds

	// Guarded by Mu. Changes of gen and hasLink are broadcast.
	gen     uint64    // counts links on which the session was live
	hasLink bool      // there is a link now
	closeBy time.Time // when to give up closing it at the server

	watches registry
	learned learned
	late    late
	singles driver.Together[*single]
}

func newSession(cfg *Config, ballot *ballot, ttl time.Duration) *session {
	s := &session{
		cfg:     cfg,
		ballot:  ballot,
		locals:  new(atomic.Int32),
		born:    time.Now(),
		asked:   ttl,
		hosts:   newHosts(cfg.Servers, cfg.Heartbeat == HeartbeatPing),
		started: make(chan struct{}),
		opened:  make(chan struct{}),
	}
	s.learned.chroot = len(cfg.Chroot)
	s.watches.s, s.watches.watches = s, make(map[watchKey]*watch)
	s.singles.Take, s.singles.Send, s.singles.Run = s.takeSingles, s.sendSingles, s.Run
	s.dialing, s.stopDialing = context.WithCancelCause(context.Background())
	s.pin = wire.New(wire.Events{
		Granted:  s.granted,
		Answered: s.answered,
		Voted:    s.voteAnswered,
		Expired:  func() { s.lose(errExpired) },
		Foreign:  func() { s.lose(wire.ErrForeign) },
	}, queueNames, cfg.MaxResponse)
	if cfg.Heartbeat != HeartbeatPing {
		s.pin.Beats()
	}
	s.Init(driver.LifeOptions{
		Name: "zookeeper", Logger: cfg.Logger, State: backend.Suspended,
		Lost: s.leaving, End: s.end, Unconfirmed: errNotConfirmed, Remove: s.drop,
	})
	return s
}

// path returns the server's path of a key.
func (s *session) path(key string) string { return s.cfg.Chroot + key }

// key returns the key of a server's path.
func (s *session) key(path string) string { return path[len(s.cfg.Chroot):] }

// granted is called with each connect response that grants or resumes the session.
func (s *session) granted(id int64, timeout time.Duration, sent time.Time) error {
	if s.ID() == "" {
		margin := min(s.cfg.Margin, s.cfg.longestMargin(timeout)) // if that is shorter, Open fails
		margin = cmp.Or(margin, s.cfg.margin(timeout))
		s.Grant(formatSession(id), sent, timeout, margin) // a lost one continues, so that it can be closed: see end
		return nil
	}
	switch {
	case s.livesOn():
		return nil // as above
	case s.Ctx.Err() != nil:
		return driver.ErrClosed
	case timeout < s.TTL():
		// A server with other bounds. The window counts with the old timeout, and cannot be moved back
		// once it was shown to anyone.
		s.lose(errShorter)
		return errShorter
	}
	s.answered(sent) // HeartbeatLeader takes more: see beat
	return nil
}

// answered is called with each reply. The reply proves that the link's server received what was sent at
// sent.
func (s *session) answered(sent time.Time) {
	if s.cfg.Heartbeat == HeartbeatPing {
		s.Extend(sent)
	}
}

// voteAnswered is called with each reply to a write: a quorum has followed the leader of the epoch
// since the write was sent, and the server serves.
func (s *session) voteAnswered(sent time.Time, epoch uint64) {
	s.ballot.cast(sent, epoch)
	s.hosts.serves()
}

// event is called by the client library for every event, synchronously and in the order in which the
// server sent them. It must not block.
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
		s.Lose(errExpired)
	}
}

// localsMost is how many sessions in a row are lost with errLocal before that is final: an operator may have
// ended one.
const localsMost = 3

// disowned handles a multi that was refused because the leader does not know the session. So it refuses the
// first entry of a session that only the link's server knows, and that is not made global. No other session
// can have expired so soon. It returns nil if that is no reason.
func (s *session) disowned() error {
	if s.global.Load() || time.Since(s.born) > s.TTL() {
		return nil
	}
	s.Lose(errLocal)
	if s.locals.Add(1) < localsMost {
		return s.LostError()
	}
	s.locals.Store(0) // the servers' settings may change
	return fmt.Errorf("%w: %w", errors.ErrUnsupported, errLocal)
}

// isOpen reports whether the session was granted, and is live or was.
func (s *session) isOpen() bool {
	select {
	case <-s.opened:
		return true
	default:
		return false
	}
}

func (s *session) live() {
	s.Mu.Lock()
	s.hasLink = true
	if s.Ctx.Err() != nil {
		s.Broadcast()
		s.Mu.Unlock()
		return
	}
	s.gen++
	gen := s.gen
	s.Set(backend.Live)
	s.Broadcast()
	s.Mu.Unlock()
	s.watches.connected(gen)
	if s.cfg.Dialer == nil && len(s.cfg.Servers) > 1 && s.cfg.book.due() && s.Begin() {
		go func() {
			defer s.Done()
			s.cfg.book.update(s.Ctx, s.cfg.Servers)
		}()
	}
	if gen == 1 {
		close(s.opened)
	} else {
		s.lookAgain(true)
	}
}

func (s *session) suspend() {
	s.Mu.Lock()
	s.hasLink = false
	s.Set(backend.Suspended)
	s.Mu.Unlock()
	s.watches.disconnected()
}

// lose ends the session for good. It does not block.
func (s *session) lose(cause error) {
	if !s.Lose(cause) && cause == errExpired { // the closing side learns it on a new link
		s.Confirm()
	}
}

// leaving is called when the session is lost, with Mu held.
func (s *session) leaving() {
	s.closeBy = time.Now().Add(driver.EndGrace)
	s.pin.CloseOnly()
}

// livesOn reports whether the session is over here, but may still exist at the server. A link there
// renews it for a full timeout, so the first one closes it.
func (s *session) livesOn() bool {
	cause := s.LostError()
	return errors.Is(cause, driver.ErrClosed) || errors.Is(cause, driver.ErrWindow) || errors.Is(cause, errRewound)
}

// end closes the session at the server where that is useful, and ends the client library's loop. It
// tries for three seconds, and takes two more at most. It waits for a link, and asks one server once,
// because the client library makes no other link after that. If no server can be reached, or that one
// does not reply, the entries stay until the session times out.
func (s *session) end(ctx context.Context, cause error) {
	s.hurry(s.pin.Links()...)
	<-s.started
	if cause == errExpired { // nothing is left at the server
		s.Confirm()
		s.pin.Kill(errExpired)
	}
	if !s.isOpen() {
		// Nobody wants it any more. A session granted already is closed below; none is requested that
		// the server would keep for its full timeout.
		s.hosts.close()
		s.pin.Stop(driver.ErrClosed)
		s.stopDialing(driver.ErrClosed)
	}
	patience := driver.EndGrace
	if !s.livesOn() {
		patience = time.Second // only to remove the entries somewhat sooner
	}
	limit, cancel := context.WithTimeout(ctx, patience)
	var presenting sync.WaitGroup
	if s.livesOn() && s.isOpen() {
		if s.awaitLink(limit) {
			cancel() // nothing is left to close
		}
		s.present(limit, &presenting)
	}
	// While the client library can still reach the server, it closes the session there, which removes
	// the entries at once. All other queued requests fail now.
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.conn.Close() // two seconds at most
		for range s.events {
			// The client library closes it when its loop has ended.
		}
	}()
	select {
	case <-s.pin.CloseAcked():
	case <-ended:
	case <-limit.Done():
	}
	cancel()
	s.hosts.close()
	s.stopDialing(driver.ErrClosed)
	s.pin.Kill(driver.ErrClosed)
	<-ended
	if s.first != nil {
		_ = s.first.conn.Close() // nothing was sent on it
	}
	presenting.Wait()
	select {
	case <-s.pin.CloseAcked():
		s.Confirm()
	default:
	}
}

// awaitLink waits for a link on which the session can be closed: after Close the client library makes
// no other. It reports whether the session has been found to be over.
func (s *session) awaitLink(ctx context.Context) (over bool) {
	for {
		s.Mu.Lock()
		ready := s.hasLink
		_, changed := s.Peek()
		s.Mu.Unlock()
		over = s.Confirmed()
		if over || ready || ctx.Err() != nil {
			return over
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// present waits until the server of a new link has the credentials: a server that enforces them accepts
// no closing request before. The client library sends requests only after it has presented all of them,
// and presents none after Close.
func (s *session) present(ctx context.Context, calls *sync.WaitGroup) {
	if len(s.cfg.Auth) == 0 {
		return
	}
	presented := make(chan struct{})
	calls.Go(func() {
		defer close(presented)
		_ = s.conn.AddAuth(s.cfg.Auth[0].Scheme, s.cfg.Auth[0].Credentials) // if it fails, Close fails too
	})
	select {
	case <-presented:
	case <-ctx.Done():
	}
}
