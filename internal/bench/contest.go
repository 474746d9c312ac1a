package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/internal/crowd"
	"github.com/elector-go/elector/internal/program"
	"github.com/elector-go/elector/strategy/fair"
)

// Kinds of contenders.
const (
	ofCandidates = "candidates"
	ofPlain      = "plain"
)

// A lock is the lock or election of the service's client library, on a separate session and connection. It
// implements only Campaign and Close of an Elector.
type lock struct {
	elector.Elector
	take  func(ctx context.Context) error // connects if necessary, and blocks until it has the seat
	give  func(ctx context.Context) error
	close func() // ends the session and the connection
}

func (l *lock) Campaign(ctx context.Context) (*elector.Term, error) { return nil, l.take(ctx) }

func (l *lock) Close(context.Context) error {
	l.close()
	return nil
}

// A contest is contenders for a seat in this process: candidates, or locks of the client library.
type contest struct {
	*crowd.Crowd
	lab    *lab
	errand errand
	path   string
}

// newContest returns a contest without contenders.
func (l *lab) newContest(ctx context.Context, e errand, path string) *contest {
	return &contest{Crowd: crowd.New(ctx, e.N+fewFirst+1, patience), lab: l, errand: e, path: path}
}

// add adds the i-th contender.
func (c *contest) add(i int) error {
	cfg := elector.Config{Strategy: fair.Strategy{}, Election: c.path, ID: strconv.Itoa(i)}
	switch c.errand.Of {
	case ofPlain:
		one, err := c.lab.service.lock(c.path, c.errand.TTL)
		if err == nil {
			c.Candidates = append(c.Candidates, &crowd.Candidate{Elector: one, ID: cfg.ID})
		}
		return err
	default:
		at, err := c.lab.service.open(c.errand.TTL)
		if err != nil {
			return err
		}
		cfg.Backend = at.backend
	}
	_, err := c.Add(cfg)
	return err
}

// elections returns the election of contender i on a shared session: each has its own.
func elections(path string, i int) string { return fmt.Sprintf("%s/%d", path, i) }

// enter makes n more contenders take the seat or wait for it, all in parallel.
func (c *contest) enter(n int) error {
	for range n {
		i := len(c.Candidates)
		if err := c.add(i); err != nil {
			return fmt.Errorf("contender %d: %w", i, err)
		}
		c.Enter(c.Candidates[i])
	}
	return nil
}

// await blocks until n contenders wait behind the one that has the seat.
func (c *contest) await(n int) error {
	waiting := func() (int, error) { return c.Waiting(), nil }
	if c.errand.Of == ofPlain {
		viewer, err := c.lab.service.connect(c.Context())
		if err != nil {
			return err
		}
		defer viewer.close()
		waiting = func() (int, error) {
			n, err := viewer.standing(c.Context(), c.path)
			return n - 1, err
		}
	}
	for late := time.Now().Add(patience); ; {
		now, err := waiting()
		switch {
		case err != nil:
			return err
		case now == n:
			return c.NobodyElse()
		case time.Now().After(late):
			return fmt.Errorf("%d contenders wait, and should be %d", now, n)
		}
		if err := program.Sleep(c.Context(), 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// end ends all contenders. Its errors do not matter: all is measured by then.
func (c *contest) end() {
	c.Fail(errors.New("the contest is over"))
	_ = c.Leave(c.Candidates, patience)
}
