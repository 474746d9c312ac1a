package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
	"github.com/elector-go/elector/backend/zookeeper/internal/wire"
)

// Heartbeat says which replies move the trust window.
type Heartbeat int

const (
	// HeartbeatLeader is the default. It counts replies that prove that the leader, which expires
	// sessions, has heard from this one, and that a quorum still followed the leader then. It costs two
	// requests per quarter of the session timeout, in place of the client library's pings. One of them
	// is a transaction that changes nothing, unless a write of any session of the same Backend was
	// answered since the last heartbeat. On a standalone server it must be a write of the same session,
	// as zxids have no epoch there.
	HeartbeatLeader Heartbeat = iota + 1

	// HeartbeatPing counts any reply of the server that the client is connected to. It costs nothing,
	// as the client library pings anyway. It is right for a standalone server. In an ensemble it is
	// wrong about a follower that is cut off from the leader: the follower continues to reply to pings
	// for syncLimit ticks, while the leader expires the session.
	HeartbeatPing
)

// String returns the heartbeat's name.
func (h Heartbeat) String() string {
	switch h {
	case HeartbeatLeader:
		return "leader"
	case HeartbeatPing:
		return "ping"
	}
	return fmt.Sprintf("Heartbeat(%d)", int(h))
}

// minPatience is the shortest time that a request may take before the link is given up.
const minPatience = 250 * time.Millisecond

// patience returns how long to wait for a server: the shorter of most and a third of the remaining
// window, so that there is time to try others; or, if longer, twice the time that recent replies took,
// up to half of the remaining window, because others are as slow then, and a new link takes two
// replies. It is no less than minPatience. Once the session is being closed its window does not matter,
// and half of the remaining time is left for the closing request.
func (s *session) patience(most time.Duration) time.Duration {
	if closeBy, closing := s.closing(); closing {
		return max(min(most, time.Until(closeBy)/2), minPatience)
	}
	left := time.Until(s.Deadline())
	return max(min(most, left/3), min(2*time.Duration(s.took.Load()), left/2), minPatience)
}

// closing reports whether the session is over, and until when it may be closed at the server.
func (s *session) closing() (by time.Time, over bool) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.closeBy, s.Ctx.Err() != nil
}

// A round is the state of the heartbeats of one link.
type round struct {
	gen  uint64
	link *wire.Link
	// base is when the request was sent that the next heartbeat can confirm: the first request of the
	// previous heartbeat. due is half a tick after its reply, or later.
	base, due time.Time
	refused   int // heartbeats in a row
}

// beat does a round, and returns the time until the next one. A round moves the trust window to an instant,
// base, of which two facts are shown: the leader of this link has noted the session, and a quorum still
// followed that leader. DESIGN.md, "The window", has the proof and its premises.
//
//	base   a request, answered at a: the follower has noted the session
//	first  a sync sent half a tick after a, or later: by its reply the follower has written to the leader
//	       which sessions it has noted
//	second a request to the leader sent after first was answered: it follows that on its way
//
// One of the requests since base, of any session of the Backend, must be a vote, which only a quorum can answer
// (see ballot): second is one, if there has been none. first is the next round's base. That round starts a
// quarter of the timeout after first was answered. A new link begins with its handshake, which the leader notes:
// it takes a vote, or, if it has made the session, nothing.
//
// A request that is not answered in time gives the link up: the follower, or its leader, is cut off,
// and another server may still save the session. A request that is refused, such as by a server that
// throttles, proves nothing and is repeated.
func (s *session) beat(r *round) time.Duration {
	next, err := s.round(*r)
	switch {
	case err == nil:
		next.refused = 0
		*r = next
		return time.Until(next.due)
	case transient(err), errors.Is(err, context.DeadlineExceeded):
		*r = round{gen: next.gen} // this link is finished
		return 0
	case s.Ctx.Err() == nil:
		s.cfg.Logger.Info("zookeeper: heartbeat refused; trying again", "session", s.ID(), "error", err)
	}
	r.refused++
	return min(pauseAfter(r.refused-1), s.TTL()/4)
}

// round sends first and second, which follow base, and returns the next round.
func (s *session) round(r round) (next round, err error) {
	if r.link == nil {
		return s.greet(r.gen)
	}
	next = r
	next.base, err = s.ask(r.link, false, func() (vote bool) {
		next.due = time.Now().Add(s.TTL() / 4)
		return !s.voted(r.link, r.base)
	})
	if err != nil {
		return r, err
	}
	s.Extend(r.base)
	s.hosts.serves() // greet may have called it before the client library has noted the link
	return next, nil
}

// beats begins to send heartbeats. If the present link is the first, its handshake is the first round's base.
func (s *session) beats() {
	r, first := round{}, time.Duration(0)
	if link := s.pin.Current(); link.Opened() {
		r, first = round{gen: 1, link: link, base: link.AskedAt()}, s.TTL()/4
		s.hosts.serves()
	}
	s.BeatBy(first, func() time.Duration { return s.beat(&r) })
}

// greet waits for a link later than the given one, confirms its handshake, and returns its first round.
func (s *session) greet(after uint64) (r round, err error) {
	if r.gen, err = s.awaitLive(s.Ctx, after); err != nil {
		return r, err
	}
	link := s.pin.Current()
	if len(s.cfg.Auth) > 0 {
		if err := s.awaitAuth(link); err != nil {
			return r, err
		}
	}
	if r.base, err = s.ask(link, !s.voted(link, link.AskedAt()), nil); err != nil {
		return r, err
	}
	r.due = time.Now().Add(s.TTL() / 4)
	s.Extend(link.AskedAt())
	s.hosts.serves()
	r.link = link
	return r, nil
}

// awaitAuth blocks until the client library has presented the credentials on a link: it sends requests after that. A
// server may refuse all others.
func (s *session) awaitAuth(l *wire.Link) error {
	ctx, cancel := context.WithTimeout(s.Ctx, s.patience(s.TTL()/4))
	defer cancel()
	_, err := driver.Call(ctx, &s.Life, func() (string, error) { return s.conn.Sync("/") })
	if ctx.Err() != nil || transient(err) {
		s.giveUp(l)
	}
	return err
}

// giveUp ends a link, unless the session is over: then end needs it to close the session.
func (s *session) giveUp(l *wire.Link) {
	if s.Ctx.Err() == nil {
		_ = l.Close() // the client library notices
	}
}

// ask sends the leader a request over a link, and a second one if that is set: see wire.Link.Ask. It returns the
// earliest time at which the first may have been sent. It gives up a link that does not answer.
func (s *session) ask(l *wire.Link, vote bool, second func() bool) (sent time.Time, err error) {
	late := time.AfterFunc(s.patience(s.TTL()/4), func() {
		if s.Ctx.Err() != nil {
			return // see giveUp
		}
		s.cfg.Logger.Debug("zookeeper: no answer by way of the leader; trying another server", "session", s.ID())
		s.took.Store(s.took.Load() / 2) // it may be frozen, and others faster
		_ = l.Close()
	})
	defer late.Stop()
	sent = time.Now()
	last := sent
	answered := func() {
		s.took.Store(max(int64(time.Since(last)), s.took.Load()/2))
		last = time.Now()
	}
	then := second
	if second != nil {
		then = func() bool {
			answered()
			late.Reset(s.patience(s.TTL() / 4))
			return second()
		}
	}
	if err = l.Ask(vote, then); err != nil {
		if transient(err) {
			s.giveUp(l)
		}
		return time.Time{}, err
	}
	answered()
	return sent, nil
}

// linked returns the latest link, and whether the session is live on it.
func (s *session) linked() (gen uint64, live bool) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	state, _ := s.Peek()
	return s.gen, state == backend.Live
}

// vote makes the leader propose a transaction that changes nothing, which a quorum must acknowledge: a
// check that "/" has any version. If "/" is not readable or missing, the transaction is proposed all
// the same, and that error is its reply. A multi without operations would do, but servers that speak
// ZooKeeper's protocol may not expect it.
func (s *session) vote() error {
	results, err := s.conn.Multi(&zk.CheckVersionRequest{Path: "/", Version: -1})
	if len(results) == 1 && (errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrNoNode)) {
		return nil
	}
	return err
}

// voted reports whether a vote shows that a quorum followed the leader of a link, or one of an earlier
// epoch, at an instant or later: see DESIGN.md, "The window".
func (s *session) voted(l *wire.Link, since time.Time) bool {
	sent, epoch := l.NewestVote()
	return !sent.Before(since) || s.ballot.since(since, epoch)
}

// A ballot is the newest vote of all sessions of a Backend: see session.beat. It saves each session a
// vote of its own.
type ballot struct {
	mu    sync.Mutex
	sent  time.Time
	epoch uint64
}

// cast notes a vote.
func (b *ballot) cast(sent time.Time, epoch uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if sent.After(b.sent) {
		b.sent, b.epoch = sent, epoch
	}
}

// since reports whether there was a vote at t or later that counts for a link whose newest reply is of
// epoch. A vote with epoch 0 counts for no other link.
func (b *ballot) since(t time.Time, epoch uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.sent.Before(t) && b.epoch != 0 && b.epoch <= epoch
}
