package elector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/delay"
)

// A Role is what an elector is doing.
type Role int

const (
	// RoleIdle: the elector neither campaigns nor leads.
	RoleIdle Role = iota + 1
	// RoleEntering: the elector campaigns but does not stand in the election now, because no server can be
	// reached, the application is not fit, the election's directory takes no more candidates, or it waits for
	// its next try.
	RoleEntering
	// RoleStanding: the elector stands in the election and waits for its turn.
	RoleStanding
	// RoleLeading: the elector's term holds.
	RoleLeading
	// RoleLeaving: the term is over, and part of it still runs: the lead function of Run or a hook has not
	// returned, or the end is not settled with the service.
	RoleLeaving
	// RoleClosed: Close has begun, and no term is left.
	RoleClosed
)

var roleNames = [...]string{
	RoleIdle: "idle", RoleEntering: "entering", RoleStanding: "standing", RoleLeading: "leading",
	RoleLeaving: "leaving", RoleClosed: "closed",
}

// String returns the role's name, for example "leading".
func (r Role) String() string {
	if r >= RoleIdle && int(r) < len(roleNames) {
		return roleNames[r]
	}
	return fmt.Sprintf("Role(%d)", int(r))
}

// MarshalText returns the role's name, or nothing for the zero Role.
func (r Role) MarshalText() ([]byte, error) {
	if r == 0 {
		return nil, nil
	}
	return []byte(r.String()), nil
}

// UnmarshalText reads the output of MarshalText.
func (r *Role) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*r = 0
		return nil
	}
	for role := RoleIdle; int(role) < len(roleNames); role++ {
		if roleNames[role] == string(text) {
			*r = role
			return nil
		}
	}
	return fmt.Errorf("elector: there is no role %.100q", text)
}

// A Status is what an elector knows at one moment without a request: see Elector.Status. Use it for
// nothing that a second leader could harm: call Term.Valid for that.
type Status struct {
	Role Role
	// Since is when the role began, by this process's clock.
	Since time.Time
	// Token is the token of the term that the elector leads by or is leaving; 0 in other roles.
	Token uint64

	// Place is the candidate's place in line. The candidate at place 1 leads, or is next while nobody
	// does. 0 means unknown. A campaign with fair or ranked knows it directly behind the leader; otherwise
	// it comes from the last call of Candidates during this candidacy. PlaceAsOf is to Place as LeaderAsOf
	// is to Leader; it is zero if Place is 0.
	Place     int
	PlaceAsOf time.Time

	// Leader is the last leader seen by this elector's own term, an Observe, a campaign or a call of
	// Leader. It is vacant if nobody led then, or if nothing is known: LeaderAsOf shows which. A campaign
	// sees the leader while it waits for it: with unfair and kafka, and, with fair and ranked, directly
	// behind it.
	Leader Leader
	// LeaderAsOf is when Leader was last known to be current; zero if nothing is known. While an Observe
	// or a campaign waits for a change, it advances with each answer of the service that keeps the session
	// alive. It stands still while out of touch, when nobody follows the election any more, and while an
	// Observe's loop is busy. A server's notice of a change may come later than its answer: see
	// docs/guarantees.md, promise 7.
	LeaderAsOf time.Time

	// Session is the service's name for the session; "" if there has been none.
	Session string
	// State is the session's state; 0 if there has been no session, Lost after Close.
	State backend.State
	// Deadline is the end of the session's trust window; it is past if the session is Lost.
	Deadline time.Time

	// Err is the last error, and ErrAt is when it happened: a failed try of a campaign or an Observe, what
	// a lead function returned to Run, why the application is not fit, or why a term ended
	// unintentionally. It is nil if there was no error. It stays when all is well again.
	Err   error
	ErrAt time.Time
	// NextTry is when the first of the pending retries begins; zero if none is pending.
	NextTry time.Time
}

// IsLeader reports whether the elector leads.
func (s Status) IsLeader() bool { return s.Role == RoleLeading }

// statusJSON is the JSON of a Status. Zero fields are omitted, except the role.
type statusJSON struct {
	Role       Role         `json:"role"`
	Since      time.Time    `json:"since,omitzero"`
	Token      uint64       `json:"token,omitzero"`
	Place      int          `json:"place,omitzero"`
	PlaceAsOf  time.Time    `json:"placeAsOf,omitzero"`
	Leader     *leaderJSON  `json:"leader,omitempty"`
	LeaderAsOf time.Time    `json:"leaderAsOf,omitzero"`
	Session    *sessionJSON `json:"session,omitempty"`
	Err        string       `json:"err,omitempty"`
	ErrAt      time.Time    `json:"errAt,omitzero"`
	NextTry    time.Time    `json:"nextTry,omitzero"`
}

type leaderJSON struct {
	ID    string    `json:"id"`
	Value []byte    `json:"value,omitempty"`
	Text  string    `json:"text,omitempty"` // Value, if it is text: for people
	Token uint64    `json:"token"`
	Since time.Time `json:"since,omitzero"`
}

type sessionJSON struct {
	ID       string    `json:"id"`
	State    string    `json:"state"`
	Deadline time.Time `json:"deadline"`
}

// MarshalJSON writes the status for people and their tools. It omits zero fields, except the role. It
// writes the leader's value in base64, and also as text if it is valid UTF-8.
func (s Status) MarshalJSON() ([]byte, error) {
	out := statusJSON{
		Role: s.Role, Since: s.Since, Token: s.Token, Place: s.Place, PlaceAsOf: s.PlaceAsOf,
		LeaderAsOf: s.LeaderAsOf, ErrAt: s.ErrAt, NextTry: s.NextTry,
	}
	if l := s.Leader; !l.Vacant() {
		out.Leader = &leaderJSON{ID: l.ID, Value: l.Value, Token: l.Token, Since: l.Since}
		if utf8.Valid(l.Value) {
			out.Leader.Text = string(l.Value)
		}
	}
	if s.State != 0 {
		out.Session = &sessionJSON{s.Session, s.State.String(), s.Deadline}
	}
	if s.Err != nil {
		out.Err = s.Err.Error()
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads the output of MarshalJSON. The Leader has no Seat, and Err has only the text.
func (s *Status) UnmarshalJSON(data []byte) error {
	var in statusJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*s = Status{
		Role: in.Role, Since: in.Since, Token: in.Token, Place: in.Place, PlaceAsOf: in.PlaceAsOf,
		LeaderAsOf: in.LeaderAsOf, ErrAt: in.ErrAt, NextTry: in.NextTry,
	}
	if l := in.Leader; l != nil {
		s.Leader = Leader{ID: l.ID, Value: l.Value, Token: l.Token, Since: l.Since}
	}
	if session := in.Session; session != nil {
		s.Session, s.Deadline = session.ID, session.Deadline
		for _, state := range []backend.State{backend.Live, backend.Suspended, backend.Lost} {
			if state.String() == session.State {
				s.State = state
			}
		}
		if s.State == 0 {
			return fmt.Errorf("elector: there is no session state %.100q", session.State)
		}
	}
	if in.Err != "" {
		s.Err = errors.New(in.Err)
	}
	return nil
}

func (e *elector) Status() Status {
	// The role before the term: a campaign that wins makes its term first and becomes idle after that.
	s := e.observations.status()
	t, session := e.current()
	now := time.Now()
	if session != nil {
		s.Session, s.Deadline = session.ID(), session.Deadline()
		if s.State = session.State(); !now.Before(s.Deadline) {
			s.State = backend.Lost // its timers have not run yet
		}
	}
	if t == nil {
		return s
	}
	t.fill(&s, now)
	return s
}

// fill adds what the elector's latest term knows to a status.
func (t *tenure) fill(s *Status, now time.Time) {
	valid := t.valid()
	l := &t.life
	l.mu.Lock()
	defer l.mu.Unlock()
	if valid {
		s.Role, s.Since, s.Token = RoleLeading, l.began, t.claim.Token
		s.Leader = Leader{ID: t.e.id, Value: l.value, Token: t.claim.Token, Seat: l.entry, Since: l.began}
		s.LeaderAsOf = later(l.began, provenAt(t.session))
		s.Place, s.PlaceAsOf = 1, s.LeaderAsOf
		return
	}
	ended := l.ended
	if ended.IsZero() {
		ended = now // it ends at this moment, or the process was paused
	}
	switch {
	case l.parts > 0:
		s.Role, s.Since, s.Token = RoleLeaving, ended, t.claim.Token
	case s.Role == RoleIdle:
		s.Since = later(s.Since, l.freed)
	}
	if s.LeaderAsOf.Before(ended) || s.Leader.Token == t.claim.Token {
		s.Leader, s.LeaderAsOf = Leader{}, time.Time{} // nothing is known about who came after this term
	}
}

// beginPart notes that a part of the term begins: its elector counts as leaving until each part has ended, which
// the returned function notes.
func (t *tenure) beginPart() (ended func()) {
	if t == nil { // a fake's
		return func() {}
	}
	l := &t.life
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parts++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.parts--
		l.freed = time.Now()
	}
}

// provenAt returns an instant at which a session was alive in the service.
func provenAt(s *backend.Session) time.Time { return s.Deadline().Add(-s.TTL()) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// observations is what an elector has seen and done, for Status. State that the elector holds itself, such as
// its session and its term, is not here.
type observations struct {
	mu      sync.Mutex
	role    Role // while it does not lead
	since   time.Time
	entryNo int // counts the roles, and the entries that a candidate takes within a role

	open []*observation // of all that follow the election
	last observation    // the latest of the others

	err   error
	errAt time.Time
	tries map[*delay.Backoff]time.Time // when the pending retries begin
}

// An observation is who leads, and this candidate's place, each as of an instant. One that follows the election
// in a session gets newer with the session's heartbeats while nothing changes.
type observation struct {
	leader     Leader
	leaderAsOf time.Time // zero if nothing is known
	place      int
	placeAsOf  time.Time

	all     *observations
	session *backend.Session
	waiting time.Time // since when it waits for a change; zero if it does not wait
}

// newer returns the latest parts of two observations. If both are equally new, o counts as later.
func (one observation) newer(o observation) observation {
	if !o.leaderAsOf.Before(one.leaderAsOf) {
		one.leader, one.leaderAsOf = o.leader, o.leaderAsOf
	}
	if !o.placeAsOf.Before(one.placeAsOf) {
		one.place, one.placeAsOf = o.place, o.placeAsOf
	}
	return one
}

// status returns the part of a Status that observations holds.
func (o *observations) status() Status {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := o.last
	for _, one := range o.open {
		seen = seen.newer(one.now())
	}
	out := Status{
		Role: o.role, Since: o.since, Leader: seen.leader, LeaderAsOf: seen.leaderAsOf, Place: seen.place, PlaceAsOf: seen.placeAsOf,
		Err: o.err, ErrAt: o.errAt,
	}
	if out.Place == 0 {
		out.PlaceAsOf = time.Time{}
	}
	for _, at := range o.tries {
		if out.NextTry.IsZero() || at.Before(out.NextTry) {
			out.NextTry = at
		}
	}
	return out
}

// setRole notes that the elector has this role from now on. RoleClosed is final.
func (o *observations) setRole(to Role) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.role == RoleClosed {
		return
	}
	if o.role != to { // a candidate that tries again has been entering all the time
		o.role, o.since = to, time.Now()
	}
	o.entryNo++
	o.forgetPlace()
}

// placeChanged notes that the candidate has another place, which is unknown.
func (o *observations) placeChanged() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.entryNo++
	o.forgetPlace()
}

// forgetPlace forgets the candidate's place, with mu locked: the candidate has another entry, or none.
func (o *observations) forgetPlace() {
	o.last.place, o.last.placeAsOf = 0, time.Time{}
	for _, one := range o.open {
		one.place, one.placeAsOf = 0, time.Time{}
	}
}

func (o *observations) failed(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err, o.errAt = err, time.Now()
}

// retries notes when the next try of b begins; the returned function notes that it has begun.
func (o *observations) retries(b *delay.Backoff, wait time.Duration) (over func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tries == nil {
		o.tries = make(map[*delay.Backoff]time.Time)
	}
	o.tries[b] = time.Now().Add(wait)
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.tries, b)
	}
}

// sawLeader notes who led at some instant. It is for a reader that does not follow the election.
func (o *observations) sawLeader(leader Leader, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = o.last.newer(observation{leader: leader, leaderAsOf: at})
}

// currentEntry returns the entryNo to pass to sawPlace.
func (o *observations) currentEntry() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.entryNo
}

// sawPlace notes the candidate's place at some instant, if the candidate still has the entry of entryNo.
func (o *observations) sawPlace(place, entryNo int, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if entryNo == o.entryNo && o.role == RoleStanding {
		o.last = o.last.newer(observation{place: place, placeAsOf: at})
	}
}

// add begins an observation that follows the election in a session; the caller must end it.
func (o *observations) add(session *backend.Session) *observation {
	one := &observation{all: o, session: session}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open = append(o.open, one)
	return one
}

// now returns the observation as of the last heartbeat, with all.mu locked. If the session was known to be alive
// after the wait began, nothing had changed until then: the answer that proves it comes after any notice of a
// change.
func (one *observation) now() observation {
	o := *one
	if o.waiting.IsZero() {
		return o
	}
	if proven := provenAt(o.session); proven.After(o.waiting) {
		if !o.leaderAsOf.IsZero() {
			o.leaderAsOf = later(o.leaderAsOf, proven)
		}
		if !o.placeAsOf.IsZero() {
			o.placeAsOf = later(o.placeAsOf, proven)
		}
	}
	return o
}

// sees notes who leads, and the candidate's place, or 0 if that is unknown.
func (one *observation) sees(leader Leader, place int) {
	one.all.mu.Lock()
	defer one.all.mu.Unlock()
	now := time.Now()
	one.waiting = time.Time{}
	one.leader, one.leaderAsOf, one.place, one.placeAsOf = leader, now, 0, time.Time{}
	if place != 0 {
		one.place, one.placeAsOf = place, now
	}
}

// waits notes that from now on a change of what was seen will be reported.
func (one *observation) waits() {
	one.all.mu.Lock()
	defer one.all.mu.Unlock()
	if !one.leaderAsOf.IsZero() {
		one.waiting = time.Now()
	}
}

// rests notes that a change will no longer be reported: what was seen gets older.
func (one *observation) rests() {
	one.all.mu.Lock()
	defer one.all.mu.Unlock()
	*one = one.now()
	one.waiting = time.Time{}
}

// end is rests, and removes the observation.
func (one *observation) end() {
	one.rests()
	one.all.mu.Lock()
	defer one.all.mu.Unlock()
	one.all.open = slices.DeleteFunc(one.all.open, func(o *observation) bool { return o == one })
	one.all.last = one.all.last.newer(*one)
}

// noteError notes the error of a try or a call, unless ctx or Close ended it.
func (e *elector) noteError(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil && e.ctx.Err() == nil && !errors.Is(err, ErrClosed) {
		e.observations.failed(err)
	}
}
