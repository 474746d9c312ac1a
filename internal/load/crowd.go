package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy/fair"
)

// A crowd is candidates in this process, in one election or many.
type crowd struct {
	ctx        context.Context // ends with the cause when a candidate fails
	fail       context.CancelCauseFunc
	candidates []*candidate
	wins       chan win
	campaigns  sync.WaitGroup

	waiting atomic.Int64  // candidates that wait for a predecessor
	changed chan struct{} // holds one
	leaving atomic.Bool   // sessions end because electors are closed
}

// A candidate is an elector, and the process that it is in.
type candidate struct {
	id      string
	elector elector.Elector
	process process
}

// A win is a campaign that came to its end.
type win struct {
	*candidate
	term *elector.Term
}

func newCrowd(ctx context.Context, most int) *crowd {
	c := &crowd{wins: make(chan win, most), changed: make(chan struct{}, 1)}
	c.ctx, c.fail = context.WithCancelCause(ctx)
	return c
}

// stand adds a candidate, who does not campaign yet.
func (c *crowd) stand(p process, b backend.Backend, id, election string, strategy elector.Strategy) (*candidate, error) {
	hooks := elector.Hooks{Stage: c.stage, Session: func(state backend.State) {
		if state == backend.Lost && !p.doomed.Load() && !c.leaving.Load() {
			c.fail(fmt.Errorf("candidate %s of %s has lost its session: the machine is too slow for so many with this -ttl", id, election))
		}
	}}
	e, err := elector.New(elector.Config{Backend: b, Strategy: strategy, Election: election, ID: id, Hooks: hooks})
	if err != nil {
		return nil, err
	}
	added := &candidate{id, e, p}
	c.candidates = append(c.candidates, added)
	return added, nil
}

func (c *crowd) stage(e elector.StageEvent) {
	if e.Stage != elector.StageReady {
		return
	}
	if e.Completed {
		c.waiting.Add(-1)
	} else {
		c.waiting.Add(1)
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// enter has a candidate campaign.
func (c *crowd) enter(who *candidate) {
	c.campaigns.Go(func() {
		term, err := who.elector.Campaign(c.ctx)
		switch {
		case err == nil:
			c.wins <- win{who, term}
		case !errors.Is(err, elector.ErrClosed):
			c.fail(fmt.Errorf("candidate %s: %w", who.id, err))
		}
	})
}

// enterAll has candidates campaign, up to most at a time, until all of them wait.
func (c *crowd) enterAll(all []*candidate, most int) error {
	were := int(c.waiting.Load())
	for i, who := range all {
		if err := c.await(were + i + 1 - most); err != nil {
			return err
		}
		c.enter(who)
	}
	return c.await(were + len(all))
}

// await blocks until at least n candidates wait.
func (c *crowd) await(n int) error {
	stuck := time.NewTimer(patience)
	defer stuck.Stop()
	for last := int64(-1); ; {
		now := c.waiting.Load()
		if now >= int64(n) {
			return nil
		}
		if now > last { // as long as there is progress, nothing is stuck
			last = now
			stuck.Reset(patience)
		}
		select {
		case <-c.changed:
		case <-stuck.C:
			return fmt.Errorf("%d of %d candidates wait: no progress for %v", now, n, patience)
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		}
	}
}

// next blocks until a campaign has been won.
func (c *crowd) next() (win, error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case w := <-c.wins:
		return w, nil
	case <-late.C:
		return win{}, fmt.Errorf("nobody was elected for %v", patience)
	case <-c.ctx.Done():
		return win{}, context.Cause(c.ctx)
	}
}

// nobodyElse holds that no campaign has been won that was not asked for.
func (c *crowd) nobodyElse() error {
	select {
	case w := <-c.wins:
		return fmt.Errorf("candidate %s was elected, too, with token %d", w.id, w.term.Token())
	default:
		return nil
	}
}

// leave closes candidates, many at a time, from the last on.
func (c *crowd) leave(all []*candidate) error {
	c.leaving.Store(true)
	const atATime = 64
	var (
		workers sync.WaitGroup
		mu      sync.Mutex
		errs    []error
		todo    = make(chan *candidate)
	)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), patienceFor(len(all)))
	defer cancel()
	for range atATime {
		workers.Go(func() {
			for who := range todo {
				if err := who.elector.Close(ctx); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	for _, who := range slices.Backward(all) {
		todo <- who
	}
	close(todo)
	workers.Wait()
	if len(errs) > 0 {
		return fmt.Errorf("%d candidates did not close cleanly, the first: %w", len(errs), errs[0])
	}
	return nil
}

// found makes an election's place, which stays, so that what there is afterwards can be
// compared with what there was before.
func found(ctx context.Context, w world, elections ...string) error {
	p, err := w.open()
	if err != nil {
		return err
	}
	shared := backend.Share(p.backend, 0)
	keep, err := shared.Open(ctx, backend.OpenOptions{})
	if err != nil {
		return err
	}
	for i, election := range elections {
		e, err := elector.New(elector.Config{Backend: shared, Strategy: fair.New(), Election: election, ID: strconv.Itoa(i)})
		if err == nil {
			_, err = e.Campaign(ctx)
			err = errors.Join(err, e.Close(ctx))
		}
		if err != nil {
			return errors.Join(err, keep.Close(ctx))
		}
	}
	return keep.Close(ctx)
}
