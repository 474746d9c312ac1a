// Package health answers HTTP requests of load balancers, orchestrators and operators about a candidate.
//
//	mux.Handle("/", health.New(e, health.Options{}))
//
//	GET /leader    200 if this process leads, else 503
//	GET /replica   200 if it stands behind the leader, in touch with the service, else 503
//	GET /healthz   200 unless something that should continue does not: see Options
//	GET /status    200, and Elector.Status with the ages of what may be old
//
// Each answer is JSON, an Answer, and sends no request to the service: it is what the process knows. It is
// true when it is given; a term may end before the answer arrives. Use it for nothing that a second leader
// could harm.
//
// [Redirect] sends clients of another process to the leader, for work that only the leader does.
package health

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// DefaultBound is the default of Options.Bound.
const DefaultBound = time.Minute

// Options say when /healthz fails. The zero value is usable.
type Options struct {
	// Bound is how long something may make no progress; 0 means DefaultBound. After that, /healthz fails
	// if a term is over and its lead function or a hook still runs, if the next try of a campaign is
	// overdue, if a candidate stands in a session that is over, or if there is no campaign.
	Bound time.Duration
	// Idle accepts that there is no campaign, for example in a process that only observes.
	Idle bool
	// Outage is how long a campaign may be without a live session; 0 means for ever. Killing all
	// candidates does not repair a service that is down.
	Outage time.Duration
}

// An Answer is the JSON of each answer.
type Answer struct {
	// OK reports whether the answer is 200.
	OK bool `json:"ok"`
	// Why is the reason if OK is false.
	Why string `json:"why,omitempty"`
	// LeaderAge is how many seconds ago the leader in Status was last known to lead; the header Age has it
	// in whole seconds. It is missing if no leader is known.
	LeaderAge *float64       `json:"leaderAgeSeconds,omitempty"`
	Status    elector.Status `json:"status"`
}

// New returns a handler that answers for e. It needs no Close. It is safe for concurrent use.
func New(e elector.Elector, o Options) http.Handler {
	if o.Bound <= 0 {
		o.Bound = DefaultBound
	}
	mux := http.NewServeMux()
	for path, why := range map[string]func(elector.Status, time.Time) string{
		"/leader":  whyNotLeader,
		"/replica": whyNotReplica,
		"/healthz": o.whyNotWell,
		"/status":  func(elector.Status, time.Time) string { return "" },
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			s, now := e.Status(), time.Now()
			answer(w, s, now, why(s, now))
		})
	}
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "there are /leader, /replica, /healthz and /status", http.StatusNotFound)
	})
	return mux
}

// answer writes 200, or 503 with the reason.
func answer(w http.ResponseWriter, s elector.Status, now time.Time, why string) {
	a := Answer{OK: why == "", Why: why, Status: s}
	h := w.Header()
	if age, known := leaderAge(s, now); known {
		seconds := age.Seconds()
		a.LeaderAge = &seconds
		setAge(h, age)
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if !a.OK {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(a) // the error is the client's, and nobody is left to report it to
}

// leaderAge returns the age of what is known about the leader.
func leaderAge(s elector.Status, now time.Time) (age time.Duration, known bool) {
	return max(0, now.Sub(s.LeaderAsOf)), !s.LeaderAsOf.IsZero() && !s.Leader.Vacant()
}

func setAge(h http.Header, age time.Duration) { h.Set("Age", fmt.Sprint(int(age.Seconds()))) }

func whyNotLeader(s elector.Status, _ time.Time) string {
	if s.IsLeader() {
		return ""
	}
	return fmt.Sprintf("does not lead: it is %v", s.Role)
}

func whyNotReplica(s elector.Status, _ time.Time) string {
	switch {
	case s.Role != elector.RoleStanding:
		return fmt.Sprintf("does not stand behind a leader: it is %v", s.Role)
	case s.State != backend.Live:
		return fmt.Sprintf("out of touch with the service: the session is %v", s.State)
	}
	return ""
}

// whyNotWell returns what makes no progress, or "".
func (o Options) whyNotWell(s elector.Status, now time.Time) string {
	since := func(t time.Time) time.Duration { return now.Sub(t).Round(time.Millisecond) }
	overdue := func(t time.Time) bool { return !t.IsZero() && now.Sub(t) > o.Bound }
	switch {
	case s.Role == elector.RoleLeaving && overdue(s.Since):
		return fmt.Sprintf("the term has been over for %v, and its lead function or a hook still runs", since(s.Since))
	case overdue(s.NextTry):
		return fmt.Sprintf("the next try is overdue by %v", since(s.NextTry))
	case s.Role == elector.RoleStanding && s.State == backend.Lost && overdue(s.Deadline):
		return fmt.Sprintf("it stands in a session that has been over for %v", since(s.Deadline))
	case s.Role == elector.RoleIdle && !o.Idle && s.NextTry.IsZero() && overdue(s.Since):
		return fmt.Sprintf("there has been no campaign for %v", since(s.Since))
	case s.Role == elector.RoleClosed && !o.Idle && overdue(s.Since):
		return fmt.Sprintf("the elector has been closed for %v", since(s.Since))
	case o.Outage > 0 && s.Role == elector.RoleEntering && s.State != backend.Live && now.Sub(outOfTouch(s)) > o.Outage:
		return fmt.Sprintf("no session with the service for %v: %v", since(outOfTouch(s)), s.Err)
	}
	return ""
}

// outOfTouch returns since when a campaign has had no live session.
func outOfTouch(s elector.Status) time.Time {
	if s.Deadline.After(s.Since) {
		return s.Deadline
	}
	return s.Since
}
