package consul

import (
	"context"
	"fmt"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// resolve finds out about a transaction that may have been done.
func (c *commit) resolve(ctx context.Context, p *plan, t *slot, why error) (made []backend.Entry, done bool, err error) {
	s := c.s
	if why != nil && (s.Ctx.Err() != nil || ctx.Err() != nil) {
		return nil, false, c.abandon(p, t, why)
	}
	index, err := s.settle(ctx, t, c.nonce)
	switch {
	case err == nil:
	case why == nil && s.Ctx.Err() != nil:
		// It was refused, as the slot went with the session. (If a proxy has sent it twice, and the
		// session ended after the first time, it was done: see the package's doc.)
		return nil, false, err
	default:
		return nil, false, c.abandon(p, t, err)
	}
	if index == 0 { // not done, and never will be
		s.giveSlot(t)
		if why != nil && c.bout.ends(s, why) {
			return nil, false, answerError(why)
		}
		return nil, false, nil // try again
	}
	made = c.made(p, index)
	ephemeral := c.ephemeral(made)
	if len(ephemeral) == 0 {
		s.giveSlot(t)
		return made, true, nil
	}
	now, err := s.getAll(ctx, keysOf(ephemeral))
	if err != nil {
		return nil, false, c.abandon(p, t, err)
	}
	s.giveSlot(t)
	for i, e := range ephemeral {
		if now[i].Rev != e.Rev {
			s.reapAllOf(ephemeral)
			return nil, false, fmt.Errorf("%w: it was done, and somebody has deleted %s since", backend.ErrIndeterminate, e.Key)
		}
	}
	return made, true, nil
}

// abandon gives up on a transaction that may yet be, or may have been, done. Anything that it may have
// made is removed in the background. Later commits on its keys have their own slots, and wait until it
// is settled.
func (c *commit) abandon(p *plan, t *slot, why error) error {
	s, nonce := c.s, c.nonce
	return s.Abandon(c.ops, why, func(ctx context.Context) error {
		index, err := s.settle(ctx, t, nonce)
		if err != nil {
			return err
		}
		if index != 0 {
			s.reapAllOf(c.ephemeral(c.made(p, index)))
		}
		s.giveSlot(t)
		return nil
	})
}

// settle finds out whether a transaction whose reply was lost was done, and makes sure that it is not
// done later. It returns the index at which it was done, or 0.
func (s *session) settle(ctx context.Context, t *slot, nonce uint64) (uint64, error) {
	fence := driver.NewNonce()
	var refused bout
	for pause := (driver.Pause{}); ; {
		refused.pauses(s)
		p, err := s.pair(ctx, t.key)
		switch {
		case err != nil:
			return 0, err
		case p == nil && t.index == 0: // not made yet
		case p == nil, p.Session != s.ID(), p.ModifyIndex < t.index:
			return 0, s.LostBy(s.whyGone(ctx))
		case p.Flags == nonce:
			t.index = p.ModifyIndex
			return t.index, nil
		case p.Flags == fence:
			t.index = p.ModifyIndex
			return 0, nil
		default:
			// As it was; or as an earlier settle, which was given up, has left it.
			t.index = p.ModifyIndex
		}
		response, err := s.txnWrite(ctx, t.write(s.ID(), fence))
		switch {
		case err == nil && len(response.Errors) == 0:
			if t.index = t.written(response); t.index != 0 {
				return 0, nil
			}
		case err == nil:
			if invalidSession(response.Errors) {
				return 0, s.LostBy(errExpired)
			}
			if err := refusal(response.Errors[0]); forbidden(err) && refused.over(s, err) {
				return 0, err
			}
		case !transient(err), refused.over(s, err):
			return 0, answerError(err)
		}
		refused.tell(s)
		// It may have been written, or not: look again.
		if err := s.Pause(ctx, &pause); err != nil {
			return 0, err
		}
	}
}

// whyGone distinguishes a session that has ended from one whose slots were deleted, or are older than
// what it wrote.
func (s *session) whyGone(ctx context.Context) error {
	if entry, err := s.read(ctx); err == nil && entry != nil { // a look, which may be the caller, makes the session Live again
		return errTampered
	}
	return errExpired
}
