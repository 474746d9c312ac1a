package main

import (
	"context"
	"errors"
	"slices"

	"github.com/elector-go/elector/backend"
)

// SimpleLock blocks until the session holds the lock: one ephemeral entry under key, whose creator holds it.
// Each release wakes all that wait, and any of them is next.
//
// Source: the lock of ZooKeeper's paper (Hunt et al., 2010, 2.4), "simple locks"; the lock of Consul's client
// is of this kind.
//
// Trap: an entry that bears your name is not always yours. It may be that of your process before its restart,
// and go when that session times out. You hold the lock if your commit created the entry.
func SimpleLock(ctx context.Context, s *backend.Session, key, name string) (*Hold, error) {
	for {
		me, err := one(add(ctx, s, nil, backend.CreateEphemeral(key, []byte(name))))
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

// FairLock blocks until the session holds the lock: ephemeral entries in order, in dir, of which the oldest
// holds it. Each waits for the one before it, so a release wakes one.
//
// Source: ZooKeeper's recipe "Locks"; Curator's InterProcessSemaphoreMutex, and with re-entry
// InterProcessMutex.
//
// Trap: a wake-up does not mean that you hold the lock. The one before you may have given up while those
// before it remain: look again. And if your own entry was removed, nothing ever wakes you, unless you watch
// it, too.
func FairLock(ctx context.Context, s *backend.Session, dir, name string) (*Hold, error) {
	return lineUp(ctx, s, s.Predecessor, backend.Enqueue(dir, []byte(name)))
}

// lineUp stands in a line with the entries that ops create, and holds them when before finds no entry to wait
// for before the first of them. before returns the youngest, if there are several.
func lineUp(ctx context.Context, s *backend.Session, before func(ctx context.Context, me backend.Entry) (backend.Entry, error), ops ...backend.Op) (*Hold, error) {
	stand := func() ([]backend.Entry, error) { return add(ctx, s, nil, ops...) }
	return inLine(ctx, s, stand, func(me []backend.Entry) error {
		for {
			b, err := before(ctx, me[0])
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
	})
}
