package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

var removeRules = []electionRule{
	{
		name: "remove/leaves-nothing",
		text: "Remove leaves nothing of an election in which nobody stands, and nothing else goes; whoever founds it anew leads with a higher token.",
		need: []string{"Put", string(AbilityLayout)},
		run:  removeLeavesNothing,
	},
	{
		name: "remove/in-use",
		text: "Remove of an election in which somebody stands is ErrInUse, and changes nothing for anybody.",
		need: []string{string(AbilityLayout)},
		run:  removeInUse,
	},
	{
		name: "remove/any-time",
		text: "While an election is removed again and again, candidates come, lead and go as ever: one at a time, with rising tokens, and nobody is deposed.",
		need: []string{string(AbilityLayout)},
		run:  removeAnyTime,
	},
}

// removing returns a Remove of the election, in a process of its own.
func (a *arena) removing() func() error {
	a.t.Helper()
	b := a.svc.Client(a.t).Backend
	return func() error {
		ctx, cancel := a.within()
		defer cancel()
		return elector.Remove(ctx, b, a.cfg.Strategy, a.path)
	}
}

// leaves lets a leader go, and waits until nothing of it stands.
func (a *arena) leaves(c *candidate, t *elector.Term) {
	a.t.Helper()
	a.resign(t)
	a.close(c)
	a.until("nobody stands", func() bool { return len(a.entries()) == 0 })
}

func removeLeavesNothing(a *arena) {
	remove := a.removing()
	a.must("Remove of an election that was never founded", remove())
	own := a.path + "/own"
	var last uint64
	for round := range 4 {
		c, t := a.lead()
		if t.Token() <= last {
			a.failf("token %d after the removal is not higher than %d", t.Token(), last)
		}
		last = t.Token()
		dir := a.dir()
		if round == 2 {
			a.put(own, "of the user")
		}
		a.leaves(c, t)
		a.must("Remove", remove())
		if e := a.get(dir); e.Exists() {
			a.failf("the directory is left: %+v", e)
		}
		switch record := a.get(a.path); {
		case round < 2 && record.Exists():
			a.failf("the record is left: %+v", record)
		case round >= 2 && string(a.get(own).Value) != "of the user":
			a.failf("the user's own key is %+v", a.get(own))
		}
		a.must("Remove of what is removed", remove())
	}
}

func removeInUse(a *arena) {
	remove := a.removing()
	refused := func(when string) {
		a.t.Helper()
		before := a.dir()
		a.refused("Remove while "+when, remove(), elector.ErrInUse)
		if now := a.dir(); now != before || !a.get(now).Exists() {
			a.failf("the directory was %s and is %s, %+v", before, now, a.get(now))
		}
	}
	_, t := a.lead()
	refused("somebody leads")
	a.holds(t)
	_, b := a.queue()
	refused("another waits")
	a.resign(t)
	t = b.wins()
	refused("the other leads")
	a.holds(t)
	c, late := a.queue() // enters as ever
	a.resign(t)
	t = late.wins()

	ctx, cancel := a.within()
	defer cancel()
	process := a.svc.Client(a.t).Backend
	a.refused("Remove with another strategy", elector.Remove(ctx, process, renamed{a.cfg.Strategy, "another"}, a.path), elector.ErrStrategyMismatch)
	a.refused("Remove at no path", elector.Remove(ctx, process, a.cfg.Strategy, "relative"), elector.ErrConfig, backend.ErrBadKey)
	a.holds(t)
	a.leaves(c, t)
	a.must("Remove after all have gone", remove())
}

func removeAnyTime(a *arena) {
	rounds := 10
	if a.svc.Virtual {
		rounds = 40
	}
	candidates := []*candidate{a.stand(), a.stand(), a.stand()}
	remove := a.removing()
	stop, stopped := make(chan struct{}), make(chan error, 1)
	end := func() {
		select {
		case <-stop:
		default:
			close(stop)
		}
	}
	candidates[0].atEnd(end)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			case <-time.After(rand.N(a.svc.TTL / 1000)):
			}
			err := remove()
			if err != nil && !isAny(err, elector.ErrInUse, elector.ErrIndeterminate) {
				stopped <- err
				return
			}
		}
	}()
	proclaim := func(t *elector.Term) error {
		ctx, cancel := a.within()
		defer cancel()
		return t.Proclaim(ctx, []byte("here"))
	}
	for range rounds {
		var bids []*bid
		for _, c := range candidates {
			time.Sleep(rand.N(a.svc.TTL / 500))
			bids = append(bids, c.campaign())
		}
		for len(bids) > 0 {
			var i int // in whatever order: a new directory begins a new one
			a.until("one of the candidates leads", func() bool {
				i = slices.IndexFunc(bids, (*bid).returned)
				return i >= 0
			})
			t := bids[i].wins()
			bids = slices.Delete(bids, i, i+1)
			if err := proclaim(t); err != nil {
				a.failf("Proclaim of a leader whose election is being removed: %v (cause: %v)", err, context.Cause(t.Context()))
			}
			a.resign(t)
		}
	}
	end()
	a.must("Remove while candidates come and go", arrives(a, "Remove returns", stopped))
	for _, c := range candidates {
		a.close(c)
	}
	a.until("nothing is in use", func() bool {
		err := remove()
		if err != nil && !errors.Is(err, elector.ErrInUse) {
			a.failf("Remove after all have gone: %v", err)
		}
		return err == nil
	})
	if e := a.get(a.path); e.Exists() {
		a.failf("the record is left: %+v", e)
	}
}
