package electionrules

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
)

var removeRules = []rule{
	{
		Name: "remove/leaves-nothing",
		Text: "Remove leaves nothing of an election in which nobody stands, and nothing else goes; whoever founds it anew leads with a higher token.",
		Need: []string{"Put", needLayout},
		Run:  removeLeavesNothing,
	}, {
		Name: "remove/in-use",
		Text: "Remove of an election in which somebody stands is ErrInUse, and changes nothing for anybody.",
		Need: []string{needLayout},
		Run:  removeInUse,
	}, {
		Name: "remove/any-time",
		Text: "While an election is removed again and again, candidates come, lead and go as ever: one at a time, with rising tokens, and nobody is deposed.",
		Need: []string{needLayout},
		Run:  removeAnyTime,
	},
}

// removing returns a Remove of the election, in a process of its own.
func (a *arena) removing() func() error {
	b := a.Service.Client(a.T).Backend
	return func() error {
		return elector.Remove(a.within(), b, a.cfg.Strategy, a.path)
	}
}

// leaves lets a leader go, and waits until nothing of it stands.
func (a *arena) leaves(c *candidate, t *elector.Term) {
	a.resign(t)
	a.close(c)
	a.Until("nobody stands", func() bool { return len(a.entries()) == 0 })
}

func removeLeavesNothing(a *arena) {
	remove := a.removing()
	a.Must("Remove of an election that was never founded", remove())
	own := a.path + "/own"
	var last uint64
	for round := range 4 {
		c, t := a.lead()
		if t.Token() <= last {
			a.Failf("token %d after the removal is not higher than %d", t.Token(), last)
		}
		last = t.Token()
		dir := a.dir()
		if round == 2 {
			a.put(own, "of the user")
		}
		a.leaves(c, t)
		a.Must("Remove", remove())
		if e := a.get(dir); e.Exists() {
			a.Failf("the directory is left: %+v", e)
		}
		switch record := a.get(a.path); {
		case round < 2 && record.Exists():
			a.Failf("the record is left: %+v", record)
		case round >= 2 && string(a.get(own).Value) != "of the user":
			a.Failf("the user's own key is %+v", a.get(own))
		}
		a.Must("Remove of what is removed", remove())
	}
}

func removeInUse(a *arena) {
	remove := a.removing()
	refused := func(when string) {
		before := a.dir()
		a.Refused("Remove while "+when, remove(), elector.ErrInUse)
		if now := a.dir(); now != before || !a.get(now).Exists() {
			a.Failf("the directory was %s and is %s, %+v", before, now, a.get(now))
		}
	}
	_, t := a.lead()
	refused("somebody leads")
	a.holds(t)
	_, b := a.queue()
	refused("another waits")
	t = b.succeeds(t)
	refused("the other leads")
	a.holds(t)
	c, late := a.queue() // enters as ever
	t = late.succeeds(t)

	ctx := a.within()
	process := a.Service.Client(a.T).Backend
	a.Refused("Remove with another strategy", elector.Remove(ctx, process, renamed{a.cfg.Strategy, "another"}, a.path), elector.ErrStrategyMismatch)
	a.Refused("Remove at no path", elector.Remove(ctx, process, a.cfg.Strategy, "relative"), elector.ErrConfig, backend.ErrBadKey)
	a.holds(t)
	a.leaves(c, t)
	a.Must("Remove after all have gone", remove())
}

func removeAnyTime(a *arena) {
	rounds := 10
	if a.Service.Virtual {
		rounds = 40
	}
	candidates := []*candidate{a.stand(), a.stand(), a.stand()}
	remove := a.removing()
	stop, stopped := make(chan struct{}), make(chan error, 1)
	end := candidates[0].atEnd(func() { close(stop) })
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			case <-time.After(rand.N(a.Service.TTL / 1000)):
			}
			err := remove()
			if err != nil && !harness.IsAny(err, elector.ErrInUse, elector.ErrIndeterminate) {
				stopped <- err
				return
			}
		}
	}()
	proclaim := func(t *elector.Term) error {
		return t.Proclaim(a.within(), []byte("here"))
	}
	for range rounds {
		var bids []*bid
		for _, c := range candidates {
			time.Sleep(rand.N(a.Service.TTL / 500))
			bids = append(bids, c.campaign())
		}
		for len(bids) > 0 {
			t := anyReturns(a, &bids) // a new directory begins a new order
			if err := proclaim(t); err != nil {
				a.Failf("Proclaim of a leader whose election is being removed: %v (cause: %v)", err, context.Cause(t.Context()))
			}
			a.resign(t)
		}
	}
	end()
	a.Must("Remove while candidates come and go", arrives(a, "Remove returns", stopped))
	for _, c := range candidates {
		a.close(c)
	}
	a.Until("nothing is in use", func() bool {
		err := remove()
		if err != nil && !errors.Is(err, elector.ErrInUse) {
			a.Failf("Remove after all have gone: %v", err)
		}
		return err == nil
	})
	if e := a.get(a.path); e.Exists() {
		a.Failf("the record is left: %+v", e)
	}
}
