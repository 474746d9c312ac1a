package electionrules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector"
)

var jobRules = []rule{
	{
		Name: "run/ends",
		Text: "However the lead function ends, and only then, Run releases the seat. It returns nil, ErrStop or ctx's error, passes a panic on, and campaigns again after another error and a pause.",
		Run:  runEnds,
	}, {
		Name: "run/lost",
		Text: "While the lead function of a term that was lost still runs, its candidate does not campaign; afterwards it does.",
		Need: []string{"Expire"},
		Run:  runLost,
	}, {
		Name: "run/fails",
		Text: "Run returns the error of a campaign that it is of no use to repeat.",
		Need: []string{"Put", "Delete", needKnown},
		Run:  runFails,
	}, {
		Name: "run/failing-candidates",
		Text: "Candidates whose lead functions fail for ever do not keep a good one from leading, and let it go first next time.",
		Run:  runFailing,
	},
}

// A job is one Run on a goroutine of its own.
type job struct {
	a        *arena
	cancel   context.CancelFunc
	err      chan error
	panicked any // to be read after err
	terms    chan *elector.Term
	busy     atomic.Int32 // lead functions that run
}

// work starts a Run.
func (c *candidate) work(lead func(ctx context.Context, t *elector.Term) error) *job {
	ctx, cancel := context.WithCancel(context.Background())
	c.atEnd(cancel)
	j := &job{a: c.a, cancel: cancel, err: make(chan error, 1), terms: make(chan *elector.Term, 1000)}
	go func() {
		var err error
		defer func() { j.err <- err }()
		defer func() { j.panicked = recover() }()
		err = elector.Run(ctx, c.e, func(ctx context.Context, t *elector.Term) error {
			if j.busy.Add(1) > 1 {
				c.a.hist.blame("two lead functions of %s run at once", c.id)
			}
			defer j.busy.Add(-1)
			j.terms <- t
			return lead(ctx, t)
		})
	}()
	return j
}

func (j *job) term() *elector.Term {
	return arrives(j.a, "the lead function is called", j.terms)
}

func (j *job) result() error {
	return arrives(j.a, "Run returns", j.err)
}

// orders tell a lead function what to return, and when.
type orders struct {
	a *arena
	c chan error
}

func (a *arena) order() orders { return orders{a, make(chan error)} }

// wait returns the next order, or an error when the rule has failed meanwhile.
func (o orders) wait() error {
	select {
	case err := <-o.c:
		return err
	case <-o.a.life.Done():
		return elector.ErrStop
	}
}

func (o orders) give(err error) {
	patience := time.NewTimer(o.a.Patience())
	defer patience.Stop()
	select {
	case o.c <- err:
	case <-patience.C:
		o.a.Failf("no lead function runs")
	}
}

// untilOver is a lead function that does as it is told by its ctx.
func untilOver(ctx context.Context, _ *elector.Term) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// obeys starts a Run whose lead function works until its ctx has ended, and then until it is told
// what to return.
func (c *candidate) obeys() (j *job, causes chan error, finish orders) {
	finish = c.a.order()
	causes = make(chan error, 1)
	j = c.work(func(ctx context.Context, _ *elector.Term) error {
		select {
		case <-ctx.Done():
		case <-c.a.life.Done():
			return elector.ErrStop
		}
		causes <- context.Cause(ctx)
		return finish.wait()
	})
	return j, causes, finish
}

// told waits until the ctx of a lead function ends, and checks why.
func (a *arena) told(causes chan error, why error) {
	a.Refused("the cause of the lead function's ctx", arrives(a, "the ctx of the lead function ends", causes), why)
}

// ordered starts a Run whose lead function does nothing until it is told what to return.
func (c *candidate) ordered() (j *job, finish orders) {
	finish = c.a.order()
	return c.work(func(context.Context, *elector.Term) error { return finish.wait() }), finish
}

func runEnds(a *arena) {
	a.in("it returns nil, or ErrStop", runDone)
	a.in("it fails", runError)
	a.in("it panics", runPanic)
	a.in("ctx ends, which it heeds", runCancel)
	a.in("ctx ends, which it does not heed", runLate)
	a.in("ctx ends while its turn is to come", runWaiting)
}

func runDone(a *arena) {
	c := a.stand()
	j, finish := c.ordered()
	t := j.term()
	_, b := a.queue()
	finish.give(nil)
	a.Must("Run", j.result())
	a.ends(t, elector.ErrResigned)
	t = b.wins()

	j, finish = c.ordered()
	a.resign(t)
	t = j.term()
	why := errors.New("no more")
	finish.give(fmt.Errorf("%w: %w", elector.ErrStop, why))
	a.Refused("Run", j.result(), elector.ErrStop, why)
	a.ends(t, elector.ErrResigned)
}

func runError(a *arena) {
	c := a.stand()
	j, finish := c.ordered()
	t := j.term()
	rest := a.queues(2)
	failure := errors.New("cannot work")
	finish.give(failure)
	a.ends(t, elector.ErrResigned)
	for len(rest) > 0 {
		a.Until("one of those who wait is elected", func() bool {
			select {
			case <-j.terms: // where there is no order, it may be quicker than they are
				finish.give(failure)
			default:
			}
			return slices.ContainsFunc(rest, (*bid).returned)
		})
		t = anyWins(a, &rest)
		a.resign(t)
	}
	j.term()
	for range 3 { // nobody else is there: still it tries again, and not at once
		failed := time.Now()
		finish.give(failure)
		j.term()
		if pause := time.Since(failed); pause < 10*time.Millisecond {
			a.Failf("Run led again %v after the lead function had failed", pause)
		}
	}
	finish.give(nil)
	a.Must("Run", j.result())
}

func runPanic(a *arena) {
	c := a.stand()
	boom := a.order()
	j := c.work(func(context.Context, *elector.Term) error {
		if err := boom.wait(); err != nil {
			return err
		}
		panic("boom")
	})
	t := j.term()
	_, b := a.queue()
	boom.give(nil)
	if err := j.result(); err != nil {
		a.Failf("Run returned %v instead of passing the panic on", err)
	}
	if j.panicked != "boom" {
		a.Failf("the caller of Run saw panic %v, want the lead function's", j.panicked)
	}
	a.ends(t, elector.ErrResigned)
	b.wins()
}

func runCancel(a *arena) {
	c := a.stand()
	j := c.work(untilOver)
	t := j.term()
	_, b := a.queue()
	j.cancel()
	a.Refused("Run", j.result(), context.Canceled)
	a.ends(t, elector.ErrResigned)
	b.wins()
}

func runLate(a *arena) {
	c := a.stand()
	finish := a.order()
	var told atomic.Bool
	j := c.work(func(ctx context.Context, _ *elector.Term) error {
		err := finish.wait()
		told.Store(ctx.Err() != nil)
		return err
	})
	t := j.term()
	_, b := a.queue()
	j.cancel()
	a.stays(t)
	b.blocked()
	select {
	case err := <-j.err:
		a.Failf("Run returned %v while the lead function runs", err)
	default:
	}
	why := errors.New("left work undone")
	finish.give(why)
	a.Refused("Run", j.result(), context.Canceled, why)
	if !told.Load() {
		a.Failf("the lead function's ctx did not end with that of Run")
	}
	a.ends(t, elector.ErrResigned)
	b.wins()
}

func runWaiting(a *arena) {
	_, t := a.lead()
	c := a.stand()
	j := c.work(untilOver)
	c.waits()
	j.cancel()
	a.Refused("Run", j.result(), context.Canceled)
	a.holds(t)
	a.left(1, "where the leader's has to be the only one")
}

func runLost(a *arena) {
	c := a.stand()
	finish := a.order()
	causes := make(chan error, 10)
	j := c.work(func(ctx context.Context, t *elector.Term) error {
		err := finish.wait()
		causes <- context.Cause(ctx)
		return err
	})
	t := j.term()
	d, b := a.queue()
	_, third := a.queue()
	a.expire(c)
	a.ends(t, elector.ErrSessionLost)
	rest := []*bid{b, third}
	next := anyWins(a, &rest)
	a.stays(next)
	want := 1
	if a.cfg.Ordered {
		want = 2
	}
	a.left(want, "while the lead function of the lost term runs")
	a.Until(c.id+" is no candidate while its lead function runs", func() bool { return !slices.Contains(a.list(d.e), c.id) })
	finish.give(errors.New("lost it")) // no reason for a pause: others lead
	if a.cfg.Ordered {
		a.Until("it campaigns again", func() bool { return slices.Contains(a.list(d.e), c.id) })
	}
	a.Refused("the cause of the lead function's ctx", arrives(a, "the lead function returns", causes), elector.ErrSessionLost)
	a.resign(next)
	if a.cfg.Ordered {
		a.resign(anyWins(a, &rest))
		j.term()
	} else {
		// Two race, and the one that wins second leads second.
		a.Until("one of the two leads", func() bool { return len(j.terms) > 0 || rest[0].returned() })
		if rest[0].returned() {
			a.resign(rest[0].wins())
		}
		j.term()
	}
	finish.give(nil)
	a.Must("Run", j.result())
}

func runFails(a *arena) {
	var c *candidate
	if customLayout(a.cfg.Strategy) {
		seat := a.blockSeat()
		defer a.delete(seat)
		c = a.stand()
	} else {
		a.lead()
		c = a.stand(func(cfg *elector.Config) { cfg.Strategy = renamed{cfg.Strategy, "other"} })
	}
	j := c.work(untilOver)
	a.Refused("Run", j.result(), elector.ErrStrategyMismatch)
}

func runFailing(a *arena) {
	tries := 3
	if a.Service.Virtual {
		tries = 10
	}
	for i := range tries {
		a.in(fmt.Sprintf("try %d", i+1), func(a *arena) { runAmongFailing(a) })
	}
}

// runAmongFailing has one whose work always fails, and one that always panics and is
// run again at once, stand before a good one.
func runAmongFailing(a *arena) {
	_, t := a.lead()
	broken, wild := a.stand(), a.stand()
	broken.work(func(context.Context, *elector.Term) error { return errors.New("cannot work") })
	broken.waits()
	wild.panics()
	wild.waits()
	good, b := a.queue()
	before := a.hist.count()
	t = b.succeeds(t)
	led := a.hist.order()[before:]
	if want := []string{broken.id, wild.id, good.id}; a.cfg.Ordered && !slices.Equal(led, want) {
		a.Failf("%q led, want %q", led, want)
	}
	led = slices.DeleteFunc(led, func(id string) bool { return id != broken.id })
	if a.Service.Virtual && len(led) > 1 {
		a.Failf("%s led %d times without a pause, though its work had failed", broken.id, len(led))
	}
	a.resign(t)
	a.holds(good.campaign().wins())
}

// waits waits until the candidate of a job waits for its turn.
func (c *candidate) waits() {
	(&bid{c: c, done: make(chan struct{})}).waits()
}

// panics is a caller who runs again at once when its lead function panics. It does so many times at most: on a
// fake clock no time passes meanwhile, and others would wait for ever.
func (c *candidate) panics() {
	ctx, cancel := context.WithCancel(context.Background())
	c.atEnd(cancel)
	run := func() (panicked bool) {
		defer func() { panicked = recover() != nil }()
		// It returns when the rule is over.
		_ = elector.Run(ctx, c.e, func(context.Context, *elector.Term) error { panic("boom") })
		return false
	}
	go func() {
		for n := 0; n < 1000 && run(); n++ {
		}
	}()
}
