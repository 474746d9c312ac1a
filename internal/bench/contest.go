package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/program"
	"github.com/elector-go/elector/strategy/fair"
)

// A contender competes with others for one seat: a candidate, or a user of the lock or
// election that the service's own client library has.
type contender interface {
	// take connects if need be, and blocks until the seat is its own.
	take(ctx context.Context) error
	give(ctx context.Context) error
	// close ends the session and the connection.
	close(ctx context.Context)
}

// What contends.
const (
	ofCandidates = "candidates"
	ofPlain      = "plain"
	ofShared     = "candidates on one session"
)

// A contest is contenders in this process.
type contest struct {
	path   string
	ctx    context.Context // ends with the cause when one fails
	fail   context.CancelCauseFunc
	make   func(i int) (contender, error)
	counts func() (int, error) // those that stand behind another

	mu  sync.Mutex
	all []contender
}

// newContest makes one with nobody in it.
func (l *lab) newContest(ctx context.Context, of, addr, path string, ttl time.Duration) (*contest, error) {
	c := &contest{path: path}
	c.ctx, c.fail = context.WithCancelCause(ctx)
	if of == ofPlain {
		c.make = func(int) (contender, error) { return l.service.contend(addr, path, ttl) }
		c.counts = func() (int, error) {
			n, err := l.service.standing(c.ctx, addr, path)
			return n - 1, err
		}
		return c, nil
	}
	var waiting atomic.Int64
	c.counts = func() (int, error) { return int(waiting.Load()), nil }
	stage := func(ev elector.StageEvent) {
		switch {
		case ev.Stage != elector.StageReady:
		case ev.Completed:
			waiting.Add(-1)
		default:
			waiting.Add(1)
		}
	}
	candidate := func(at seat, election, id string) (contender, error) {
		e, err := elector.New(elector.Config{
			Backend: at.backend, Strategy: fair.New(), Election: election, ID: id, Hooks: elector.Hooks{Stage: stage},
		})
		return &candidate{elector: e, release: at.release}, err
	}
	c.make = func(i int) (contender, error) {
		at, err := l.service.open(addr, ttl)
		if err != nil {
			return nil, err
		}
		return candidate(at, path, strconv.Itoa(i))
	}
	if of == ofShared {
		at, err := l.service.open(addr, ttl)
		if err != nil {
			return nil, err
		}
		at.backend = backend.Share(at.backend, ttl)
		c.make = func(i int) (contender, error) { return candidate(at, elections(path, i), "waits") }
	}
	return c, nil
}

// elections are those of contenders on one session: each has one of its own.
func elections(path string, i int) string { return fmt.Sprintf("%s/%d", path, i) }

// enter has the i-th contender take the seat, or wait for it, until the contest ends. won is
// called in its goroutine when it has the seat.
func (c *contest) enter(i int, won func(contender)) {
	one, err := c.make(i)
	if err != nil {
		c.fail(fmt.Errorf("contender %d: %w", i, err))
		return
	}
	c.mu.Lock()
	c.all = append(c.all, one)
	c.mu.Unlock()
	c.again(one, won)
}

// again is enter of one that has been in the contest before.
func (c *contest) again(one contender, won func(contender)) {
	switch err := one.take(c.ctx); {
	case c.ctx.Err() != nil:
	case err != nil:
		c.fail(err)
	default:
		won(one)
	}
}

// await blocks until n stand behind the one that has the seat.
func (c *contest) await(n int) error {
	for late := time.Now().Add(patience); ; {
		standing, err := c.counts()
		switch {
		case err != nil:
			return err
		case standing == n:
			return nil
		case time.Now().After(late):
			return fmt.Errorf("%d contenders wait, and should be %d", standing, n)
		}
		if err := program.Sleep(c.ctx, 10*time.Millisecond); err != nil {
			return context.Cause(c.ctx)
		}
	}
}

// close ends all, many at a time.
func (c *contest) close() {
	c.fail(errors.New("the contest is over"))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = each(c.all, func(one contender) error { // which has no errors
		one.close(ctx)
		return nil
	})
}

// A candidate is a contender by this library.
type candidate struct {
	elector elector.Elector
	release func()
	term    *elector.Term
}

func (c *candidate) take(ctx context.Context) (err error) {
	c.term, err = c.elector.Campaign(ctx)
	return err
}

func (c *candidate) give(ctx context.Context) error { return c.term.Resign(ctx) }

func (c *candidate) close(ctx context.Context) {
	_ = c.elector.Close(ctx) // all is measured by then
	if c.release != nil {
		c.release()
	}
}
