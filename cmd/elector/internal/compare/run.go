package compare

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/cmd/elector/internal/report"
	"github.com/elector-go/elector/internal/program"
)

const (
	// connectTimeout bounds the opening of one session.
	connectTimeout = 10 * time.Second
	// atATime is how many candidates connect, or leave, at a time.
	atATime = 32
	// joins is how many of the first arrivals are watched one by one: the last ones,
	// which meet most others.
	joins = 5
	// otherFiles is how many open files the process has beside the candidates' connections.
	otherFiles = 50
)

// A run is one strategy with n candidates on one service.
type run struct {
	cfg      Config
	service  service
	strategy elector.Strategy
	n        int
	election string
	ttl      time.Duration
	half     time.Duration // of a simulated round trip
	// patience is how long anything may take that does not wait for a session's end. It grows
	// with the candidates: the next one of ranked reads all others, one after the other.
	patience time.Duration
	random   *rand.Rand
	step     func(doing string) // one step is done

	ctx  context.Context // ends with the cause when a candidate fails
	fail context.CancelCauseFunc

	wins      chan win
	campaigns sync.WaitGroup
	cleanups  sync.WaitGroup
	observer  *backend.Session
	recorder  recorder

	present  []*candidate // by arrival
	leader   win
	ids      int
	arrivals int
	elected  []int        // ranks of arrival, in the order of election
	left     meter.Counts // of those who are gone
	fewer    map[int]bool // the numbers of those who left, or joined later

	// What was found.
	fairness           report.Fairness
	changes, joined    int
	perChange, perJoin meter.Counts
	resigned, crashed  []time.Duration
	unnoticed, waits   []time.Duration
	figures            *figures
	sample             *report.Timeline
	crashes            []bool // by leader change
	sampled            int    // the leader change to be watched
}

// all takes the run to its end, or to that of ctx or of what can be done.
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

// change makes one leader change. Of crashes the service's figures are not looked at: they
// would be those of the heartbeats in a session timeout.
func (r *run) change(crash, sample bool) error {
	if crash {
		if err := r.measured(&r.perChange, r.crash); err != nil {
			return err
		}
		r.changes++
		return nil
	}
	r.recorder.on(sample)
	before := r.figures.read(r.ctx)
	if err := r.measured(&r.perChange, r.resign); err != nil {
		return err
	}
	r.figures.add(before, r.figures.read(r.ctx))
	r.changes++
	if sample {
		r.sample = r.recorder.timeline(r.numbers())
	}
	return nil
}

// numbers are those of the candidates that are present, rising.
func (r *run) numbers() (all []int) {
	for _, c := range r.present {
		all = append(all, c.number)
	}
	slices.Sort(all)
	return all
}

// plan draws which changes are crashes, and picks the one to watch: a resignation in the
// middle.
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

// gather has n candidates connect, and then enter one after the other.
func (r *run) gather() error {
	if err := program.EnoughFiles(r.service.files()*r.n + otherFiles); err != nil {
		return err
	}
	for range r.n {
		c, err := r.candidate(r.number())
		if err != nil {
			return err
		}
		r.present = append(r.present, c)
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
	r.figures.settle(r.ctx)
	return nil
}

// admit has the i-th of the first candidates enter.
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
	ctx, cancel := context.WithCancelCause(r.ctx)
	defer cancel(nil)
	var mu sync.Mutex
	connected := 0
	forEach(r.present, func(c *candidate) {
		if ctx.Err() != nil {
			return
		}
		err := c.connect(ctx)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			connected++
			return
		}
		cancel(err)
	})
	if ctx.Err() == nil {
		return nil
	}
	return r.hinted(fmt.Errorf("%d of %d candidates could connect: %w", connected, r.n, context.Cause(ctx)))
}

// hinted adds to the error of connecting what may be in the way.
func (r *run) hinted(err error) error {
	if hint := r.service.hint(r.n); hint != "" && r.ctx.Err() == nil {
		return fmt.Errorf("%w; %s", err, hint)
	}
	return err
}

// forEach does something to all candidates, some at a time.
func forEach(all []*candidate, do func(*candidate)) {
	var workers sync.WaitGroup
	todo := make(chan *candidate)
	for range min(atATime, len(all)) {
		workers.Go(func() {
			for c := range todo {
				do(c)
			}
		})
	}
	for _, c := range all {
		todo <- c
	}
	close(todo)
	workers.Wait()
}

// next blocks until a campaign has been won, and makes its candidate the leader.
func (r *run) next(within time.Duration) error {
	ctx, cancel := context.WithTimeout(r.ctx, within)
	defer cancel()
	select {
	case w := <-r.wins:
		if r.leader.term != nil && w.term.Token() <= r.leader.term.Token() {
			return fmt.Errorf("token %d follows token %d", w.term.Token(), r.leader.term.Token())
		}
		r.leader = w
	case <-ctx.Done():
		return fmt.Errorf("nobody was elected: %w", context.Cause(ctx))
	}
	c := r.leader.candidate
	r.recorder.happened(c.number, report.Elected, r.leader.at)
	r.fairness.Wins[c.number]++
	r.fairness.LongestWait = max(r.fairness.LongestWait, len(r.elected)-c.turn)
	r.elected = append(r.elected, c.rank)
	r.waits = append(r.waits, r.leader.at.Sub(c.at))
	return nil
}

// measured adds to sum what all candidates do from now until what do begins is over and
// all is still.
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

// still blocks until all but the leader wait, and nothing has moved for a while.
func (r *run) still() error {
	ctx, cancel := context.WithTimeout(r.ctx, r.patience)
	defer cancel()
	for {
		before, _ := r.moves()
		if err := program.Sleep(ctx, r.service.rest()); err != nil {
			_, restless := r.moves()
			return fmt.Errorf("%d of %d candidates have not come to rest: %w", restless, len(r.present), err)
		}
		// In this order: what a candidate does about a notice is a move.
		due := r.service.due()
		if after, restless := r.moves(); due == 0 && restless == 0 && after == before {
			return nil
		}
	}
}

// moves counts what candidates have begun and ended, and those that are not at rest.
func (r *run) moves() (moves int64, restless int) {
	for _, c := range r.present {
		moves += c.activity.moves.Load()
		idle := !c.entered || c == r.leader.candidate || c.waiting.Load()
		if c.activity.busy.Load() != 0 || !idle {
			restless++
		}
	}
	return moves, restless
}

// forget takes a candidate out of the count. What it did so far stays counted.
func (r *run) forget(c *candidate) {
	r.present = slices.DeleteFunc(r.present, func(o *candidate) bool { return o == c })
	r.left = r.left.Add(c.counts())
}
