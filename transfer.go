package elector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
)

// prepare implements Term.Prepare.
func (t *seat) prepare(ctx context.Context, id string) error {
	if err := t.prepareHeir(ctx, id); err != nil {
		return fmt.Errorf("elector: transfer %s to %q: %w", t.e.cfg.Election, id, err)
	}
	return nil
}

func (t *seat) prepareHeir(ctx context.Context, id string) error {
	strategy, err := t.e.transferrer()
	if err != nil {
		return err
	}
	caller := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })()
	select {
	case t.handing <- struct{}{}:
		defer func() { <-t.handing }()
	case <-ctx.Done():
	}
	switch {
	case !t.valid():
		return deposed(context.Cause(t.ctx), nil)
	case ctx.Err() != nil:
		return ended(ctx)
	}
	named := false
	err = t.e.catchUp(ctx, t.session) // its server may not know yet of a candidate that has just come
	if err == nil {
		var heir Candidate
		if heir, err = t.e.heir(ctx, t.session, t.dir, t.claim.Entry, id); err == nil {
			err = strategy.Transfer(ctx, &Handover{
				Session: t.session, Dir: t.dir, Seat: t.seen(), Heir: heir,
				name: func(ctx context.Context) error {
					named = true
					return t.name(ctx, &layout.Heir{Key: heir.Entry.Key, Rev: heir.Entry.Rev, ID: id})
				},
			})
		}
	}
	if errors.Is(err, ErrDeposed) {
		t.cancel(ErrDeposed) // before the notice comes
	}
	switch {
	case !t.valid():
		return deposed(context.Cause(t.ctx), err)
	case err == nil:
		return nil
	}
	if named {
		// Otherwise candidates would continue to step aside for nothing.
		ctx, cancel := cleanup(ctx)
		defer cancel()
		if kept := t.name(ctx, nil); kept != nil && t.valid() {
			t.e.log.Warn("heir still named", "token", t.claim.Token, "heir", id, "err", kept)
		}
	}
	if cause := context.Cause(caller); caller.Err() != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// name writes into the leader's entry who should lead next, or that nobody is named.
func (t *seat) name(ctx context.Context, heir *layout.Heir) error {
	return t.write(ctx, func(ctx context.Context) error {
		return t.revise(ctx, true, func(p *post) { p.heir = heir })
	})
}

// transferrer returns the strategy as a Transferrer, if it is one.
func (e *elector) transferrer() (Transferrer, error) {
	if t, is := e.cfg.Strategy.(Transferrer); is {
		return t, nil
	}
	return nil, fmt.Errorf("strategy %q: %w", e.cfg.Strategy.Name(), ErrNoTransfer)
}

// heir finds the candidate that should lead after the leader that holds seat: the first in line with the ID.
func (e *elector) heir(ctx context.Context, s *backend.Session, dir string, seat backend.Entry, id string) (Candidate, error) {
	if id == "" { // an entry that is not of this library's candidates has an empty ID
		return Candidate{}, fmt.Errorf("%w: the ID is empty", ErrNoCandidate)
	}
	all, err := e.cfg.Strategy.Candidates(ctx, s, dir)
	if err != nil {
		return Candidate{}, err
	}
	why := ""
	for _, c := range all {
		switch {
		case c.ID != id:
		case c.Entry.Key == seat.Key && c.Entry.Rev == seat.Rev:
			why = " leads already, and nobody else has that ID"
		case len(c.Rank) > 0 && c.Rank[0] < 0: // no leader goes for a candidate that never leads
			why = fmt.Sprintf(" has rank %v, and never leads", c.Rank)
		default:
			return c, nil
		}
	}
	return Candidate{}, fmt.Errorf("%w: %q%s", ErrNoCandidate, id, why)
}

// makeWay makes the candidate that a request names the next, while lead still works.
func (t *Term) makeWay(leading context.Context, id string) {
	// A line of a hundred candidates takes about a second, one hop each. A frozen candidate in it must not
	// keep the leader from going: its session ends in about that time with the defaults.
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(leading, patience)
	defer cancel()
	if err := t.Prepare(ctx, id); err != nil && leading.Err() == nil && t.c.seat != nil {
		t.c.seat.e.log.Warn("going without an heir", "token", t.Token(), "to", id, "err", err)
	}
}
