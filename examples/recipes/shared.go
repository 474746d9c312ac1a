package main

import (
	"context"
	"errors"

	"github.com/elector-go/elector/backend"
)

// A SharedLock is held by many readers, or by one writer. All stand in one line, in Dir/all, and writers also
// in another, in Dir/writers, by the same commit. Both lines have one order, that of Rev.
//
// Source: ZooKeeper's recipe "Shared Locks"; Curator's InterProcessReadWriteLock.
//
// Trap: a reader waits for the last writer before it. When that has gone, an older writer may remain: the
// last one may have given up while it waited. Look again.
type SharedLock struct{ Dir string }

// Read blocks until no writer is before the session.
func (l SharedLock) Read(ctx context.Context, s *backend.Session, name string) (*Hold, error) {
	lastWriter := func(ctx context.Context, me backend.Entry) (backend.Entry, error) { return l.lastWriter(ctx, s, me) }
	return lineUp(ctx, s, lastWriter, backend.Enqueue(l.all(), []byte(name)))
}

// Write blocks until nobody is before the session. One commit creates its entries. If one is removed, Write
// removes the other: else the writer would wait for itself, or write beside a reader.
func (l SharedLock) Write(ctx context.Context, s *backend.Session, name string) (*Hold, error) {
	return lineUp(ctx, s, s.Predecessor, backend.Enqueue(l.all(), []byte(name)), backend.Enqueue(l.writers(), []byte(name)))
}

func (l SharedLock) all() string     { return l.Dir + "/all" }
func (l SharedLock) writers() string { return l.Dir + "/writers" }

// lastWriter returns the youngest writer older than me. A later one is younger: Rev rises over all entries.
// List is never older than the commit that created me, and so shows all older ones.
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
