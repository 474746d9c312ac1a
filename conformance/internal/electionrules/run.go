package electionrules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/conformance/internal/harness"
	"github.com/elector-go/elector/strategy"
)

var jobRules = []rule{
	promise("run/ends", runEnds, nil,
		"Run releases the seat when the lead function ends, however it ends, and not before. It returns nil, ErrStop or ctx's error, and passes a panic on. After another error it pauses and campaigns again."),
	promise("run/lost", runLost, needs{"Expire"},
		"While the lead function of a lost term still runs, its candidate does not campaign. Afterwards it does."),
	promise("run/fails", runFails, needs{"Put", "Delete", needKnown},
		"Run returns the error of a campaign if it is useless to repeat the campaign."),
	promise("run/failing-candidates", runFailing, nil,
		"Candidates whose lead functions always fail do not keep a good one from leading, and let it go first the next time."),
}

// A job is one Run on a goroutine of its own.
type job struct {
	a        *arena
	cancel   context.CancelFunc
	err      chan error
	panicked any // to be read after err
	terms    chan *elector.Term
	busy     atomic.Int32 // lead functions that are running
	orders   chan error   // what lead functions must return
	causes   chan error   // why their ctx ended
}

// work starts a Run.
func (c *candidate) work(lead func(ctx context.Context, j *job) error) *job {
	ctx, cancel := context.WithCancel(context.Background())
	c.atEnd(cancel)
	j := &job{
		a: c.a, cancel: cancel, err: make(chan error, 1),
		terms: make(chan *elector.Term, 1000), orders: make(chan error), causes: make(chan error, 1000),
	}
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
			return lead(ctx, j)
		})
	}()
	return j
}

// untilOver is a lead function that returns when its ctx ends.
func untilOver(ctx context.Context, _ *job) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

var (
	errWork  = errors.New("cannot work")
	errPanic = errors.New("panic")
)

// untilTold is a lead function that works until finish says what to return, or to panic.
func untilTold(ctx context.Context, j *job) error {
	err := j.order()
	j.causes <- context.Cause(ctx)
	if errors.Is(err, errPanic) {
		panic(err)
	}
	return err
}

// order returns what the lead function must return, or ErrStop when the rule is over.
func (j *job) order() error {
	select {
	case err := <-j.orders:
		return err
	case <-j.a.life.Done():
		return elector.ErrStop
	}
}

// untilEnded is a lead function that works until its ctx has ended, and then until finish says what to return.
func untilEnded(ctx context.Context, j *job) error {
	select {
	case <-ctx.Done():
		j.causes <- context.Cause(ctx)
	case <-j.a.life.Done():
	}
	return j.order()
}

// obeys starts a Run whose lead function is untilEnded.
func (c *candidate) obeys() *job { return c.work(untilEnded) }

func (j *job) term() *elector.Term { return arrives(j.a, "the lead function is called", j.terms) }

func (j *job) result() error { return arrives(j.a, "Run returns", j.err) }

// finish tells the lead function what to return.
func (j *job) finish(err error) {
	patience := time.NewTimer(j.a.Patience())
	defer patience.Stop()
	select {
	case j.orders <- err:
	case <-patience.C:
		j.a.Failf("no lead function runs")
	}
}

// told waits until the ctx of a lead function ends, and checks the cause.
func (j *job) told(why error) {
	j.a.Refused("the cause of the lead function's ctx", arrives(j.a, "the ctx of the lead function ends", j.causes), why)
}

// stops ends a Run that obeys.
func (j *job) stops() {
	j.cancel()
	j.told(context.Canceled)
	j.finish(nil)
	j.a.Refused("Run", j.result(), context.Canceled)
}

func runEnds(a *arena) {
	why := errors.New("no more")
	for _, x := range []struct {
		state string
		lead  func(ctx context.Context, j *job) error
		end   func(j *job, t *elector.Term, b *bid)
		err   []error // that Run returns; empty means nil
		panic any     // of Run
	}{
		{"it returns nil", untilTold, func(j *job, _ *elector.Term, _ *bid) { j.finish(nil) }, nil, nil},
		{"it returns ErrStop", untilTold, func(j *job, _ *elector.Term, _ *bid) {
			j.finish(fmt.Errorf("%w: %w", elector.ErrStop, why))
		}, []error{elector.ErrStop, why}, nil},
		{"it panics", untilTold, func(j *job, _ *elector.Term, _ *bid) { j.finish(errPanic) }, nil, errPanic},
		{"ctx ends, and it returns", untilOver, func(j *job, _ *elector.Term, _ *bid) { j.cancel() }, []error{context.Canceled}, nil},
		{"ctx ends, and it ignores that", untilEnded, runLate, []error{context.Canceled, errWork}, nil},
	} {
		a.in(x.state, func(a *arena) {
			c := a.stand()
			j := c.work(x.lead)
			t := j.term()
			_, b := a.queue()
			x.end(j, t, b)
			err := j.result()
			a.Refused("Run", err, x.err...)
			a.FailIf(len(x.err) == 0 && err != nil, "Run returned %s", harness.Text(err))
			a.FailIf(j.panicked != x.panic, "the caller of Run saw panic %v, want the lead function's, %v", j.panicked, x.panic)
			a.ends(t, elector.ErrResigned)
			t = b.wins()
			again := c.work(untilTold)
			a.resign(t)
			again.term()
			again.finish(nil)
			a.Must("Run", again.result())
		})
	}
	a.in("it fails", runError)
	a.in("ctx ends while it waits for its turn", func(a *arena) {
		_, t := a.lead()
		c := a.stand()
		j := c.work(untilOver)
		c.waits()
		j.cancel()
		a.Refused("Run", j.result(), context.Canceled)
		a.holds(t)
		a.left(1, "where only the leader's may exist")
	})
}

// runLate ends the ctx of a Run. Its lead function returns later, with an error.
func runLate(j *job, t *elector.Term, b *bid) {
	j.cancel()
	j.told(context.Canceled)
	j.a.stays(t)
	b.blocked()
	select {
	case err := <-j.err:
		j.a.Failf("Run returned %v while the lead function runs", err)
	default:
	}
	j.finish(errWork)
}

func runError(a *arena) {
	j := a.stand().work(untilTold)
	t := j.term()
	rest := a.queues(2)
	j.finish(errWork)
	a.ends(t, elector.ErrResigned)
	for len(rest) > 0 {
		a.Until("one of the waiting candidates is elected", func() bool {
			select {
			case <-j.terms: // without an order, it may be faster than they are
				j.finish(errWork)
			default:
			}
			return slices.ContainsFunc(rest, (*bid).returned)
		})
		a.resign(anyWins(a, &rest))
	}
	j.term()
	for range 3 { // nobody else is there: it still tries again, and not at once
		failed := time.Now()
		j.finish(errWork)
		j.term()
		pause := time.Since(failed)
		a.FailIf(pause < 10*time.Millisecond, "Run led again only %v after the lead function had failed", pause)
	}
	j.finish(nil)
	a.Must("Run", j.result())
}

func runLost(a *arena) {
	c := a.stand()
	j := c.work(untilTold)
	t := j.term()
	d, b := a.queue()
	_, third := a.queue()
	a.expire(c)
	a.ends(t, elector.ErrSessionLost)
	rest := []*bid{b, third}
	next := anyWins(a, &rest)
	a.stays(next)
	a.left(1+a.inLineOf(1), "while the lead function of the lost term runs")
	a.Until(c.id+" is no candidate while its lead function runs", func() bool { return !slices.Contains(a.list(d.e), c.id) })
	j.finish(errWork) // no pause is needed: others lead
	if a.cfg.Lists {
		a.Until("it campaigns again", func() bool { return slices.Contains(a.list(d.e), c.id) })
	}
	j.told(elector.ErrSessionLost)
	a.resign(next)
	if a.cfg.Ordered {
		a.resign(anyWins(a, &rest))
	} else {
		// Two race, and the second to win leads second.
		a.Until("one of the two leads", func() bool { return len(j.terms) > 0 || rest[0].returned() })
		if rest[0].returned() {
			a.resign(rest[0].wins())
		}
	}
	j.term()
	j.finish(nil)
	a.Must("Run", j.result())
}

func runFails(a *arena) {
	var c *candidate
	if is[strategy.CustomLayout](a.cfg.Strategy) {
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

// runAmongFailing makes a candidate whose work always fails, and one that always panics and runs again at
// once, stand before a good one.
func runAmongFailing(a *arena) {
	_, t := a.lead()
	broken, wild := a.stand(), a.stand()
	var failed time.Time
	broken.work(func(context.Context, *job) error {
		if paused := time.Since(failed); paused < 50*time.Millisecond {
			a.hist.blame("%s led again %v after its work had failed", broken.id, paused)
		}
		failed = time.Now()
		return errWork
	})
	broken.waits()
	wild.panics()
	wild.waits()
	good, b := a.queue()
	before := a.hist.count()
	t = b.succeeds(t)
	led := a.hist.order()[before:]
	want := []string{broken.id, wild.id, good.id}
	a.FailIf(a.cfg.Ordered && !slices.Equal(led, want), "%q led, want %q", led, want)
	a.resign(t)
	a.holds(good.campaign().wins())
}

// waits waits until the candidate of a job waits for its turn.
func (c *candidate) waits() {
	(&bid{c: c, call: &call{a: c.a, done: make(chan struct{})}}).waits()
}

// panics runs again at once when its lead function panics, up to a limit: on a fake clock no time passes
// meanwhile, and others would wait for ever.
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
