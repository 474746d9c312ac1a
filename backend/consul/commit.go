package consul

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// A commit is one call of Commit: a transaction of conditions and writes. It makes a new transaction if
// one was refused because the session's knowledge was outdated, or if the slot shows that it was not
// done.
type commit struct {
	s       *session
	guards  []backend.Condition
	ops     []backend.Op
	nonce   uint64 // of the attempt, and in the names of what it enqueues
	deep    bool   // ancestors of CompareAndSets may be missing
	bout    bout   // of its attempts
	refused *sent  // refused because rights are missing, and to be sent again
}

// sent is a transaction. One that was refused because rights are missing may have been done: a proxy
// may have sent it twice. So it is sent again unchanged, with its slot.
type sent struct {
	p *plan
	t *slot
}

// Commit implements backend.Driver.
func (s *session) Commit(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
	if err := s.Over(ctx); err != nil {
		return nil, err
	}
	if err := s.AwaitSettled(ctx, s.TTL(), ops); err != nil {
		return nil, err
	}
	c := &commit{s: s, guards: guards, ops: ops}
	made, err := c.run(ctx)
	if (errors.Is(err, backend.ErrCondition) || errors.Is(err, backend.ErrNoEntry)) && c.aboutOwn() && s.over(ctx) {
		err = fmt.Errorf("%w (%v)", s.LostError(), err)
	}
	return made, err
}

// aboutOwn reports whether the commit concerns an entry of this session.
func (c *commit) aboutOwn() bool {
	return slices.ContainsFunc(c.guards, func(g backend.Condition) bool { return g.Entry.Session == c.s.ID() }) ||
		slices.ContainsFunc(c.ops, func(op backend.Op) bool { return owner(op.Key) == c.s.ID() })
}

// run makes attempts until there is an outcome.
func (c *commit) run(ctx context.Context) ([]backend.Entry, error) {
	for pause := (driver.Pause{}); ; {
		c.bout.pauses(c.s)
		made, done, err := c.attempt(ctx)
		if done || err != nil {
			return made, err
		}
		if err := c.s.Pause(ctx, &pause); err != nil {
			return nil, c.giveUp(err)
		}
	}
}

// giveUp returns the error of a commit that makes no further attempt because of err.
func (c *commit) giveUp(err error) error {
	if c.refused != nil {
		return c.abandon(c.refused.p, c.refused.t, err)
	}
	return err
}

// attempt sends the commit once, and reports whether there is an outcome. If ancestors are missing it sends it again
// at once, as commits that wait for their turn may need them, too.
func (c *commit) attempt(ctx context.Context) (made []backend.Entry, done bool, err error) {
	if err := c.s.enter(ctx, c.s.commits); err != nil {
		return nil, false, c.giveUp(err)
	}
	defer func() { <-c.s.commits }()
	shallow := !c.deep
	made, done, err = c.send(ctx)
	if err == nil && !done && shallow && c.deep {
		return c.send(ctx)
	}
	return made, done, err
}

func (c *commit) send(ctx context.Context) (made []backend.Entry, done bool, err error) {
	var p *plan
	var t *slot
	again := c.refused
	if c.refused = nil; again != nil {
		p, t = again.p, again.t
	} else {
		c.nonce = driver.NewNonce()
		if p, err = c.compile(ctx); err != nil {
			return nil, false, err
		}
		if len(c.ops) == 0 {
			return nil, true, c.ask(ctx, p)
		}
		t = c.s.takeSlot()
	}
	first := t.write(c.s.ID(), c.nonce)
	p.shift = len(first)
	ops := append(first, p.all()...)
	if err := tooLarge(ops); err != nil {
		c.s.giveSlot(t)
		return nil, false, err
	}
	c.bout.pauses(c.s)
	if err := c.s.AwaitLive(ctx); err != nil {
		if again != nil {
			return nil, false, c.abandon(p, t, err)
		}
		c.s.giveSlot(t)
		return nil, false, err
	}
	response, err := c.s.txnWrite(ctx, ops)
	switch {
	case err == nil && len(response.Errors) == 0 && t.written(response) != 0:
		index := t.written(response)
		t.index = index
		c.s.giveSlot(t) // from here on another commit may take it
		c.tails(response)
		return c.made(p, index), true, nil
	case err == nil && len(response.Errors) > 0 && response.Errors[0].OpIndex >= p.shift:
		return nil, false, c.keep(p, t, c.takeRefusal(p, response.Errors))
	case err == nil && invalidSession(response.Errors):
		return nil, false, c.s.LostBy(errExpired)
	case err == nil && len(response.Errors) > 0 && denied(response.Errors[0].What):
		return nil, false, c.keep(p, t, fmt.Errorf("%w (a session keeps keys of its own below %q, which its token must be allowed to write)",
			refusal(response.Errors[0]), slotDir))
	case err != nil && unsent(err) && again == nil:
		c.s.giveSlot(t)
		if c.bout.ends(c.s, err) {
			return nil, false, answerError(err)
		}
		return nil, false, nil
	case err != nil && code(err) != 0 && (!transient(err) || forbidden(err)):
		return nil, false, c.keep(p, t, answerError(err))
	}
	// It may have been done: there was no reply, or the reply says that the slot was written, which
	// only this commit can have done, or that it is gone with the session. A slot that was not made yet
	// cannot be gone.
	if err == nil && (len(response.Errors) == 0 || t.index == 0) {
		if err = c.s.Over(ctx); err == nil {
			err = errMute
		}
	}
	if made, done, err = c.resolve(ctx, p, t, err); err != nil {
		return nil, false, err
	}
	return made, done, nil
}

// rideOut returns nil for a refusal because of missing rights, as long as that may pass.
func (c *commit) rideOut(refusal error) error {
	if forbidden(refusal) && !c.bout.ends(c.s, refusal) {
		return nil
	}
	return refusal
}

// keep is rideOut for a transaction, which is kept to be sent again.
func (c *commit) keep(p *plan, t *slot, refusal error) error {
	if !forbidden(refusal) {
		c.s.giveSlot(t)
		return refusal
	}
	if c.rideOut(refusal) == nil {
		c.refused = &sent{p, t}
		return nil
	}
	_ = c.abandon(p, t, refusal) // the refusal is returned; anything that was done is removed
	return refusal
}

// ask asks whether the conditions hold.
func (c *commit) ask(ctx context.Context, p *plan) error {
	for pause := (driver.Pause{}); ; {
		response, err := ride(ctx, c.s, func(ctx context.Context) (*api.TxnResponse, error) {
			return c.s.txnRead(ctx, p.all())
		})
		if err != nil || len(response.Errors) == 0 {
			return err
		}
		err = c.takeRefusal(p, response.Errors)
		if forbidden(err) {
			if err = c.rideOut(err); err == nil {
				err = c.s.Pause(ctx, &pause)
			}
		}
		if err != nil {
			return err
		}
		if p, err = c.compile(ctx); err != nil {
			return err
		}
	}
}

// made returns the outcome of a plan that was done at an index.
func (c *commit) made(p *plan, index uint64) []backend.Entry {
	made := make([]backend.Entry, len(c.ops))
	for i, op := range c.ops {
		e := backend.Entry{Key: op.Key, Value: op.Value, Rev: index, Version: 1}
		switch {
		case op.Kind == backend.OpDelete:
			e = backend.Entry{Key: op.Key}
		case op.Kind == backend.OpEnqueue:
			e.Key, e.Session = c.name(i), c.s.ID()
		case op.Kind == backend.OpCreateEphemeral:
			e.Session = c.s.ID()
		case p.was[i].Exists():
			e.Rev, e.Session = p.was[i].Rev, p.was[i].Session
			e.Version = index - e.Rev + 1
		}
		made[i] = e
	}
	c.s.learned.saw(index)
	c.s.note(made...)
	return made
}

// name returns the key that an Enqueue gives to its entry.
func (c *commit) name(op int) string {
	return c.ops[op].Key + "/" + nameOf(c.s.ID(), c.nonce, op)
}

// ephemeral returns the entries that CreateEphemeral or Enqueue has made.
func (c *commit) ephemeral(made []backend.Entry) []backend.Entry {
	var all []backend.Entry
	for i, e := range made {
		if c.ops[i].Ephemeral() {
			all = append(all, e)
		}
	}
	return all
}

func keysOf(entries []backend.Entry) []string {
	keys := make([]string, len(entries))
	for i, e := range entries {
		keys[i] = e.Key
	}
	return keys
}

// drop deletes an incarnation and returns nil once it is known to be gone. It needs no slot: it may be
// done twice, and late. A mark follows.
func (s *session) drop(ctx context.Context, e backend.Entry) error {
	c := &commit{s: s, ops: []backend.Op{backend.Delete(e)}}
	for pause := (driver.Pause{}); ; {
		c.bout.pauses(s)
		err := s.AwaitLive(ctx)
		var p *plan
		if err == nil {
			p, err = c.compile(ctx)
		}
		if err == nil {
			var response *api.TxnResponse
			response, err = s.txnWrite(ctx, p.all())
			switch {
			case err == nil && len(response.Errors) == 0:
				s.note(backend.Entry{Key: e.Key})
				s.mark(ctx)
				return nil
			case err == nil:
				err = c.rideOut(c.takeRefusal(p, response.Errors))
			case !transient(err) || c.bout.ends(s, err):
				return answerError(err)
			default:
				err = nil
			}
		}
		switch {
		case errors.Is(err, backend.ErrNoEntry):
			s.mark(ctx)
			return nil
		case err != nil:
			return err
		}
		if err := s.Pause(ctx, &pause); err != nil {
			return err
		}
	}
}

// reapAllOf removes entries of the session in the background.
func (s *session) reapAllOf(entries []backend.Entry) {
	for _, e := range entries {
		s.Reap(e)
	}
}
