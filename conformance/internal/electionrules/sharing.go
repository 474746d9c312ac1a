package electionrules

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/history"
	"github.com/elector-go/elector/conformance/kit"
)

var sharingRules = []rule{
	promise("sharing/many-elections", sharingMany, needs{"Expire", needBackend},
		"Many elections of one process share one session: they are won and lost together, and all recover."),
	promise("sharing/close-one", sharingCloseOne, needs{needBackend},
		"Closing one of the electors that share a session removes its entries and leaves the others alone."),
	promise("sharing/one-election", sharingOneElection, needs{needBackend},
		"Two candidates of one election that share a session succeed each other like any others."),
	promise("sharing/refused", sharingRefused, needs{needBackend},
		"If an entry cannot be removed while others use the session, that is reported: Resign, Close and Campaign fail until it is gone."),
}

// shared returns a process whose electors share a session.
func (a *arena) shared() *kit.Client {
	client := *a.process()
	if _, ok := client.Backend.(*backend.Shared); !ok {
		client.Backend = backend.Share(client.Backend, a.Lasting())
	}
	return &client
}

func sharingMany(a *arena) {
	const elections = 50
	client := a.shared()
	var all []*candidate
	// Each has an arena, so that its terms are compared only with those of its own election.
	parts := make([]*arena, elections)
	for i := range parts {
		parts[i] = a.another(fmt.Sprintf("%s/election%d", a.path, i), "")
		all = append(all, parts[i].standIn(client))
	}
	campaign := func() (bids []*bid) {
		for _, c := range all {
			bids = append(bids, c.campaign())
		}
		for _, b := range bids {
			b.wins()
		}
		return bids
	}
	leaders := campaign()
	session := func() string {
		id := parts[0].seat().Session
		for _, p := range parts {
			p.left(1, "of one candidate")
			own := p.seat().Session
			a.FailIf(own != id, "the elections of one process are in two sessions, %s and %s", id, own)
		}
		return id
	}
	first := session()
	// A rival for one of them, in another process.
	rival := parts[0].stand()
	b := rival.enters()
	expire := func() {
		for _, p := range parts {
			defer p.hist.During(history.Force, "the session of all is expired")()
		}
		client.Expire()
	}
	expire()
	for _, b := range leaders {
		b.c.a.ends(b.term, elector.ErrSessionLost)
	}
	t := b.wins()
	parts[0].resign(t)
	parts[0].close(rival)
	campaign()
	a.FailIf(session() == first, "the session is still %s after its expiry", first)
	for _, p := range parts {
		p.finish()
	}
}

func sharingCloseOne(a *arena) {
	client := a.shared()
	c, t := a.leadIn(client)
	d, b := a.queueIn(client)
	e, third := a.queueIn(client)
	session := a.seat().Session
	a.close(d)
	b.fails(elector.ErrClosed)
	a.stays(t)
	third.blocked()
	a.close(c)
	a.ends(t, elector.ErrClosed)
	t = third.wins()
	if all := a.entries(); len(all) != 1 || all[0].Session != session {
		a.Failf("entries are %+v, want one of session %s", all, session)
	}
	// The session lives on with the last elector that shares it.
	time.Sleep(a.Service.TTL / 2)
	a.holds(t)
	a.close(e)
	a.left(0, "after all electors were closed")
	a.holds(a.standIn(client).campaign().wins())
}

func sharingOneElection(a *arena) {
	client := a.shared()
	c, d := a.standIn(client), a.standIn(client)
	t := c.campaign().wins()
	b := d.enters()
	for range 3 {
		t = b.succeeds(t)
		c, d = d, c
		b = d.enters()
		a.holds(t)
	}
}

// refusing returns a backend that refuses to remove entries while refuses is true, as a service does when
// rights are withdrawn.
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
	a.T.Cleanup(func() { shut(user.Close) }) // for a rule that has failed, and has reported why
	c, t := a.leadIn(&client)
	_, rival := a.queue()
	var seat backend.Entry
	withdraw := func() {
		seat = a.seat()
		refuses.Store(true)
	}
	stands := func(what string, do func(context.Context) error) {
		for range 2 { // a repeated call does not change it
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
	own := c.campaign() // it first removes the old entry
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
	if a.cfg.Lists {
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
