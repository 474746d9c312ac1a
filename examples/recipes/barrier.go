package main

import (
	"context"

	"github.com/elector-go/elector/backend"
)

// A Barrier is a persistent entry under its key: while it exists, those that come wait.
//
// Source: ZooKeeper's recipe "Barriers"; Curator's DistributedBarrier.
//
// Trap: there is no barrier before Set, and those that come earlier pass. And a server that is behind does
// not show a barrier that was set: a session that has written nothing yet must catch up.
type Barrier string

// Set sets the barrier, unless it exists.
func (b Barrier) Set(ctx context.Context, s *backend.Session) error {
	return makeDir(ctx, s, string(b))
}

// Lift lets all pass, those that wait and those that come later.
func (b Barrier) Lift(ctx context.Context, s *backend.Session) error {
	if err := s.CatchUp(ctx, string(b)); err != nil {
		return err
	}
	e, err := read(ctx, s, string(b))
	if err != nil || !e.Exists() {
		return err
	}
	return remove(ctx, s, e)
}

// Wait blocks until the barrier is lifted.
func (b Barrier) Wait(ctx context.Context, s *backend.Session) error {
	if err := s.CatchUp(ctx, string(b)); err != nil {
		return err
	}
	return awaitFree(ctx, s, string(b))
}
