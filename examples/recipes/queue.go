package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/elector-go/elector/backend"
)

// A Queue has items that are taken in the order in which they were put: persistent entries under Dir/items,
// numbered by Dir/tail, the number of the next one. None is left before Dir/head, which may lag. To take an
// item, create an ephemeral claim on it; to finish, remove both.
//
// Enqueued entries (backend.Enqueue) are in order as well, but go with their session, and an item must
// outlive the session that put it. Hence the numbers.
//
// Source: ZooKeeper's recipe "Queues"; Curator's DistributedQueue with a lock path.
//
// Trap: removing an item before the work loses it if the consumer crashes in between. Removing it afterwards
// may do the work twice instead, and the first consumer may be alive, and only late: see Claim.
type Queue struct{ Dir string }

func (q Queue) item(n uint64) string  { return fmt.Sprintf("%s/items/%d", q.Dir, n) }
func (q Queue) claim(n uint64) string { return fmt.Sprintf("%s/claims/%d", q.Dir, n) }

// bounds reads Dir/head and Dir/tail, and subscribes to them.
func (q Queue) bounds(ctx context.Context, s *backend.Session) (at []backend.Entry, head, tail uint64, err error) {
	at, err = s.Await(ctx, backend.Unknown(q.Dir+"/head"), backend.Unknown(q.Dir+"/tail"))
	for i, n := range []*uint64{&head, &tail} {
		if err == nil && at[i].Exists() {
			_, err = fmt.Sscan(string(at[i].Value), n)
		}
	}
	return at, head, tail, err
}

// number returns the value of either. The random part distinguishes it from the same number of others.
func number(n uint64) []byte { return fmt.Appendln(nil, n, rand.Text()) }

// Put adds an item at the end, and returns its number. After ErrIndeterminate it may be there, or come later:
// if you put it again, it needs an ID of its own by which consumers recognize the second one.
func (q Queue) Put(ctx context.Context, s *backend.Session, value []byte) (uint64, error) {
	for n, least := uint64(0), uint64(0); ; least = n + 1 { // another was faster, or has left something under this key
		at, head, tail, err := q.bounds(ctx, s)
		if err == nil {
			n = max(tail, head, least) // nobody looks before head: somebody may have deleted tail
			_, err = s.Commit(ctx, nil, backend.CompareAndSet(at[1].Key, number(n+1), at[1].Version),
				backend.CompareAndSet(q.item(n), value, 0))
		}
		if !errors.Is(err, backend.ErrConflict) {
			return n, err
		}
	}
}

// A Claim is an item that the session works on. If the session is lost before Finish, another takes the item,
// and does the work again: nothing is lost, and the work is done at least once. The first may still write
// then. The token prevents that, if the target has seen a higher one for this item. Item.Rev, recorded with
// the effect in one transaction, makes the effect happen once: no two items ever have the same. The number
// begins again if somebody deletes the queue.
type Claim struct {
	*Hold
	Number uint64
	Item   backend.Entry
}

// Take blocks until there is an item that nobody works on, and claims the oldest. It tries the numbers from
// head on. An item in work costs two round trips. A finished one costs a listing, which shows the next
// existing one, so that a long item does not slow down all after it.
func (q Queue) Take(ctx context.Context, s *backend.Session) (c *Claim, _ error) {
	for c == nil {
		at, head, end, err := q.bounds(ctx, s)
		if err != nil {
			return nil, err
		}
		done, changes := end, at[1:] // one more item, or a claim that goes
		for n := head; n < end && c == nil; n++ {
			switch c, err = q.try(ctx, s, n); {
			case err == nil:
				done = min(done, n)
			case errors.Is(err, backend.ErrExists):
				done, changes = min(done, n), append(changes, backend.Unknown(q.claim(n)))
			case !refused(err):
				return nil, err
			default:
				if n, err = passOver(ctx, s, q.Dir+"/items", n, end); err != nil {
					return nil, err
				}
			}
		}
		if c == nil && done > head || done > head+15 { // only saves others time: another's number would do, too
			// The tail distinguishes the queue from one created since.
			_, _ = s.Commit(ctx, allExist(at[1:]), backend.CompareAndSet(at[0].Key, number(done), at[0].Version))
		}
		for c == nil && changes[0].Same(at[1]) && !slices.ContainsFunc(changes[1:], gone) { // the first Await reads the claims
			if changes, err = s.Await(ctx, changes...); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

func gone(e backend.Entry) bool { return !e.Exists() }

// try claims an item: ErrExists if somebody works on it, ErrNoEntry or ErrCondition if it is done.
func (q Queue) try(ctx context.Context, s *backend.Session, n uint64) (*Claim, error) {
	item, err := s.Get(ctx, q.item(n))
	if err != nil {
		return nil, err
	}
	me, err := one(add(ctx, s, []backend.Condition{backend.IfExists(item)}, backend.CreateEphemeral(q.claim(n), nil)))
	if err != nil {
		return nil, err
	}
	return &Claim{hold(ctx, s, me), n, item}, nil
}

// Finish removes the item, if the claim still holds, and commits the effects in the same step: exactly once.
// Release without Finish gives the item back.
func (c *Claim) Finish(ctx context.Context, effects ...backend.Op) error {
	_, err := c.session.Commit(ctx, c.Conditions(), append(effects, backend.Delete(c.Item), backend.Delete(c.entries[0]))...)
	return errors.Join(err, c.Release(ctx))
}
