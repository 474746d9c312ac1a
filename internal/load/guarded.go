package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/crowd"
)

// A guarded crowd fails when a candidate loses its session that nobody has cut off.
type guarded struct {
	*crowd.Crowd
	leaving atomic.Bool // sessions end because electors are closed
	opened  []process
}

func newGuarded(ctx context.Context, most int) *guarded {
	return &guarded{Crowd: crowd.New(ctx, most, patience)}
}

// open makes a process, whose connections go with the crowd.
func (g *guarded) open(w world) (process, error) {
	p, err := w.open()
	if err == nil {
		g.opened = append(g.opened, p)
	}
	return p, err
}

// stand adds a candidate, who does not campaign yet.
func (g *guarded) stand(p process, b backend.Backend, id, election string, strategy elector.Strategy) (*crowd.Candidate, error) {
	hooks := elector.Hooks{Session: func(_ string, state backend.State) {
		if state == backend.Lost && !p.doomed.Load() && !g.leaving.Load() {
			g.Fail(fmt.Errorf("candidate %s of %s has lost its session: the machine is too slow for so many with this -ttl", id, election))
		}
	}}
	return g.Add(elector.Config{Backend: b, Strategy: strategy, Election: election, ID: id, Hooks: hooks})
}

func (g *guarded) leave(all []*crowd.Candidate) error {
	g.leaving.Store(true)
	return g.Leave(all, patienceFor(len(all)))
}

func (g *guarded) leaveAll() error {
	g.leaving.Store(true)
	err := g.LeaveAll(patienceFor(len(g.Candidates)))
	for _, p := range g.opened {
		err = errors.Join(err, p.Close())
	}
	return err
}
