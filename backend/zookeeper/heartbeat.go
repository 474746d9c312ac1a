package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector/backend"
)

// Heartbeat says which answers move the trust window.
type Heartbeat int

const (
	// HeartbeatLeader: answers that prove that the leader, which expires sessions,
	// has heard of this one. It is the default, and costs two sync requests per
	// quarter of the session timeout.
	HeartbeatLeader Heartbeat = iota + 1

	// HeartbeatPing: any answer of the server that the client is connected to. It
	// costs nothing, as the client library pings anyway. It is right for a
	// standalone server. In an ensemble it is wrong about a follower that is cut off from
	// the leader: it goes on answering pings for syncLimit ticks, while the leader
	// lets the session expire.
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

// minPatience is the shortest time that a sync may take before the link is given up.
const minPatience = 250 * time.Millisecond

// beat moves the trust window by what the leader has confirmed, until the session
// is over.
//
// A follower notes which sessions it heard from, and sends the leader that list as
// its answer to the ensemble's own heartbeat, which the leader sends every half
// tick. Requests that the follower passes on, sync among them, do not touch the
// session at the leader. But all these travel over one connection between the two,
// in order, in each direction. From that:
//
//	base   a request, answered at a: the follower has noted the session after base
//	       was sent, and before a.
//	first  a sync sent half a tick after a, or later. A heartbeat of the leader's was
//	       sent after a and before the leader's answer to first. So the follower has
//	       handled it, and written its list to the leader, before first is answered.
//	second a sync sent after first was answered. It follows the list on its way to
//	       the leader. Once it is answered, the leader has noted the session, at a time
//	       not before base was sent: the window may count from there.
//
// Half a tick is at most a quarter of the session timeout, since servers grant at
// least two ticks by default. second is the next round's base, so that the window
// is moved every quarter of the timeout to where it was a quarter ago. All three have
// to go over one link. The handshake of a link is confirmed by the leader itself.
//
// A sync that is not answered in time gives the link up: the follower is cut off,
// and another server may still save the session.
//
// Each round has a goroutine of its own, and there is none in between. gen is the link
// of the last round and base its second sync; zero for the first round.
func (s *session) beat(gen uint64, base time.Time) {
	for {
		var err error
		if !base.IsZero() {
			base, err = s.confirm(gen, base)
		} else if gen, err = s.awaitLive(s.ctx, gen); err == nil {
			base, err = s.beatOnce(gen)
		}
		switch {
		case err == nil:
			s.later(s.ttl/4, func() { s.beat(gen, base) })
			return
		case s.ctx.Err() != nil:
			return
		}
		// This link is done for; the next one is a new beginning.
		base = time.Time{}
		if errors.Is(err, errNewLink) {
			gen = 0 // the session is on it already
		}
	}
}

// confirm sends first and second, which follow base.
func (s *session) confirm(gen uint64, base time.Time) (second time.Time, err error) {
	if _, err = s.beatOnce(gen); err != nil {
		return time.Time{}, err
	}
	if second, err = s.beatOnce(gen); err != nil {
		return time.Time{}, err
	}
	s.window.Extend(base)
	return second, nil
}

// later runs a function on a goroutine of the session's after d, unless that is over
// by then. There is one at a time.
func (s *session) later(d time.Duration, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == backend.Lost {
		return
	}
	s.timer = time.AfterFunc(d, func() {
		if s.begin() {
			defer s.calls.Done()
			do()
		}
	})
}

var errNewLink = errors.New("the session is on another link")

// beatOnce sends a sync over the given link and returns when it was sent, at the
// earliest.
func (s *session) beatOnce(gen uint64) (time.Time, error) {
	ctx, cancel := context.WithTimeout(s.ctx, max(s.ttl/4, minPatience))
	defer cancel()
	now, err := s.awaitLive(ctx, gen-1)
	if err != nil {
		return time.Time{}, err
	}
	if now != gen {
		return time.Time{}, errNewLink
	}
	sent := time.Now()
	_, err = call(ctx, s, func() (string, error) { return s.conn.Sync(s.syncPath()) })
	switch {
	case err == nil:
	case ctx.Err() != nil && s.ctx.Err() == nil:
		s.cfg.Logger.Debug("zookeeper: no answer by way of the leader; trying another server", "session", s.id)
		s.pin.cut()
		return time.Time{}, err
	default:
		return time.Time{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gen != gen {
		return time.Time{}, errNewLink // it may have been answered on the new one
	}
	return sent, nil
}

// syncPath is some path that a sync may name; it need not exist.
func (s *session) syncPath() string {
	if s.cfg.Chroot != "" {
		return s.cfg.Chroot
	}
	return "/"
}
