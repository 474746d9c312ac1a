package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// lastMoment is how long a commit waits for the reply after its ctx has ended.
const lastMoment = 100 * time.Millisecond

// A commit is one call of Commit: the same in all its attempts.
type commit struct {
	s      *session
	guards []backend.Condition
	ops    []backend.Op
	keys   []string // the keys that the ops write to: for an Enqueue its key if it is alone

	crowded *string // a directory that had entries: see learned

	view     *view         // what existed when an attempt was refused
	began    int64         // no attempt in doubt was applied at this revision or before
	fence    string        // of the attempt that may yet be, or may have been, applied; or ""
	patience time.Duration // for the next attempt
	tried    bool          // an attempt was made: the next ones are made by themselves
	late     bool          // the last attempt was not answered in time
	answered bool          // the last attempt was answered: nothing of it comes any more
	refused  driver.Bout   // of all attempts
	pause    driver.Pause  // before the next one
}

// Commit implements backend.Driver: one transaction, in one round trip; two if a CompareAndSet finds
// ancestors missing, or an Enqueue finds others before it. See compile for its contents and resolve for
// lost replies.
func (s *session) Commit(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
	c := &commit{s: s, guards: guards, ops: ops}
	c.keys = make([]string, len(ops))
	for i, op := range ops {
		c.keys[i] = op.Key
		if op.Kind == backend.OpEnqueue {
			c.keys[i] = aloneKey(op.Key, s.ID(), fmt.Sprintf("%016x", driver.NewNonce()))
			c.crowded = s.learned.crowded.Swap(nil)
		}
	}
	if err := s.Over(ctx); err != nil || len(guards)+len(ops) == 0 {
		return nil, err
	}
	give, err := s.TakeTurn(ctx, s.TTL(), ops)
	if err != nil {
		return nil, err
	}
	defer give()
	made, err := c.run(ctx)
	if err != nil && c.fence != "" {
		err = s.Abandon(ops, err, c.undo)
	}
	return made, err
}

// run makes attempts until there is an outcome.
func (c *commit) run(ctx context.Context) ([]backend.Entry, error) {
	for {
		made, done, err := c.attempt(ctx)
		if done || err != nil {
			return made, err
		}
	}
}

// attempt sends the commit once, and reports whether there is an outcome.
func (c *commit) attempt(ctx context.Context) (made []backend.Entry, done bool, err error) {
	s := c.s
	if err := s.AwaitLive(ctx); err != nil {
		return nil, false, err
	}
	joins, leave := !c.tried && c.changes(), func() {}
	if !joins {
		if leave, err = s.enter(ctx); err != nil {
			return nil, false, err
		}
		defer leave()
	}
	fence := ""
	if len(c.ops) > 0 {
		fence = c.fenceKey()
	}
	c.began = s.newest.Load()
	p, err := c.compile(fence)
	if err != nil {
		return nil, false, err
	}
	c.fence, c.answered = fence, false
	c.patience = max(s.patience(), s.longer(c.patience))
	if c.late {
		s.shift(ctx)
	}
	gets, send := p.gets(), s.write
	if joins && p.combines() {
		send = s.writeTogether
	}
	bound, cancel := s.sending(ctx, c.patience)
	c.tried = true
	answer, err := send(bound, p, gets)
	cancel()
	leave()
	switch {
	case errors.Is(err, errApart):
		c.fence = ""
		return nil, false, nil
	case errors.Is(err, errUnsent):
		c.fence, c.late = "", errors.Is(err, context.DeadlineExceeded)
		return nil, false, c.again(ctx, err)
	case err == nil && answer.Succeeded:
		out := p.made(answer)
		c.wrote(out)
		made, err = c.finish(ctx, out)
		return made, err == nil, err
	case err == nil:
		s.saw(answer.Header.Revision)
		s.shows(answer.Header.Revision)
		c.view = p.seen(answer)
		if c.arrivedTwice() {
			if made, done, err = c.resolve(ctx, nil); done || err != nil {
				return made, done, err
			}
		}
		c.fence = ""
		_, err = c.compile("") // returns the error that says what does not hold; if there is none, try again
		if errors.Is(err, backend.ErrCondition) && c.guardsOwn() {
			if gone := s.checkLease(ctx); errors.Is(gone, backend.ErrSessionLost) {
				err = gone
			}
		}
		return nil, false, err
	}
	switch m := mean(err); {
	case m.Is(driver.Over):
		c.fence = ""
		return nil, false, s.LostBy(errExpired)
	case m.Is(driver.Final):
		c.fence = ""
		refusal := answerError(err)
		if is(err, rpctypes.ErrPermissionDenied) {
			refusal = fmt.Errorf("%w (it needs %s)", refusal, p.rights())
		}
		return nil, false, refusal
	case m.Is(driver.NotDone):
		c.fence = ""
	case m.Is(driver.Unknown):
		if fence != "" {
			s.BeatSoon()
			c.answered = is(err, rpctypes.ErrNoSpace)
			if made, done, why := c.resolve(ctx, err); done || why != nil {
				return made, done, why
			}
		}
	}
	return nil, false, c.again(ctx, err)
}

// arrivedTwice reports whether the view shows what only this attempt can have made: an entry of this
// session that is younger than began. Then the refusal was for a second copy of the attempt: the client
// itself, and some proxies, resend a request that was answered with Canceled or DeadlineExceeded. The
// fence keeps out only copies of earlier attempts.
//
// An entry in transit may have been helped into its place before the second copy arrives, which would find no key of
// the first. So a call that helps puts the fence, and a fence that was put since says that this may be the reason.
func (c *commit) arrivedTwice() bool {
	if c.view.entries[c.fence].GetModRevision() > c.began {
		return true
	}
	for i, op := range c.ops {
		if !op.Ephemeral() {
			continue
		}
		for _, key := range []string{c.keys[i], c.keys[i] + transitSuffix} {
			if kv := c.view.entries[key]; kv.GetLease() == int64(c.s.lease) && kv.GetCreateRevision() > c.began {
				return true
			}
		}
	}
	return false
}

// again returns nil, after a pause, if a commit that was not done must be tried again.
func (c *commit) again(ctx context.Context, err error) error {
	if over := c.s.Over(ctx); over != nil {
		return over
	}
	if !passing(err) || c.s.givesUp(&c.refused, err) {
		return answerError(err)
	}
	return c.s.Pause(ctx, &c.pause)
}

// sending returns a context for a request that should not be given up halfway: it ends a moment after
// ctx or the session does, so that a reply that is on its way is not lost.
func (s *session) sending(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	late := func() { time.AfterFunc(lastMoment, cancel) }
	stopCtx, stopSession := context.AfterFunc(ctx, late), context.AfterFunc(s.Ctx, late)
	return bound, func() { stopCtx(); stopSession(); cancel() }
}

// guardsOwn reports whether a condition is on an entry of this session.
func (c *commit) guardsOwn() bool {
	return slices.ContainsFunc(c.guards, func(g backend.Condition) bool { return g.Entry.Session == c.s.ID() })
}

// wrote notes what an attempt has written.
func (c *commit) wrote(out outcome) {
	if len(c.ops) == 0 {
		return
	}
	i := c.witness()
	w := lastWrite{key: out.made[i].Key, rev: out.rev, deleted: c.ops[i].Kind == backend.OpDelete}
	if c.ops[i].Ephemeral() {
		w.lease = c.s.lease
	}
	c.s.wrote(w)
	for _, op := range c.ops {
		if op.Kind == backend.OpDelete {
			c.s.ended(op.Key, op.Rev)
		}
	}
}

// finish brings the enqueued entries of a commit that was done into order.
func (c *commit) finish(ctx context.Context, out outcome) ([]backend.Entry, error) {
	c.s.saw(out.rev)
	c.answered = true
	for i, op := range c.ops {
		if op.Kind != backend.OpEnqueue {
			continue
		}
		if err := c.enqueued(ctx, i, &out); err != nil {
			return nil, err
		}
	}
	c.fence = ""
	c.s.shows(out.rev)
	return out.made, nil
}

// drop deletes an incarnation and returns nil once it is known to be gone.
func (s *session) drop(ctx context.Context, e backend.Entry) error {
	err := s.remove(ctx, incarnation(e), e.Key)
	if err == nil {
		s.ended(e.Key, e.Rev)
	}
	return err
}

// remove deletes keys if the conditions hold. The deletion may be done twice, and late.
func (s *session) remove(ctx context.Context, cmps []clientv3.Cmp, keys ...string) error {
	var deletes []clientv3.Op
	for _, key := range keys {
		deletes = append(deletes, clientv3.OpDelete(key))
	}
	answer, err := try(ctx, s, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		// The get makes the request linearizable even if the conditions do not hold.
		answer, err := s.client.KV.Txn(ctx).If(cmps...).Then(deletes...).Else(clientv3.OpGet(keys[0], clientv3.WithKeysOnly())).Commit()
		return wholeTxn(answer, err, len(deletes), 1)
	})
	if err != nil {
		return err
	}
	for i, r := range answer.Responses {
		if r.GetResponseDeleteRange().GetDeleted() > 0 {
			s.wrote(lastWrite{key: keys[i], rev: answer.Header.Revision, deleted: true})
		}
	}
	s.saw(answer.Header.Revision)
	s.shows(answer.Header.Revision)
	return nil
}
