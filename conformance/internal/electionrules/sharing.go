package electionrules

import (
	"fmt"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/history"
	"github.com/elector-go/elector/conformance/internal/harness"
	"github.com/elector-go/elector/conformance/kit"
)

var sharingRules = []rule{
	{
		Name: "sharing/many-elections",
		Text: "Many elections of one process live on one session: they are won and lost together, and all recover.",
		Need: []string{"Expire", needBackend},
		Run:  sharingMany,
	}, {
		Name: "sharing/close-one",
		Text: "Closing one of the electors that share a session takes its entries out, and leaves the others alone.",
		Need: []string{needBackend},
		Run:  sharingCloseOne,
	}, {
		Name: "sharing/one-election",
		Text: "Two candidates of one election that share a session follow each other like any others.",
		Need: []string{needBackend},
		Run:  sharingOneElection,
	}, {
		Name: "sharing/refused",
		Text: "An entry that cannot be removed, while others use the session, is no secret: Resign, Close and Campaign fail until it is gone.",
		Need: []string{needBackend},
		Run:  sharingRefused,
	},
}

// shared returns a process whose electors share a session.
func (a *arena) shared() *kit.Client {
	client := *a.Service.Client(a.T)
	if _, ok := client.Backend.(*backend.Shared); !ok {
		client.Backend = backend.Share(client.Backend, a.Lasting())
	}
	return &client
}

func sharingMany(a *arena) {
	const elections = 50
	client := a.shared()
	var all []*candidate
	var terms []*elector.Term
	at := func(i int) func(*elector.Config) {
		return func(cfg *elector.Config) { cfg.Election = fmt.Sprintf("%s/election%d", a.path, i) }
	}
	// Each is an election, and its terms are compared with those of its own only.
	parts := make([]*arena, elections)
	for i := range parts {
		parts[i] = a.another(fmt.Sprintf("%s/election%d", a.path, i), "")
		all = append(all, parts[i].standIn(client, at(i)))
	}
	campaign := func() {
		var bids []*bid
		for _, c := range all {
			bids = append(bids, c.campaign())
		}
		terms = terms[:0]
		for _, b := range bids {
			terms = append(terms, b.wins())
		}
	}
	campaign()
	session := func() string {
		var id string
		for i, p := range parts {
			e := p.entries()
			switch {
			case len(e) != 1:
				a.Failf("election %d has entries %v, want one", i, harness.Keys(e))
			case id == "":
				id = e[0].Session
			case id != e[0].Session:
				a.Failf("elections of one process are in sessions %s and %s", id, e[0].Session)
			}
		}
		return id
	}
	first := session()
	// A rival for one of them, in another process.
	rival := parts[0].stand()
	b := rival.enters()
	var expired []func()
	for _, p := range parts {
		expired = append(expired, p.hist.During(history.Force, "the session of all is expired"))
	}
	client.Expire()
	for _, end := range expired {
		end()
	}
	for i, t := range terms {
		parts[i].ends(t, elector.ErrSessionLost)
	}
	t := b.wins()
	parts[0].resign(t)
	parts[0].close(rival)
	campaign()
	if second := session(); second == first {
		a.Failf("the session is still %s after its expiry", first)
	}
	for _, p := range parts {
		p.finish()
	}
}

func sharingCloseOne(a *arena) {
	client := a.shared()
	c := a.standIn(client)
	t := c.campaign().wins()
	d := a.standIn(client)
	b := d.enters()
	e := a.standIn(client)
	third := e.enters()
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
	// The session lives on with the last who shares it.
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
