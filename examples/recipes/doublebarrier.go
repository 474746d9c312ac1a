package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/elector-go/elector/backend"
)

// With a DoubleBarrier N participants begin together, and continue together: each enqueues an ephemeral entry
// in Dir/line. When there are N, one of them writes Dir/ready, with the Rev of the youngest of them, on
// condition that all still exist. The barrier is then open to these. Those that come later wait for the next
// round. N must be the same for all, and at most some dozens: one commit has a condition for each.
//
// Source: ZooKeeper's recipe "Double Barriers"; Curator's DistributedDoubleBarrier.
//
// Trap: each counts for itself. One enters and crashes: some have counted N and begin, others count fewer and
// wait. Here one commit decides for all. A participant that crashes after that counts as one that has left;
// so does one whose session has not timed out yet.
type DoubleBarrier struct {
	Dir string
	N   int
}

func (d DoubleBarrier) ready() string { return d.Dir + "/ready" }

// Inside is the state of a participant between Enter and Leave. The context is for the work.
type Inside struct {
	*Hold
	barrier DoubleBarrier
	ready   backend.Entry
}

// Enter blocks until N have entered. If somebody removes the entry of a waiting session, it enqueues another,
// at the end. If that happens just before the barrier opens to it, Enter returns an Inside whose context ends
// at once, as after a later removal: check the context before the work, and Leave.
func (d DoubleBarrier) Enter(ctx context.Context, s *backend.Session, name string) (*Inside, error) {
	var ready backend.Entry
	stand := func() ([]backend.Entry, error) { return add(ctx, s, nil, backend.Enqueue(d.Dir+"/line", []byte(name))) }
	h, err := inLine(ctx, s, stand, func(me []backend.Entry) (err error) {
		ready, err = d.awaitReady(ctx, s, me[0])
		return err
	})
	if err != nil {
		return nil, err
	}
	return &Inside{h, d, ready}, nil
}

// Leave blocks until all that began together have left or crashed.
func (i *Inside) Leave(ctx context.Context) error {
	return errors.Join(i.Release(ctx), i.barrier.awaitLeft(ctx, i.session, i.ready))
}

// awaitReady blocks until the barrier is open to me. The error is ErrNoEntry if me is gone.
func (d DoubleBarrier) awaitReady(ctx context.Context, s *backend.Session, me backend.Entry) (backend.Entry, error) {
	ready := backend.Unknown(d.ready())
	for {
		now, err := s.Await(ctx, ready, me)
		if err != nil {
			return ready, err
		}
		switch ready = now[0]; {
		case ready.Exists() && me.Rev <= youngest(ready):
			return ready, nil
		case now[1].Rev != me.Rev:
			return ready, backend.ErrNoEntry
		case ready.Exists(): // the round of others
			err = d.awaitLeft(ctx, s, ready)
		default:
			err = d.open(ctx, s)
		}
		if err != nil {
			return ready, err
		}
	}
}

// youngest returns the Rev of the youngest to which the barrier is open, or 0 if somebody has written something else.
func youngest(ready backend.Entry) (rev uint64) {
	_, _ = fmt.Sscan(string(ready.Value), &rev)
	return rev
}

// open opens the barrier to the N oldest, if there are N. The last to enter finds all others: a list is never
// older than the commit that created one's own entry.
func (d DoubleBarrier) open(ctx context.Context, s *backend.Session) error {
	for {
		line, err := oldest(ctx, s, d.Dir+"/line", max(d.N, 1))
		if err != nil || len(line) < max(d.N, 1) {
			return err
		}
		_, err = s.Commit(ctx, allExist(line), backend.CompareAndSet(d.ready(), fmt.Append(nil, line[len(line)-1].Rev), 0))
		if errors.Is(err, backend.ErrConflict) { // another has opened it
			return nil
		}
		if !errors.Is(err, backend.ErrCondition) && !again(ctx, err) { // otherwise one has gone: look again
			return err
		}
	}
}

// awaitLeft blocks until all that the barrier was open to have left, and then removes ready.
func (d DoubleBarrier) awaitLeft(ctx context.Context, s *backend.Session, ready backend.Entry) error {
	for {
		first, err := oldest(ctx, s, d.Dir+"/line", 1)
		if err != nil {
			return err
		}
		if len(first) == 0 || first[0].Rev > youngest(ready) {
			return remove(ctx, s, ready)
		}
		if _, err := awaitGone(ctx, s, first[0]); err != nil {
			return err
		}
	}
}
