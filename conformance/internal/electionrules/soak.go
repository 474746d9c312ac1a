package electionrules

import (
	"context"
	"runtime"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/conformance/internal/harness"
)

var soakRules = []rule{
	promise("soak/terms", soakTerms, nil,
		"Nothing keeps a term that is over, or a campaign or observation that has ended, in memory."),
	promise("soak/campaigns", soakCampaigns, nil,
		"The hundredth campaign of an elector, and of one that waits behind it, works like the first."),
}

func soakCampaigns(a *arena) {
	c, d := a.stand(), a.stand()
	b := c.campaign()
	for range 200 {
		t := b.wins()
		next := d.enters()
		a.holds(t)
		a.resign(t)
		b, c, d = next, d, c
	}
	a.resign(b.wins())
	a.vacant(c.e)
}

func soakTerms(a *arena) {
	c := a.stand()
	var terms, campaigns, observations []harness.Keepsake
	for range 3 * harness.SoakMost {
		t, by := a.termOf(c)
		terms, campaigns = append(terms, t), append(campaigns, by)
	}
	_, leading := a.lead()
	for range 3 * harness.SoakMost {
		campaigns = append(campaigns, a.inVain(c))
		observations = append(observations, a.glance(c))
	}
	a.LetGo("terms that are over", terms)
	a.LetGo("campaigns that have ended", campaigns)
	a.LetGo("observations that have ended", observations)
	runtime.KeepAlive(c) // otherwise nobody would keep what it keeps
	a.holds(leading)
}

// markedBy is the key of a context value that is in memory as long as anybody keeps the context.
type markedBy struct{}

func (a *arena) marked() (context.Context, context.CancelFunc, harness.Keepsake) {
	ctx, cancel := context.WithCancel(a.within())
	mark := new([64]byte)
	return context.WithValue(ctx, markedBy{}, mark), cancel, harness.Keep(mark)
}

// termOf makes a candidate lead for a moment. It returns the keepsakes of the term, and of the campaign's
// context, whose values the term's context has.
//
//go:noinline
func (a *arena) termOf(c *candidate) (term, campaign harness.Keepsake) {
	ctx, cancel, campaign := a.marked()
	defer cancel()
	t, err := c.e.Campaign(ctx)
	a.Must("Campaign", err)
	a.proclaim(t, "soaked")
	a.resign(t)
	a.ends(t, elector.ErrResigned)
	return harness.Keep(t), campaign
}

// glance observes until it has seen somebody lead.
//
//go:noinline
func (a *arena) glance(c *candidate) harness.Keepsake {
	ctx, cancel, observation := a.marked()
	defer cancel()
	for _, err := range c.e.Observe(ctx) {
		a.Must("Observe", err)
		break
	}
	return observation
}

// inVain makes a candidate campaign behind another one and give up.
//
//go:noinline
func (a *arena) inVain(c *candidate) harness.Keepsake {
	ctx, cancel, campaign := a.marked()
	ended := make(chan error, 1)
	go func() { _, err := c.e.Campaign(ctx); ended <- err }()
	a.Settle()
	cancel()
	a.Refused("Campaign whose ctx has ended", arrives(a, "Campaign returns", ended), context.Canceled)
	return campaign
}
