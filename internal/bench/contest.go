package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/crowd"
	"github.com/elector-go/elector/internal/program"
	"github.com/elector-go/elector/strategy/fair"
)

// What contends.
const (
	ofCandidates = "candidates"
	ofPlain      = "plain"
	ofShared     = "candidates on one session"
)

// A lock is the lock or election that the service's own client library has, on a session and a connection
// of its own. Of an Elector it has Campaign and Close alone.
type lock struct {
	elector.Elector
	take  func(ctx context.Context) error // connects if need be, and blocks until the seat is its own
	give  func(ctx context.Context) error
	close func() // ends the session and the connection
}

func (l *lock) Campaign(ctx context.Context) (*elector.Term, error) { return nil, l.take(ctx) }

func (l *lock) Close(context.Context) error {
	l.close()
	return nil
}

// A contest is contenders for a seat in this process: candidates, or locks of the service's own.
type contest struct {
	*crowd.Crowd
	l    *lab
	of   string
	path string
	make func(i int) error // adds the i-th contender
}

// newContest makes one with nobody in it.
func (l *lab) newContest(ctx context.Context, e errand, path string) (*contest, error) {
	c := &contest{Crowd: crowd.New(ctx, e.N+fewFirst+1, patience), l: l, of: e.Of, path: path}
	if e.Of == ofPlain {
		c.make = func(i int) error {
			one, err := l.service.lock(path, e.TTL)
			if err == nil {
				c.Candidates = append(c.Candidates, &crowd.Candidate{Elector: one, ID: strconv.Itoa(i)})
			}
			return err
		}
		return c, nil
	}
	add := func(b backend.Backend, election, id string) error {
		_, err := c.Add(elector.Config{Backend: b, Strategy: fair.New(), Election: election, ID: id})
		return err
	}
	c.make = func(i int) error {
		at, err := l.service.open(e.TTL)
		if err != nil {
			return err
		}
		return add(at.backend, path, strconv.Itoa(i))
	}
	if e.Of == ofShared {
		at, err := l.service.open(e.TTL)
		if err != nil {
			return nil, err
		}
		shared := backend.Share(at.backend, e.TTL)
		c.make = func(i int) error { return add(shared, elections(path, i), "waits") }
	}
	return c, nil
}

// elections are those of contenders on one session: each has one of its own.
func elections(path string, i int) string { return fmt.Sprintf("%s/%d", path, i) }

// enter has n contenders more take the seat, or wait for it, all at once.
func (c *contest) enter(n int) error {
	for range n {
		i := len(c.Candidates)
		if err := c.make(i); err != nil {
			return fmt.Errorf("contender %d: %w", i, err)
		}
		c.Enter(c.Candidates[i])
	}
	return nil
}

// await blocks until n stand behind the one that has the seat.
func (c *contest) await(n int) error {
	waiting := func() (int, error) { return c.Waiting(), nil }
	if c.of == ofPlain {
		viewer, err := c.l.service.connect(c.Context())
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

// end ends all. What it returns does not matter: all is measured by then.
func (c *contest) end() {
	c.Fail(errors.New("the contest is over"))
	_ = c.Leave(c.Candidates, patience)
}
