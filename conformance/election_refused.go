package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// refusing is a backend that at times refuses to remove entries, as a service does when
// rights are withdrawn.
type refusing struct {
	backend.Backend
	refuses atomic.Bool
}

func (b *refusing) Open(ctx context.Context, o backend.OpenOptions) (backend.Session, error) {
	s, err := b.Backend.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return refusingSession{s, b}, nil
}

type refusingSession struct {
	backend.Session
	b *refusing
}

// Unwrap is for functions of the backend's package that take a session.
func (s refusingSession) Unwrap() backend.Session { return s.Session }

func (s refusingSession) Commit(ctx context.Context, guards []backend.Guard, ops ...backend.Op) ([]backend.Entry, error) {
	if s.b.refuses.Load() && slices.ContainsFunc(ops, func(op backend.Op) bool { return op.Kind == backend.OpDelete }) {
		return nil, fmt.Errorf("no right to remove %s: %w", ops[0].Key, backend.ErrDenied)
	}
	return s.Session.Commit(ctx, guards, ops...)
}

func (s refusingSession) Drop(ctx context.Context, e backend.Entry) error {
	if s.b.refuses.Load() {
		return fmt.Errorf("no right to remove %s: %w", e.Key, backend.ErrDenied)
	}
	return s.Session.Drop(ctx, e)
}

func sharingRefused(a *arena) {
	client := *a.svc.Client(a.t)
	rights := &refusing{Backend: client.Backend}
	client.Backend = backend.Share(rights, a.svc.TTL)
	ctx, cancel := a.within()
	user, err := client.Backend.Open(ctx, backend.OpenOptions{TTL: a.svc.TTL})
	cancel()
	a.must("Open of another user of the session", err)
	a.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), abandonment)
		defer cancel()
		_ = user.Close(ctx) // for a rule that has failed, and has said why
	})
	c := a.standIn(&client)
	t := c.campaign().wins()
	_, rival := a.queue()
	var seat backend.Entry
	withdraw := func() {
		seat = a.seat()
		rights.refuses.Store(true)
	}
	stands := func(what string, do func(context.Context) error) {
		a.t.Helper()
		for range 2 { // to ask again does not make it true
			ctx, cancel := a.within()
			a.refused(what+" while the seat cannot be released", do(ctx), backend.ErrDenied)
			cancel()
		}
		if now := a.get(seat.Key); now.Rev != seat.Rev {
			a.failf("the seat was %+v and is %+v", seat, now)
		}
		rival.blocked()
	}

	withdraw()
	stands("Resign", t.Resign)
	a.ends(t, elector.ErrResigned)
	c.campaign().fails(backend.ErrDenied, backend.ErrStanding)
	stands("Resign after a new Campaign", t.Resign)
	rights.refuses.Store(false)
	own := c.campaign() // which first removes what stands
	a.until("the seat goes to one of the two", func() bool { return own.returned() || rival.returned() })
	if rival.returned() {
		a.resign(rival.wins())
		t = own.wins()
		_, rival = a.queue()
	} else {
		t = own.wins()
		rival.waits()
	}

	withdraw()
	if a.cfg.Ordered {
		d := a.standIn(&client)
		b := d.campaign()
		b.waits()
		b.cancel()
		b.fails(context.Canceled, backend.ErrDenied)
	}
	stands("Close", c.real.Close)
	a.ends(t, elector.ErrClosed)
	rights.refuses.Store(false)
	a.close(c)
	if user.State() != backend.Live {
		a.failf("the session that others use is %v", user.State())
	}
	a.resign(rival.wins())
	ctx, cancel = a.within()
	defer cancel()
	a.must("Close of another user of the session", user.Close(ctx))
}
