package compare

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/cmd/elector/internal/report"
	"github.com/elector-go/elector/internal/crowd"
	"github.com/elector-go/elector/internal/program"
	"github.com/elector-go/elector/strategy"
)

const (
	// connectTimeout bounds the opening of one session.
	connectTimeout = 10 * time.Second
	// joins is how many of the first arrivals are measured one by one: the last ones, which meet most others.
	joins = 5
	// otherFiles is how many open files the process has besides the candidates' connections.
	otherFiles = 50
)

// A run is one strategy with n candidates on one service.
type run struct {
	cfg      Config
	service  service
	strategy strategy.Strategy
	n        int
	election string
	ttl      time.Duration
	half     time.Duration // of a simulated round trip
	// patience limits everything that does not wait for a session's end. It grows with the candidates: the
	// next one of ranked reads all others, one after the other.
	patience time.Duration
	random   *rand.Rand
	step     func(doing string) // one step is done

	*crowd.Crowd
	cleanups sync.WaitGroup
	observer *backend.Session
	recorder recorder

	present  []*candidate // by arrival
	by       map[*crowd.Candidate]*candidate
	arrivals int
	elected  []int        // ranks of arrival, in the order of election
	left     meter.Counts // of those that are gone
	fewer    map[int]bool // the numbers of those that left, or joined later

	// The findings.
	fairness           report.Fairness
	changes, joined    int
	perChange, perJoin meter.Counts
	resigned, crashed  []time.Duration
	unnoticed, waits   []time.Duration
	figures            *figures
	sample             *report.Timeline
	crashes            []bool    // by leader change
	began              time.Time // of the latest one by resignation
	sampled            int       // the leader change to record
}

// all completes the run, unless ctx ends or something fails.
func (r *run) all() error {
	if err := r.gather(); err != nil {
		return err
	}
	r.plan()
	for i, crash := range r.crashes {
		if err := r.change(crash, i == r.sampled); err != nil {
			return fmt.Errorf("leader change %d of %d: %w", i+1, len(r.crashes), err)
		}
		if err := r.churn(); err != nil {
			return err
		}
		r.step("leader changes")
	}
	return nil
}

// change makes one leader change. It does not read the service's figures at crashes: they would be those of
// the heartbeats in a session timeout.
func (r *run) change(crash, sample bool) error {
	if crash {
		if err := r.measured(&r.perChange, r.crash); err != nil {
			return err
		}
		r.changes++
		return nil
	}
	r.recorder.on(sample)
	before := r.figures.read(r.Context())
	if err := r.measured(&r.perChange, r.resign); err != nil {
		return err
	}
	r.figures.add(before, r.figures.read(r.Context()))
	r.changes++
	if sample {
		r.sample = r.recorder.timeline(r.began, r.numbers())
	}
	return nil
}

// numbers returns the numbers of the present candidates, rising.
func (r *run) numbers() (all []int) {
	for _, c := range r.present {
		all = append(all, c.number)
	}
	slices.Sort(all)
	return all
}

// plan draws which changes are crashes, and picks the one to record: a resignation in the middle.
func (r *run) plan() {
	r.crashes = make([]bool, r.cfg.Changes)
	for _, i := range r.random.Perm(r.cfg.Changes)[:r.cfg.crashes()] {
		r.crashes[i] = true
	}
	r.sampled = -1
	for i, crash := range r.crashes {
		if !crash && (r.sampled < 0 || i <= len(r.crashes)/2) {
			r.sampled = i
		}
	}
}

// gather makes n candidates connect, and then enter one after the other.
func (r *run) gather() error {
	if err := program.EnoughFiles(r.service.files()*r.n + otherFiles); err != nil {
		return err
	}
	for range r.n {
		if _, err := r.candidate(r.number()); err != nil {
			return err
		}
	}
	if err := r.connect(); err != nil {
		return err
	}
	for i, c := range r.present {
		if err := r.admit(i, c); err != nil {
			return err
		}
		r.step("candidates enter")
	}
	if err := r.still(); err != nil {
		return err
	}
	r.figures.settle(r.Context())
	return nil
}

// admit makes the i-th of the first candidates enter.
func (r *run) admit(i int, c *candidate) error {
	switch {
	case i == 0:
		if err := r.enter(c); err != nil {
			return err
		}
		err := r.next(r.patience)
		r.waits = nil // it found the seat vacant
		return err
	case i < r.n-joins:
		return r.enter(c)
	}
	if err := r.still(); err != nil {
		return err
	}
	r.joined++
	return r.measured(&r.perJoin, func() error { return r.enter(c) })
}

// connect opens all sessions.
func (r *run) connect() error {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	errs := crowd.Each(r.present, func(c *candidate) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err := c.connect(ctx)
		if err != nil {
			cancel(err)
		}
		return err
	})
	if len(errs) == 0 {
		return nil
	}
	return r.hinted(fmt.Errorf("%d of %d candidates could connect: %w", r.n-len(errs), r.n, context.Cause(ctx)))
}

// hinted adds a possible cause to an error of connecting.
func (r *run) hinted(err error) error {
	if hint := r.service.hint(r.n); hint != "" && r.Context().Err() == nil {
		return fmt.Errorf("%w; %s", err, hint)
	}
	return err
}

// next blocks until a campaign has been won, and makes its candidate the leader.
func (r *run) next(within time.Duration) error {
	if err := r.Succession(within); err != nil {
		return err
	}
	w := r.Leader
	c := r.by[w.Candidate]
	r.recorder.happened(c.number, report.Elected, w.At)
	r.fairness.Wins[c.number]++
	r.fairness.LongestWait = max(r.fairness.LongestWait, len(r.elected)-c.turn)
	r.elected = append(r.elected, c.rank)
	r.waits = append(r.waits, w.At.Sub(c.at))
	return nil
}

// measured adds to sum what all candidates do from now until do and its effects are over and all is quiet.
func (r *run) measured(sum *meter.Counts, do func() error) error {
	before := r.counts()
	if err := do(); err != nil {
		return err
	}
	if err := r.still(); err != nil {
		return err
	}
	*sum = sum.Add(r.counts().Sub(before))
	return nil
}

func (r *run) counts() meter.Counts {
	sum := r.left
	for _, c := range r.present {
		sum = sum.Add(c.counts())
	}
	return sum
}

// still blocks until all except the leader wait, and nothing has moved for a while.
func (r *run) still() error {
	ctx, cancel := context.WithTimeout(r.Context(), r.patience)
	defer cancel()
	for {
		before, _ := r.moves()
		if err := program.Sleep(ctx, r.service.rest()); err != nil {
			_, restless := r.moves()
			return fmt.Errorf("%d of %d candidates have not come to rest: %w", restless, len(r.present), err)
		}
		// In this order: a candidate's reaction to a notice is a move.
		due := r.service.due()
		if after, restless := r.moves(); due == 0 && restless == 0 && after == before {
			return nil
		}
	}
}

// moves counts the begun and ended actions of candidates, and the candidates that are not at rest.
func (r *run) moves() (moves int64, restless int) {
	for _, c := range r.present {
		moves += c.activity.moves.Load()
		idle := c.at.IsZero() || c.Candidate == r.Leader.Candidate || c.waiting.Load()
		if c.activity.busy.Load() != 0 || !idle {
			restless++
		}
	}
	return moves, restless
}

// forget removes a candidate from the count. Its actions so far stay counted.
func (r *run) forget(c *candidate) {
	r.present = slices.DeleteFunc(r.present, func(o *candidate) bool { return o == c })
	r.left = r.left.Add(c.counts())
}
