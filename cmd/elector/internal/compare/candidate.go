package compare

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/cmd/elector/internal/report"
	"github.com/elector-go/elector/internal/crowd"
	"github.com/elector-go/elector/internal/services"
)

// A candidate is one process that wants to lead, with its own session and connections.
type candidate struct {
	*crowd.Candidate
	number int // by first arrival; it keeps its number after a crash
	client services.Client
	meter  *meter.Backend

	activity activity
	waiting  atomic.Bool    // for a predecessor or for the seat
	gone     atomic.Bool    // crashed, or told to leave: its errors do not matter
	entering atomic.Bool    // has not arrived yet
	arrived  chan time.Time // holds one

	// About its last arrival, for the run's goroutine alone.
	before meter.Counts // when it entered
	at     time.Time    // zero if there was none
	rank   int          // among all arrivals
	turn   int          // elections before it
}

// candidate creates a candidate. It does not connect.
func (r *run) candidate(number int) (*candidate, error) {
	at, err := r.service.Client()
	if err != nil {
		return nil, err
	}
	c := &candidate{number: number, client: at, arrived: make(chan time.Time, 1)}
	c.meter = meter.New(backend.Intercept(at.Backend, tap{&c.activity, r.half}.call), func(call meter.Call) { r.recorder.call(number, call) })
	// Kafka's layout knows candidates by numbers, so all use one as ID. It changes after a crash: a new
	// process is a new candidate.
	id := strconv.Itoa(len(r.Candidates) + 1)
	c.Candidate, err = r.Add(elector.Config{
		Backend: c.meter, Strategy: r.strategy, Election: r.election, ID: id, TTL: r.ttl,
		SurveyEvery: -1, // reads would be counted
		Hooks: elector.Hooks{
			Stage: c.stage,
			Ended: func(*elector.Term, error) { r.recorder.happened(number, report.Ended, time.Now()) },
			Session: func(_ string, s backend.State) {
				if s == backend.Lost && !c.gone.Load() {
					r.Fail(fmt.Errorf("candidate %d has lost its session with the service, though nobody cut it off: the service was down or too slow for the session timeout", number))
				}
			},
		},
	})
	if err != nil {
		return nil, errors.Join(err, at.Close())
	}
	r.present = append(r.present, c) // all present ones are closed in the end
	r.by[c.Candidate] = c
	return c, nil
}

func (c *candidate) stage(e elector.StageEvent) {
	switch {
	case e.Stage == elector.StageReady:
		c.waiting.Store(!e.Completed)
	case e.Stage != elector.StageOffer || !e.Completed || e.Err != nil:
		return
	}
	if c.entering.Swap(false) {
		c.arrived <- time.Now()
	}
}

// counts returns what the candidate has done since it connected.
func (c *candidate) counts() meter.Counts { return c.meter.Counts().Sub(c.before) }

// connect opens the candidate's session. It returns the service's refusal. The read that this requires is not
// counted.
func (c *candidate) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if _, err := c.Leader(ctx); err != nil && !errors.Is(err, elector.ErrNoLeader) {
		return err
	}
	c.before = c.meter.Counts()
	return nil
}

// end withdraws or resigns, and closes the connections.
func (c *candidate) end(ctx context.Context) error {
	c.gone.Store(true)
	c.client.Mend()
	err := c.Close(ctx)
	_ = c.client.Close() // nothing depends on it any more
	return err
}

// enter starts a candidate's campaign, and returns when it has arrived: when its entry exists, or, if it has
// none, when it waits.
func (r *run) enter(c *candidate) error {
	c.entering.Store(true)
	r.Enter(c.Candidate)
	ctx, cancel := context.WithTimeout(r.Context(), r.patience)
	defer cancel()
	select {
	case c.at = <-c.arrived:
	case <-ctx.Done():
		return fmt.Errorf("candidate %d has not entered: %w", c.number, context.Cause(ctx))
	}
	c.rank, c.turn = r.arrivals, len(r.elected)
	r.arrivals++
	return nil
}

// join creates a candidate and connects it. It does not enter yet.
func (r *run) join(number int) (*candidate, error) {
	c, err := r.candidate(number)
	if err != nil {
		return nil, err
	}
	if err := c.connect(r.Context()); err != nil {
		return nil, r.hinted(fmt.Errorf("candidate %d connects: %w", number, err))
	}
	return c, nil
}

// number returns the next number of a candidate that was never there.
func (r *run) number() int {
	r.fairness.Wins = append(r.fairness.Wins, 0)
	return len(r.fairness.Wins) - 1
}
