package electionrules

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// refusing returns a backend that refuses to remove entries while refuses is true, as a service
// does when rights are withdrawn.
func refusing(b backend.Backend, refuses *atomic.Bool) backend.Backend {
	removes := func(op backend.Op) bool { return op.Kind == backend.OpDelete }
	return backend.Intercept(b, func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
		if refuses.Load() && (c.Kind == backend.CallDiscard || slices.ContainsFunc(c.Ops, removes)) {
			return fmt.Errorf("no right to remove %s: %w", c.Key, backend.ErrDenied)
		}
		return next(ctx)
	})
}

func sharingRefused(a *arena) {
	client := *a.process()
	var refuses atomic.Bool
	client.Backend = backend.Share(refusing(client.Backend, &refuses), a.Lasting())
	user, err := client.Backend.Open(a.within(), backend.OpenOptions{TTL: a.Lasting()})
	a.Must("Open of another user of the session", err)
	a.T.Cleanup(func() { shut(user.Close) }) // for a rule that has failed, and has said why
	c, t := a.leadIn(&client)
	_, rival := a.queue()
	var seat backend.Entry
	withdraw := func() {
		seat = a.seat()
		refuses.Store(true)
	}
	stands := func(what string, do func(context.Context) error) {
		for range 2 { // to ask again does not make it true
			a.Refused(what+" while the seat cannot be released", do(a.within()), backend.ErrDenied)
		}
		now := a.get(seat.Key)
		a.FailIf(now.Rev != seat.Rev, "the seat was %+v and is %+v", seat, now)
		rival.blocked()
	}

	withdraw()
	stands("Resign", t.Resign)
	a.ends(t, elector.ErrResigned)
	c.campaign().fails(backend.ErrDenied, backend.ErrStanding)
	stands("Resign after a new Campaign", t.Resign)
	refuses.Store(false)
	own := c.campaign() // which first removes what stands
	a.Until("the seat goes to one of the two", func() bool { return own.returned() || rival.returned() })
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
		_, b := a.queueIn(&client)
		b.cancel()
		b.fails(context.Canceled, backend.ErrDenied)
	}
	stands("Close", c.real.Close)
	a.ends(t, elector.ErrClosed)
	refuses.Store(false)
	a.close(c)
	a.FailIf(user.State() != backend.Live, "the session that others use is %v", user.State())
	a.resign(rival.wins())
	a.Must("Close of another user of the session", user.Close(a.within()))
}
