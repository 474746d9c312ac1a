// Package crowd makes many candidates of this process campaign, in one election or in many.
package crowd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector"
)

// A Crowd is candidates. Its methods are for one goroutine, except the hooks of its candidates.
type Crowd struct {
	Candidates []*Candidate
	Leader     Win // the latest of Succession

	ctx       context.Context // ends with the cause when a candidate fails
	fail      context.CancelCauseFunc
	patience  time.Duration // limits each step: a longer one without progress is stuck
	wins      chan Win
	campaigns sync.WaitGroup

	waiting atomic.Int64  // candidates that wait for a predecessor or for the seat
	changes atomic.Int64  // changes of waiting
	changed chan struct{} // has room for one
}

// A Candidate is an elector of a crowd.
type Candidate struct {
	elector.Elector
	ID string
}

// A Win is a campaign that was won.
type Win struct {
	*Candidate
	Term *elector.Term
	At   time.Time
}

// New makes a crowd in which up to most campaigns may be won before a call of Next.
func New(ctx context.Context, most int, patience time.Duration) *Crowd {
	c := &Crowd{patience: patience, wins: make(chan Win, most), changed: make(chan struct{}, 1)}
	c.ctx, c.fail = context.WithCancelCause(ctx)
	return c
}

// Context returns a context that ends with the cause when a candidate fails, or Fail is called.
func (c *Crowd) Context() context.Context { return c.ctx }

// Fail ends all steps and all campaigns with a reason.
func (c *Crowd) Fail(why error) { c.fail(why) }

// Add adds a candidate, which does not campaign yet.
func (c *Crowd) Add(cfg elector.Config) (*Candidate, error) {
	own := cfg.Hooks.Stage
	cfg.Hooks.Stage = func(e elector.StageEvent) {
		c.stage(e)
		if own != nil {
			own(e)
		}
	}
	e, err := elector.New(cfg)
	if err != nil {
		return nil, err
	}
	added := &Candidate{e, cfg.ID}
	c.Candidates = append(c.Candidates, added)
	return added, nil
}

func (c *Crowd) stage(e elector.StageEvent) {
	if e.Stage != elector.StageReady {
		return
	}
	if e.Completed {
		c.waiting.Add(-1)
	} else {
		c.waiting.Add(1)
	}
	c.changes.Add(1)
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Enter makes a candidate campaign.
func (c *Crowd) Enter(who *Candidate) {
	c.campaigns.Go(func() {
		term, err := who.Campaign(c.ctx)
		at := time.Now() // before anything else: this is what is measured
		switch {
		case err == nil:
			c.wins <- Win{who, term, at}
		case !errors.Is(err, elector.ErrClosed):
			c.fail(fmt.Errorf("candidate %s: %w", who.ID, err))
		}
	})
}

// EnterAll makes candidates campaign, up to most at a time, until all of them wait.
func (c *Crowd) EnterAll(all []*Candidate, most int) error {
	were := c.Waiting()
	for i, who := range all {
		if err := c.Await(were + i + 1 - most); err != nil {
			return fmt.Errorf("candidate %s enters: %w", who.ID, err)
		}
		c.Enter(who)
	}
	return c.Await(were + len(all))
}

// Waiting returns how many candidates wait.
func (c *Crowd) Waiting() int { return int(c.waiting.Load()) }

// Changes returns how often a candidate has begun or ended to wait.
func (c *Crowd) Changes() int { return int(c.changes.Load()) }

// Await blocks until at least n candidates wait.
func (c *Crowd) Await(n int) error {
	stuck := time.NewTimer(c.patience)
	defer stuck.Stop()
	for last := -1; ; {
		now := c.Waiting()
		if now >= n {
			return nil
		}
		if now > last { // nothing is stuck while there is progress
			last = now
			stuck.Reset(c.patience)
		}
		var err error
		select {
		case <-c.changed:
			continue
		case <-stuck.C:
			err = fmt.Errorf("no progress for %v", c.patience)
		case <-c.ctx.Done():
			err = context.Cause(c.ctx)
		}
		return fmt.Errorf("%d of %d candidates wait: %w", now, n, err)
	}
}

// Next blocks until a campaign has been won.
func (c *Crowd) Next() (Win, error) { return c.NextWithin(c.patience) }

// Succession blocks until a crowd of one election has its next leader. It checks that this is another
// candidate, with a higher token. patience is for this step.
func (c *Crowd) Succession(patience time.Duration) error {
	old := c.Leader
	w, err := c.NextWithin(patience)
	if err != nil {
		return err
	}
	if old.Term != nil && (w.Candidate == old.Candidate || w.Term.Token() <= old.Term.Token()) {
		return fmt.Errorf("token %d follows token %d", w.Term.Token(), old.Term.Token())
	}
	c.Leader = w
	return nil
}

// NextWithin is Next with another patience.
func (c *Crowd) NextWithin(patience time.Duration) (Win, error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case w := <-c.wins:
		return w, nil
	case <-late.C:
		return Win{}, fmt.Errorf("nobody was elected for %v", patience)
	case <-c.ctx.Done():
		return Win{}, fmt.Errorf("nobody was elected: %w", context.Cause(c.ctx))
	}
}

// NobodyElse checks that no other campaign has been won.
func (c *Crowd) NobodyElse() error {
	select {
	case w := <-c.wins:
		if w.Term == nil { // it is no candidate of this library
			return fmt.Errorf("%s was elected, too", w.ID)
		}
		return fmt.Errorf("candidate %s was elected, too, with token %d", w.ID, w.Term.Token())
	default:
		return nil
	}
}

// Leave closes candidates, many in parallel, within a time limit. It starts with the last, so that no
// candidate becomes the next in line just to leave.
func (c *Crowd) Leave(all []*Candidate, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), within)
	defer cancel()
	all = slices.Clone(all)
	slices.Reverse(all)
	errs := Each(all, func(who *Candidate) error { return who.Close(ctx) })
	if len(errs) > 0 {
		return fmt.Errorf("%d candidates did not close cleanly, the first: %w", len(errs), errs[0])
	}
	return nil
}

// LeaveAll is Leave for all candidates. It waits for their campaigns, and ends the crowd.
func (c *Crowd) LeaveAll(within time.Duration) error {
	defer c.fail(nil)
	err := c.Leave(c.Candidates, within)
	c.Wait()
	return err
}

// Wait blocks until all campaigns are over.
func (c *Crowd) Wait() { c.campaigns.Wait() }

// Each calls do for all, many in parallel, and returns the errors.
func Each[T any](all []T, do func(T) error) (errs []error) {
	const atATime = 32
	var (
		workers sync.WaitGroup
		mu      sync.Mutex
		todo    = make(chan T)
	)
	for range min(atATime, len(all)) {
		workers.Go(func() {
			for one := range todo {
				if err := do(one); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	for _, one := range all {
		todo <- one
	}
	close(todo)
	workers.Wait()
	return errs
}
