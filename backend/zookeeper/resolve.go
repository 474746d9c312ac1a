package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
)

// resolve finds out whether a multi whose reply was lost was applied, and if so returns what it made.
//
// It waits until the session is live on a later link, makes a quorum agree to a transaction on it, and
// reads. By then all requests of the old link that are ever applied have been applied, except for what late.go
// is about: see DESIGN.md, "Lost replies".
//
// But others may have written since. So resolve asks what each op can tell, and combines the answers,
// as a multi is applied as a whole or not at all:
//
//   - One effect that only this multi can have had: it was applied.
//   - One thing that is as it was before the multi was sent, and would not be if it had been applied:
//     it was not, and is sent again.
//   - Neither: what it made may have been deleted or written over since. It is sent again, as it was
//     probably not applied, and the caller asked for it to be done. But if it is refused then, its own
//     first effect may be the reason, and the refusal says nothing: the outcome is unknown.
//
// Update and Delete leave nothing that only they can have done. So an Update is asked only if all other
// ops are Updates or Deletes, and a Delete only if all are Deletes.
func (c *commit) resolve(ctx context.Context, f *flight) (made []backend.Entry, applied bool, err error) {
	if err := c.s.settle(ctx, f.gen); err != nil {
		return nil, false, err
	}
	if len(c.ops) == 0 {
		return nil, false, nil // only guards: ask again
	}
	q := c.inquire(f.m)
	best := slices.MaxFunc(c.ops, func(a, b backend.Op) int { return cmp.Compare(weight(a), weight(b)) })
	for i, op := range c.ops {
		if weight(op) < weight(best) {
			continue
		}
		if err := q.ask(ctx, i); err != nil || q.never {
			return nil, false, readError(err)
		}
	}
	if !q.applied() {
		c.doubt = f
		return nil, false, nil
	}
	made, err = q.recover(ctx)
	return made, err == nil, err
}

// left returns the existing ephemeral entries of a multi that was given up, by op.
func (c *commit) left(ctx context.Context, f *flight) ([]backend.Entry, error) {
	if err := c.s.settle(ctx, f.gen); err != nil {
		return nil, err
	}
	q := c.inquire(f.m)
	for i, op := range c.ops {
		if !leavesTrace(op) {
			continue
		}
		if err := q.ask(ctx, i); err != nil {
			return nil, err
		}
	}
	for i := range q.made {
		if !q.applied() || q.never && !q.sure || q.made[i].Rev != q.zxid {
			q.made[i] = backend.Entry{}
		}
	}
	return q.made, nil
}

// settle waits until nothing that was sent on a link can be applied any more, and all that was applied
// can be read.
func (s *session) settle(ctx context.Context, gen uint64) error {
	if _, err := s.awaitLive(ctx, gen); err != nil {
		return err
	}
	_, err := read(ctx, s, func() (struct{}, error) { return struct{}{}, s.vote() })
	return err
}

// leavesTrace reports whether an op's effect can be distinguished from another's.
func leavesTrace(op backend.Op) bool { return op.Ephemeral() || op.Kind == backend.OpCompareAndSet }

// weight is how much an op can tell.
func weight(op backend.Op) int {
	switch {
	case leavesTrace(op):
		return 2
	case op.Kind == backend.OpUpdate:
		return 1
	}
	return 0
}

// recover returns what a multi that was applied has made.
func (q *inquiry) recover(ctx context.Context) ([]backend.Entry, error) {
	s := q.c.s
	made := make([]backend.Entry, len(q.c.ops))
	for i, op := range q.c.ops {
		made[i] = backend.Entry{Key: op.Key}
		switch {
		case op.Kind == backend.OpDelete:
			s.gone(op.Key, op.Rev)
			continue
		case op.Kind == backend.OpCompareAndSet && op.Version == 0:
			made[i] = backend.Entry{Key: op.Key, Value: op.Value, Rev: q.zxid, Version: 1}
			continue
		case op.Ephemeral():
			if made[i] = q.made[i]; !made[i].Exists() || made[i].Rev != q.zxid {
				return nil, errGone(op)
			}
			s.learned.addOwn(made[i], q.c.gen)
			continue
		}
		n, err := s.get(ctx, s.path(op.Key))
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return nil, readError(err)
		}
		if err != nil || uint64(n.stat.Czxid) > q.zxid || op.Kind == backend.OpUpdate && uint64(n.stat.Czxid) != op.Rev {
			return nil, errGone(op)
		}
		s.learned.setDir(s.path(op.Key), false)
		// After another write the entry is returned as a CompareAndSet left it, which is known, or, for
		// an Update, whose version is not known, as it is now.
		made[i] = s.entry(s.path(op.Key), n)
		if op.Kind == backend.OpCompareAndSet {
			made[i].Value, made[i].Version = op.Value, op.Version+1
		}
	}
	return made, nil
}

func errGone(op backend.Op) error {
	return fmt.Errorf("it was done, and somebody has deleted what the %v of %s made", op.Kind, op.Key)
}
