package electionrules

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
	"github.com/elector-go/elector/internal/election"
)

var removeRules = []rule{
	promise("remove/leaves-nothing", removeLeavesNothing, needs{"Put", needLayout},
		"Remove leaves nothing of an election in which nobody stands, and removes nothing else. When the election is founded again, its leader has a higher token."),
	promise("remove/in-use", removeInUse, needs{needLayout},
		"Remove of an election in which somebody stands returns ErrInUse, and changes nothing for anybody."),
	promise("remove/any-time", removeAnyTime, needs{needLayout},
		"While an election is removed again and again, candidates come, lead and go as usual: one at a time, with rising tokens, and none is deposed."),
}

// remove removes the election, in a process of its own.
func (a *arena) remove() error {
	return election.Remove(a.within(), a.outside(), a.cfg.Strategy, a.path)
}

// leaves makes a leader leave, and waits until no entry of it is left.
func (a *arena) leaves(c *candidate, t *elector.Term) {
	a.resign(t)
	a.close(c)
	a.Until("nobody stands", func() bool { return len(a.entries()) == 0 })
}

func removeLeavesNothing(a *arena) {
	a.Must("Remove of an election that was never founded", a.remove())
	own := a.path + "/own"
	var last uint64
	for round := range 4 {
		c, t := a.lead()
		a.FailIf(t.Token() <= last, "token %d after the removal is not higher than %d", t.Token(), last)
		last = t.Token()
		dir := a.dir()
		if round == 2 {
			a.put(own, "of the user")
		}
		a.leaves(c, t)
		a.Must("Remove", a.remove())
		a.nothing(dir)
		if round < 2 {
			a.nothing(a.path)
		} else {
			a.stands(own, "of the user")
		}
		a.Must("Remove of an election that was removed", a.remove())
	}
}

func removeInUse(a *arena) {
	refused := func(when string) {
		before := a.dir()
		a.Refused("Remove while "+when, a.remove(), elector.ErrInUse)
		now := a.dir()
		a.FailIf(now != before || !a.get(now).Exists(), "the directory was %s and is %s, %+v", before, now, a.get(now))
	}
	_, t := a.lead()
	refused("somebody leads")
	a.holds(t)
	_, b := a.queue()
	refused("another waits")
	t = b.succeeds(t)
	refused("the other leads")
	a.holds(t)
	c, late := a.queue() // enters as usual
	t = late.succeeds(t)

	ctx, process := a.within(), a.outside()
	a.Refused("Remove with another strategy", election.Remove(ctx, process, renamed{a.cfg.Strategy, "another"}, a.path), elector.ErrStrategyMismatch)
	a.Refused("Remove with a bad path", election.Remove(ctx, process, a.cfg.Strategy, "relative"), elector.ErrConfig, backend.ErrBadKey)
	a.holds(t)
	a.leaves(c, t)
	a.Must("Remove after all have gone", a.remove())
}

func removeAnyTime(a *arena) {
	rounds := 10
	if a.Service.Virtual {
		rounds = 40
	}
	candidates := []*candidate{a.stand(), a.stand(), a.stand()}
	a.outside() // so that its process exists before others work beside it
	ctx, end := context.WithCancel(a.life)
	defer end()
	removing := a.begin("Remove while candidates come and go", func(context.Context) error {
		for ctx.Err() == nil {
			time.Sleep(rand.N(a.Service.TTL / 1000))
			if err := a.remove(); err != nil && !harness.IsAny(err, elector.ErrInUse, elector.ErrIndeterminate) {
				return err
			}
		}
		return nil
	})
	for range rounds {
		var bids []*bid
		for _, c := range candidates {
			time.Sleep(rand.N(a.Service.TTL / 500))
			bids = append(bids, c.campaign())
		}
		for len(bids) > 0 {
			t := anyReturns(a, &bids) // a new directory starts a new order
			err := t.Proclaim(a.within(), []byte("here"))
			a.FailIf(err != nil, "Proclaim of a leader whose election is being removed: %v (cause: %v)", err, context.Cause(t.Context()))
			a.resign(t)
		}
	}
	end()
	removing.must()
	for _, c := range candidates {
		a.close(c)
	}
	a.Until("the election is not in use", func() bool {
		err := a.remove()
		a.FailIf(err != nil && !errors.Is(err, elector.ErrInUse), "Remove after all have gone: %v", err)
		return err == nil
	})
	a.nothing(a.path)
}
