package main

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/elector-go/elector/backend"
)

// A SharedLock is held by many readers, or by one writer. All stand in one line, in Dir/all, and
// writers also in another, in Dir/writers, by the same commit. Both lines have one order, that of Rev.
//
// Source: ZooKeeper's recipe "Shared Locks"; Curator's InterProcessReadWriteLock.
//
// Trap: a reader waits for the last writer before it. When that has gone, an older writer may
// still stand: the last one may have given up while it waited. Look again.
type SharedLock struct {
	Dir string
	// Herd is how not to do it, for comparison: all watch the line, and look at each change of it.
	Herd bool
}

// Read blocks until no writer stands before the session.
func (l SharedLock) Read(ctx context.Context, s *backend.Session, name string) (*Hold, error) {
	return l.lock(ctx, s, l.lastWriter, backend.Enqueue(l.all(), []byte(name)))
}

// Write blocks until nobody stands before the session.
func (l SharedLock) Write(ctx context.Context, s *backend.Session, name string) (*Hold, error) {
	return l.lock(ctx, s, predecessor,
		backend.Enqueue(l.all(), []byte(name)), backend.Enqueue(l.writers(), []byte(name)))
}

func (l SharedLock) all() string     { return l.Dir + "/all" }
func (l SharedLock) writers() string { return l.Dir + "/writers" }

// lastWriter is the youngest that is older than me. One that comes later is younger: Rev rises over all
// entries. List is never older than the commit that made me, and so shows all that are older.
func (l SharedLock) lastWriter(ctx context.Context, s *backend.Session, me backend.Entry) (backend.Entry, error) {
	writers, err := s.List(ctx, l.writers())
	for i := len(writers.Keys) - 1; i >= 0 && err == nil; i-- {
		var w backend.Entry
		if w, err = s.Get(ctx, writers.Keys[i]); w.Session != "" && w.Rev < me.Rev { // a persistent one is a stranger's
			return w, nil
		}
		if errors.Is(err, backend.ErrNoEntry) { // it has gone meanwhile
			err = nil
		}
	}
	return backend.Entry{}, err
}

func (l SharedLock) lock(ctx context.Context, s *backend.Session, before findBefore, line ...backend.Op) (*Hold, error) {
	for {
		me, err := s.Commit(ctx, nil, line...)
		switch {
		case errors.Is(err, backend.ErrNoParent):
			if err = errors.Join(makeDir(ctx, s, l.all()), makeDir(ctx, s, l.writers())); err == nil {
				continue
			}
			return nil, err
		case again(ctx, err): // the session removes what that commit may have made
			continue
		case err != nil:
			return nil, err
		}
		if l.Herd {
			err = l.awaitInHerd(ctx, s, me)
		} else {
			err = awaitTurn(ctx, s, before, me...)
		}
		if err == nil {
			return hold(ctx, s, me...), nil
		}
		err = errors.Join(err, withdraw(ctx, s, me...))
		if !errors.Is(err, backend.ErrNoEntry) { // otherwise somebody has removed one of me: once more
			return nil, err
		}
	}
}

// awaitInHerd is awaitTurn for all that stand in the line, at each change of it. Those that me waits for are read
// once, as none comes in before it. A writer counts while it stands in both lines: one of its entries may go long
// after the other, and only a change of Dir/all wakes.
func (l SharedLock) awaitInHerd(ctx context.Context, s *backend.Session, me []backend.Entry) error {
	before, err := oldest(ctx, s, l.all(), math.MaxInt)
	writers, err2 := oldest(ctx, s, l.writers(), math.MaxInt)
	before = slices.DeleteFunc(before, func(e backend.Entry) bool {
		writes := func(w backend.Entry) bool { return w.Rev == e.Rev }
		return e.Rev >= me[0].Rev || len(me) == 1 && !slices.ContainsFunc(writers, writes)
	})
	line, err3 := s.List(ctx, l.all())
	for err = errors.Join(err, err2, err3); err == nil; line, err = s.AwaitList(ctx, line) {
		for len(before) > 0 && !slices.Contains(line.Keys, before[0].Key) {
			before = before[1:]
		}
		if !slices.Contains(line.Keys, me[0].Key) {
			return backend.ErrNoEntry
		}
		if len(before) == 0 { // and somebody may have removed the other entry of a writer
			if _, err = s.Commit(ctx, allExist(me)); errors.Is(err, backend.ErrCondition) {
				err = backend.ErrNoEntry
			}
			return err
		}
	}
	return err
}
