package elector

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
)

// sights is what an elector has seen and done, for Status. State that the elector holds itself, such as
// its session and its term, is not here.
type sights struct {
	mu    sync.Mutex
	role  Role // while it does not lead
	since time.Time
	stint int // counts the roles, and the entries that a candidate takes within a role

	open []*sight // of all followers of the election
	last glimpse  // the latest of the others

	err   error
	errAt time.Time
	tries map[*backoff]time.Time // when the pending retries begin
}

// A glimpse is what was current at one instant.
type glimpse struct {
	leader     Leader
	leaderAsOf time.Time
	place      int
	placeAsOf  time.Time
}

// newer returns the latest parts of two glimpses. If both are equally new, o counts as later.
func (g glimpse) newer(o glimpse) glimpse {
	if !o.leaderAsOf.Before(g.leaderAsOf) {
		g.leader, g.leaderAsOf = o.leader, o.leaderAsOf
	}
	if !o.placeAsOf.Before(g.placeAsOf) {
		g.place, g.placeAsOf = o.place, o.placeAsOf
	}
	return g
}

// status returns the part of a Status that sights holds.
func (s *sights) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.last
	for _, one := range s.open {
		seen = seen.newer(one.now())
	}
	out := Status{
		Role: s.role, Since: s.since, Leader: seen.leader, LeaderAsOf: seen.leaderAsOf, Place: seen.place, PlaceAsOf: seen.placeAsOf,
		Err: s.err, ErrAt: s.errAt,
	}
	if out.Place == 0 {
		out.PlaceAsOf = time.Time{}
	}
	for _, at := range s.tries {
		if out.NextTry.IsZero() || at.Before(out.NextTry) {
			out.NextTry = at
		}
	}
	return out
}

// turn notes that the elector has this role from now on. RoleClosed is final.
func (s *sights) turn(to Role) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.role == RoleClosed {
		return
	}
	if s.role != to { // a candidate that tries again has been entering all the time
		s.role, s.since = to, time.Now()
	}
	s.stint++
	s.displaced()
}

// moved notes that the candidate has another place, which is unknown.
func (s *sights) moved() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stint++
	s.displaced()
}

// displaced forgets the candidate's place, with mu locked: the candidate has another entry, or none.
func (s *sights) displaced() {
	s.last.place, s.last.placeAsOf = 0, time.Time{}
	for _, one := range s.open {
		one.seen.place, one.seen.placeAsOf = 0, time.Time{}
	}
}

func (s *sights) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.errAt = err, time.Now()
}

// waits notes when the next try of b begins; the returned function notes that it has begun.
func (s *sights) waits(b *backoff, wait time.Duration) (over func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tries == nil {
		s.tries = make(map[*backoff]time.Time)
	}
	s.tries[b] = time.Now().Add(wait)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.tries, b)
	}
}

// led notes who led at some instant. It is for a reader that does not follow the election.
func (s *sights) led(leader Leader, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = s.last.newer(glimpse{leader: leader, leaderAsOf: at})
}

// stintNow returns the stint to pass to placed.
func (s *sights) stintNow() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stint
}

// placed notes the candidate's place at some instant, if the candidate still has the entry of stint.
func (s *sights) placed(place, stint int, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stint == s.stint && s.role == RoleStanding {
		s.last = s.last.newer(glimpse{place: place, placeAsOf: at})
	}
}

// A sight is what one follower sees of the election in one session. A nil sight sees nothing.
type sight struct {
	s       *sights
	session *backend.Session
	seen    glimpse
	since   time.Time // when it began to wait for a change of seen; zero if it does not wait
}

// follow begins a sight; the caller must end it.
func (s *sights) follow(session *backend.Session) *sight {
	one := &sight{s: s, session: session}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, one)
	return one
}

// now returns what the sight shows, with s.mu locked. If the session was known to be alive after the wait
// began, nothing had changed until then: the answer that proves it comes after any notice of a change.
func (one *sight) now() glimpse {
	g := one.seen
	if one.since.IsZero() {
		return g
	}
	if proven := provenAt(one.session); proven.After(one.since) {
		if !g.leaderAsOf.IsZero() {
			g.leaderAsOf = later(g.leaderAsOf, proven)
		}
		if !g.placeAsOf.IsZero() {
			g.placeAsOf = later(g.placeAsOf, proven)
		}
	}
	return g
}

// sees notes who leads, and the candidate's place, or 0 if that is unknown.
func (one *sight) sees(leader Leader, place int) {
	if one == nil {
		return
	}
	one.s.mu.Lock()
	defer one.s.mu.Unlock()
	now := time.Now()
	one.since = time.Time{}
	one.seen = glimpse{leader: leader, leaderAsOf: now}
	if place != 0 {
		one.seen.place, one.seen.placeAsOf = place, now
	}
}

// waits notes that from now on a change of what was seen will be reported.
func (one *sight) waits() {
	if one == nil {
		return
	}
	one.s.mu.Lock()
	defer one.s.mu.Unlock()
	if !one.seen.leaderAsOf.IsZero() {
		one.since = time.Now()
	}
}

// rests notes that a change will no longer be reported: what was seen gets older.
func (one *sight) rests() {
	if one == nil {
		return
	}
	one.s.mu.Lock()
	defer one.s.mu.Unlock()
	one.seen, one.since = one.now(), time.Time{}
}

// end is rests, and removes the sight.
func (one *sight) end() {
	if one == nil {
		return
	}
	one.rests()
	one.s.mu.Lock()
	defer one.s.mu.Unlock()
	one.s.open = slices.DeleteFunc(one.s.open, func(o *sight) bool { return o == one })
	one.s.last = one.s.last.newer(one.seen)
}

// amiss notes the error of a try or a call, unless ctx or Close ended it.
func (e *elector) amiss(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil && e.ctx.Err() == nil && !errors.Is(err, ErrClosed) {
		e.sights.failed(err)
	}
}
