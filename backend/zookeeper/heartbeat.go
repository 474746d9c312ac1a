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
	// requests per quarter of the session timeout. One of them is a transaction that changes nothing,
	// unless a write of any session of the same Backend was answered since the last heartbeat. On a
	// standalone server it must be a write of the same session, as zxids have no epoch there.
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

// beat moves the trust window by what the leader and a quorum have confirmed, until the session is
// over.
//
// Two facts must be shown of an instant, base: the leader of this link has noted the session, and a
// quorum still followed that leader. A deposed leader that does not know it yet continues to note
// sessions, for syncLimit ticks and more, while its successor expires them.
//
// Noted. A follower notes which sessions it heard from, and sends the leader that list as its reply to
// the ensemble's own heartbeat, which the leader sends every half tick. Requests that the follower
// forwards do not touch the session at the leader. But all these travel over one connection between the
// two, in order, in each direction. It follows:
//
//	base   a request, answered at a: the follower has noted the session after base
//	       was sent, and before a.
//	first  a sync sent half a tick after a, or later. The leader sent a heartbeat
//	       after a and before its reply to first. So the follower has handled that,
//	       and written its list to the leader, before first is answered.
//	second a request to the leader sent after first was answered. It follows the list
//	       on its way. Once it is answered, the leader has noted the session, at a
//	       time not before base was sent.
//
// Followed. Any write that is answered, a vote, was proposed by the leader of its epoch after it was
// sent, and acknowledged by a quorum that followed this leader then. Say it was sent at base or later.
// A leader of a later epoch needs a quorum, too, so one of these servers has left for it after base,
// and when it takes over it restarts all timeouts in full. So if this link's leader is of the vote's
// epoch, or a later one, then every leader that may expire the session counts from base or later: this
// one has noted the session, the later ones have started after base. A reply's zxid is of the leader's
// epoch at most, and it decides for a link whether a vote on another link counts (see ballot). A vote
// on the link itself always does.
//
// Ensembles count epochs from 1. A standalone server has none, 0, and a server that only speaks
// ZooKeeper's protocol may use plain numbers as zxids. That says nothing about leaders. So with epoch 0
// each session needs votes of its own link. (Open refuses such servers that it recognizes: see
// wire.ErrForeign.)
//
// A sync is no vote: the leader replies to it by itself when nothing is outstanding. Rising zxids do
// not prove a quorum either: acknowledgements that were in transit for long may commit what was
// proposed long before.
//
// second is the vote, if there has been none since base. first is the next round's base. That round
// starts a quarter of the timeout after first was answered, not second, so that slow replies cost the
// window less. So every quarter of the timeout the window moves to where it was a quarter ago. A link
// begins with its handshake, for which the follower asks the leader, and the leader notes the session
// then. A request to the leader follows on the same path: once it is answered, the leader has noted the
// session. So the handshake needs no first and second, but a vote, which is that request unless there
// has been one since. The first link's handshake makes the session. The window counts from it without
// any more requests, and it is the first round's base: a session that joins does not wait for a
// heartbeat. (A local session is made without a vote, and has no entries until it is made again, with
// one.)
//
// A session that is being closed, or is held by another link, may still get replies to both requests.
// The leader has noted it in vain then. But the backend closes no session before its window has passed,
// as long as the window was right so far; and then Extend does nothing.
//
// The premises:
//
//   - A link goes to one server, which follows one leader for as long as it keeps the link: it closes
//     its links when it looks for another.
//   - All servers of Config.Servers are Apache ZooKeeper's, and of one ensemble, any two of whose
//     quorums have a server in common.
//   - All servers have the same tickTime and bounds of session timeouts. The leader counts from what
//     the follower of the latest link grants, and that may be less.
//   - Half a tick is at most a quarter of the session timeout, since servers grant at least two ticks
//     by default. The margin covers a leader that is late with its own heartbeats.
//   - The follower is the leader's own: an observer behind another follower (observerMasterPort)
//     reports to the leader later than that.
//
// A request that is not answered in time gives the link up: the follower, or its leader, is cut off,
// and another server may still save the session. A request that is refused, such as by a server that
// throttles, proves nothing and is repeated.
//
// beat does a round, and returns the time until the next one.
func (s *session) beat(r *round) time.Duration {
	next, err := s.round(*r)
	switch {
	case err == nil:
		next.refused = 0
		*r = next
		return time.Until(next.due)
	case errors.Is(err, errNewLink):
		*r = round{}
		return 0
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
	if err = s.askFirst(&next, s.askLeader); err != nil {
		return r, err
	}
	if _, err = s.beatOnce(r.gen, s.second(r.link, r.base)); err != nil {
		return r, err
	}
	s.Extend(r.base)
	s.hosts.serves() // greet may have called it before the client library has noted the link
	return next, nil
}

// second returns a request to the leader, which is a vote unless there has been one since an instant.
func (s *session) second(l *wire.Link, since time.Time) (ask func() error) {
	if s.voted(l, since) {
		return s.askLeader
	}
	return s.vote
}

// askFirst sends the leader a request, which the next heartbeat can confirm.
func (s *session) askFirst(r *round, ask func() error) (err error) {
	r.base, err = s.beatOnce(r.gen, ask)
	r.due = time.Now().Add(s.TTL() / 4)
	return err
}

// greet waits for a link later than the given one, confirms its handshake, and returns its first round.
func (s *session) greet(after uint64) (r round, err error) {
	if r.gen, err = s.awaitLive(s.Ctx, after); err != nil {
		return r, err
	}
	link := s.pin.Current()
	if link.Opened() {
		r.link, r.base, r.due = link, link.AskedAt(), time.Now().Add(s.TTL()/4)
		s.hosts.serves()
		return r, nil
	}
	if err = s.askFirst(&r, s.second(link, link.AskedAt())); err != nil {
		return r, err
	}
	s.Extend(link.AskedAt())
	s.hosts.serves()
	r.link = link
	return r, nil
}

var errNewLink = errors.New("the session is on another link")

// beatOnce sends a request over the given link and returns the earliest time at which it may have been
// sent.
func (s *session) beatOnce(gen uint64, ask func() error) (time.Time, error) {
	ctx, cancel := context.WithTimeout(s.Ctx, s.patience(s.TTL()/4))
	defer cancel()
	now, err := s.awaitLive(ctx, gen-1)
	if err != nil {
		return time.Time{}, err
	}
	if now != gen {
		return time.Time{}, errNewLink
	}
	sent := time.Now()
	_, err = driver.Call(ctx, &s.Life, func() (struct{}, error) { return struct{}{}, ask() })
	switch {
	case err == nil:
	case ctx.Err() != nil && s.Ctx.Err() == nil:
		s.cfg.Logger.Debug("zookeeper: no answer by way of the leader; trying another server", "session", s.ID())
		s.took.Store(s.took.Load() / 2) // it may be frozen, and others faster
		s.cut(gen)
		return time.Time{}, err
	case transient(err):
		s.leave(gen, err)
		return time.Time{}, err
	default:
		return time.Time{}, err
	}
	if now, _ := s.linked(); now != gen {
		return time.Time{}, errNewLink // the request may have been answered on the new link
	}
	s.took.Store(max(int64(time.Since(sent)), s.took.Load()/2))
	return sent, nil
}

// linked returns the latest link, and whether the session is live on it.
func (s *session) linked() (gen uint64, live bool) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	state, _ := s.Peek()
	return s.gen, state == backend.Live
}

// askLeader makes the leader reply, by a sync. Any path will do; it need not exist.
func (s *session) askLeader() error {
	_, err := s.conn.Sync("/")
	return err
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
// epoch, at an instant or later: see Followed, above.
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
