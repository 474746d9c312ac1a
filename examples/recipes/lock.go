package main

import (
	"context"
	"errors"
	"slices"

	"github.com/elector-go/elector/backend"
)

// SimpleLock blocks until the session holds the lock: one ephemeral entry under key, whose
// maker holds it. Each release wakes all that wait, and any of them is next.
//
// Source: the lock of ZooKeeper's paper (Hunt et al., 2010, 2.4), "simple locks"; the lock of
// Consul's client is of this kind.
//
// Trap: an entry that bears your name is not always yours. It may be of your process before its
// restart, and goes when that session times out. You hold the lock if your commit made the entry.
func SimpleLock(ctx context.Context, s *backend.Session, key, name string) (*Hold, error) {
	for {
		me, err := create(ctx, s, key, []byte(name))
		if err == nil {
			return hold(ctx, s, me), nil
		}
		if errors.Is(err, backend.ErrExists) {
			err = awaitFree(ctx, s, key)
		}
		if err != nil {
			return nil, err
		}
	}
}

// FairLock blocks until the session holds the lock: ephemeral entries in order, in dir, of which the
// oldest holds it. Each waits for the one before it, so that a release wakes one.
//
// Source: ZooKeeper's recipe "Locks"; Curator's InterProcessSemaphoreMutex, and with re-entry InterProcessMutex.
//
// Trap: to be woken is not to hold. The one before you may have given up, and those before it
// still stand: look again. And if somebody has removed your own entry, nothing will ever wake you,
// unless you watch it, too.
func FairLock(ctx context.Context, s *backend.Session, dir, name string) (*Hold, error) {
	for {
		me, err := enqueue(ctx, s, dir, []byte(name))
		if err != nil {
			return nil, err
		}
		err = awaitTurn(ctx, s, predecessor, me)
		if err == nil {
			return hold(ctx, s, me), nil
		}
		if !errors.Is(err, backend.ErrNoEntry) {
			return nil, errors.Join(err, withdraw(ctx, s, me))
		}
		// somebody has removed me: to the end of the line
	}
}

// A findBefore finds the youngest one before an entry of the line that it has to wait for.
type findBefore func(ctx context.Context, s *backend.Session, me backend.Entry) (backend.Entry, error)

func predecessor(ctx context.Context, s *backend.Session, me backend.Entry) (backend.Entry, error) {
	return s.Predecessor(ctx, me)
}

// awaitTurn blocks until there is none before the first entry of me; ErrNoEntry if one of me is gone.
func awaitTurn(ctx context.Context, s *backend.Session, before findBefore, me ...backend.Entry) error {
	for {
		b, err := before(ctx, s, me[0])
		if err != nil || !b.Exists() {
			return err
		}
		gone, err := awaitGone(ctx, s, append(slices.Clone(me), b)...)
		switch {
		case err != nil:
			return err
		case gone < len(me):
			return backend.ErrNoEntry
		}
	}
}
