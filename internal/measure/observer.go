package measure

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// A Sink receives what an Observer sees. It is called on the goroutines of hooks, and must not block.
type Sink interface {
	// Add counts one event. label is one of the metric's Values, or "" if it has none.
	Add(m *Metric, label string)
	// Record adds to a histogram. ctx is the context of the call, for its values.
	Record(ctx context.Context, m *Metric, label string, took time.Duration)
}

// An Observer sees what one elector does, through its hooks and its status. It has no goroutine. Its
// methods may be called from any goroutine.
type Observer struct {
	sink Sink

	mu       sync.Mutex
	elector  elector.Elector // nil before Follow
	ledAsOf  time.Time       // when a leader was last known; at first, when Follow was called
	campaign time.Time       // when the pending campaign began
	session  string
	term     *elector.Term // the latest
}

// New makes an observer that reports to sink.
func New(sink Sink) *Observer { return &Observer{sink: sink} }

// Follow sets the elector whose status Read reads: the one that was made with Hooks.
func (o *Observer) Follow(e elector.Elector) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.elector, o.ledAsOf = e, time.Now()
}

// Hooks returns hooks that must be among the elector's.
func (o *Observer) Hooks() elector.Hooks {
	return elector.Hooks{
		Elected: func(t *elector.Term) {
			o.mu.Lock()
			o.term = t
			o.mu.Unlock()
			o.sink.Add(Terms, "")
		},
		Ended: func(_ *elector.Term, cause error) {
			o.led(time.Now())
			o.sink.Add(TermEnds, Cause(cause))
		},
		Asked:    func(*elector.Term, elector.Request) { o.sink.Add(Requests, "") },
		Session:  o.sessionTurns,
		Retry:    func(r elector.RetryEvent) { o.sink.Add(Retries, r.What.String()) },
		Occupied: func(*elector.Term, error) { o.sink.Add(Strangers, "") },
		Aside:    func(why error) { o.sink.Add(StandAsides, asides.of(why)) },
		Stage: func(s elector.StageEvent) {
			switch {
			case s.Stage == elector.StageStart && !s.Completed:
				o.sink.Add(Attempts, "")
			case s.Stage == elector.StageFailed && s.Completed:
				o.sink.Add(AttemptFailures, Reason(s.Err))
			}
		},
		Campaign: o.campaigns,
		Commit: func(c elector.CommitEvent) {
			o.sink.Record(c.Context, CommitDuration, CommitOutcome(c.Err), c.Took)
		},
	}
}

func (o *Observer) campaigns(c elector.CampaignEvent) {
	o.mu.Lock()
	began := o.campaign
	if !c.Completed {
		o.campaign = time.Now()
	}
	o.mu.Unlock()
	if c.Completed {
		o.sink.Record(c.Context, CampaignDuration, CampaignOutcome(c), time.Since(began))
	}
}

// sessionTurns counts a session's states. A session that Close ends is Lost, too; that is no loss.
func (o *Observer) sessionTurns(id string, state backend.State) {
	o.mu.Lock()
	opened := id != o.session
	o.session = id
	o.mu.Unlock()
	switch {
	case opened:
		o.sink.Add(Sessions, "")
	case state == backend.Suspended:
		o.sink.Add(Suspensions, "")
	case state == backend.Lost && !o.closing():
		o.sink.Add(SessionLosses, "")
	}
}

// closing reports whether the elector is being closed. While it winds up its last term, its role does not
// say so yet, but the cause of the term's end does.
func (o *Observer) closing() bool {
	o.mu.Lock()
	e, t := o.elector, o.term
	o.mu.Unlock()
	return e != nil && e.Status().Role == elector.RoleClosed || t != nil && errors.Is(context.Cause(t.Context()), elector.ErrClosed)
}

// led notes that a leader was known at some instant, and returns the latest such instant.
func (o *Observer) led(at time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if at.After(o.ledAsOf) {
		o.ledAsOf = at
	}
	return o.ledAsOf
}

// Read yields the current values of gauges: none before Follow, and none for what is unknown. It sends no
// requests.
func (o *Observer) Read(yield func(m *Metric, label string, value float64)) {
	o.mu.Lock()
	e := o.elector
	o.mu.Unlock()
	if e == nil {
		return
	}
	s := e.Status()
	now := time.Now()
	is := func(m *Metric, label string, so bool) {
		value := 0.0
		if so {
			value = 1
		}
		yield(m, label, value)
	}
	since := func(m *Metric, at time.Time) { yield(m, "", max(0, now.Sub(at).Seconds())) }

	is(IsLeader, "", s.IsLeader())
	for _, role := range roles {
		is(RoleState, role, role == s.Role.String())
	}
	for _, state := range states {
		is(SessionState, state, s.State != 0 && state == s.State.String())
	}
	if s.State != 0 {
		yield(TrustRemaining, "", max(0, s.Deadline.Sub(now).Seconds()))
	}
	if !s.LeaderAsOf.IsZero() {
		since(LeaderAge, s.LeaderAsOf)
	}
	led := o.led(time.Time{})
	if !s.Leader.Vacant() {
		led = o.led(s.LeaderAsOf)
	}
	if s.IsLeader() {
		led = now
	}
	since(Leaderless, led)
	if s.Place != 0 {
		yield(Place, "", float64(s.Place))
	}
	ended := now
	if s.Role == elector.RoleLeaving {
		ended = s.Since
	}
	since(TermOverrun, ended)
}
