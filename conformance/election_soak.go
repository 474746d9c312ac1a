package conformance

import (
	"context"
	"runtime"

	"github.com/elector-go/elector"
)

var soakElectionRules = []electionRule{{
	name: "soak/terms",
	text: "Nobody keeps a term that is over, nor a campaign or an observation that has ended.",
	run:  soakTerms,
}}

func soakTerms(a *arena) {
	c := a.stand()
	var terms, campaigns, observations []keepsake
	for range 3 * soakMost {
		t, by := a.termOf(c)
		terms, campaigns = append(terms, t), append(campaigns, by)
	}
	_, leading := a.lead()
	for range 3 * soakMost {
		campaigns = append(campaigns, a.inVain(c))
		observations = append(observations, a.glance(c))
	}
	a.letGo("terms that are over", terms)
	a.letGo("campaigns that have ended", campaigns)
	a.letGo("observations that have ended", observations)
	runtime.KeepAlive(c) // or nobody would keep what it keeps
	a.holds(leading)
}

// letGo waits until the garbage collector has found that all but soakMost are gone.
func (a *arena) letGo(what string, all []keepsake) {
	a.t.Helper()
	a.until(what+" are not kept", func() bool { return kept(all) <= soakMost })
}

// markedBy is the key of a context's value that stands for all who keep the context.
type markedBy struct{}

func (a *arena) marked() (context.Context, context.CancelFunc, keepsake) {
	ctx, cancel := a.within()
	mark := new([64]byte)
	return context.WithValue(ctx, markedBy{}, mark), cancel, keep(mark)
}

// termOf has a candidate lead for a moment. It returns the term, and the campaign's context,
// of which the term's has the values.
//
//go:noinline
func (a *arena) termOf(c *candidate) (term, campaign keepsake) {
	a.t.Helper()
	ctx, cancel, campaign := a.marked()
	defer cancel()
	t, err := c.e.Campaign(ctx)
	a.must("Campaign", err)
	a.must("Proclaim", t.Proclaim(ctx, []byte("soaked")))
	a.resign(t)
	a.ends(t, elector.ErrResigned)
	return keep(t), campaign
}

// glance observes until it has seen somebody lead.
//
//go:noinline
func (a *arena) glance(c *candidate) keepsake {
	a.t.Helper()
	ctx, cancel, observation := a.marked()
	defer cancel()
	for _, err := range c.e.Observe(ctx) {
		a.must("Observe", err)
		break
	}
	return observation
}

// inVain has a candidate campaign behind another one and give up.
//
//go:noinline
func (a *arena) inVain(c *candidate) keepsake {
	a.t.Helper()
	ctx, cancel, campaign := a.marked()
	ended := make(chan error, 1)
	go func() { _, err := c.e.Campaign(ctx); ended <- err }()
	a.settle()
	cancel()
	a.refused("Campaign whose ctx has ended", arrives(a, "Campaign returns", ended), context.Canceled)
	return campaign
}
