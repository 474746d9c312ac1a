package electionrules

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

var termRules = []rule{
	promise("term/exclusion", termExclusion, needs{"Suspend"},
		"No two terms are valid at the same instant, whichever links are cut and whichever messages are delayed or lost, and the election continues afterwards."),
	promise("term/order", termOrder, needs{needOrdered},
		"Candidates lead in the order of their arrival. A candidate that withdraws from the middle is passed over."),
	promise("term/token", termToken, needs{"Delete", "Expire"},
		"Tokens strictly rise from term to term, also after a session expires, after an operator deletes entries, and when the election is founded again."),
}

// reportRules are about what an elector reports of its terms, and what it refuses.
var reportRules = []rule{
	promise("term/once", termOnce, needs{needHooks, "Delete", "Expire"},
		"Each term is reported by one Elected and one Ended with its cause, in this order, and each call begins after the one before has returned. The candidate is not elected again before that."),
	promise("term/busy", termBusy, nil,
		"An elector that campaigns or leads refuses a second Campaign with ErrBusy, and is not disturbed by it. Its Term method returns its term while it leads, and nil before and after."),
	promise("term/outlives-campaign", termOutlivesCampaign, nil,
		"The ctx of Campaign limits only the campaign: when it ends, a term that was won continues."),
	promise("term/proclaim", termProclaim, needs{"Delete"},
		"Others see a proclaimed value. A Proclaim after the term has ended fails with the cause and writes nothing."),
	promise("term/same-id", termSameID, nil,
		"Candidates of different processes that have the same ID can both lead."),
}

func termOrder(a *arena) {
	for _, gone := range [][]int{nil, {1}, {3}, {5}, {1, 2}, {2, 4}} {
		a.in(fmt.Sprintf("of 1 leader and 5 waiting candidates, %d withdraw", len(gone)), func(a *arena) {
			first, t := a.lead()
			bids := []*bid{nil}
			for i := range 5 {
				at := a.process()
				if i == 2 { // two candidates in one process
					at = first.client
				}
				_, b := a.queueIn(at)
				bids = append(bids, b)
			}
			for _, i := range gone {
				bids[i].withdraws()
			}
			a.Settle() // a candidate that treats the withdrawal as its turn has led by now
			want := []string{first.id}
			for i, b := range bids[1:] {
				if slices.Contains(gone, i+1) {
					continue
				}
				b.blocked()
				want = append(want, b.c.id)
				t = b.succeeds(t)
			}
			got := a.hist.order()
			a.FailIf(!slices.Equal(got, want), "%v led, want %v", got, want)
		})
	}
}

func termToken(a *arena) {
	var last uint64
	rises := func(after string, t *elector.Term) *elector.Term {
		a.FailIf(t.Token() <= last, "token %d after %s is not higher than %d before", t.Token(), after, last)
		last = t.Token()
		return t
	}
	c := a.stand()
	t := rises("the founding", c.campaign().wins())
	a.resign(t)
	rises("a resignation", c.campaign().wins())
	a.close(c)
	c = a.stand()
	t = rises("Close", c.campaign().wins())
	a.expire(c)
	a.ends(t, elector.ErrSessionLost)
	t = rises("an expiry", c.campaign().wins())
	a.delete(a.seat().Key)
	a.ends(t, elector.ErrDeposed)
	t = rises("a deletion of the leader's entry", c.campaign().wins())
	if !a.cfg.Dense { // the tokens are counted in the election, and are deleted with it
		a.delete(a.path)
		a.ends(t, elector.ErrDeposed)
		t = rises("a deletion of the election", c.campaign().wins())
		a.resign(t)
		a.delete(a.path)
		rises("a deletion of an election without candidates", c.campaign().wins())
	}
	_, b := a.queue()
	a.close(c)
	rises("a handover", b.wins())
}

func termOnce(a *arena) {
	each(a.in, "the leader %s", endings, func(a *arena, way ending) {
		c, t := a.lead()
		way.end(a, c, t)
		a.ends(t, way.cause)
		a.Until("Ended is reported", func() bool { return len(c.reports(isEnded)) > 0 })
		a.Settle()
		got := c.reports(isElected, isEnded)
		a.FailIf(len(got) != 2 || got[0].what != isElected || got[1].what != isEnded,
			"%d reports of Elected and Ended, want one each: %+v", len(got), got)
		a.FailIf(got[0].token != t.Token() || got[1].token != t.Token() || !errors.Is(got[1].err, way.cause),
			"reports %+v of term %d, want cause %q", got, t.Token(), way.cause)
	})
	a.in("a campaign is cancelled", func(a *arena) {
		a.lead()
		c, b := a.queue()
		b.withdraws()
		a.Settle()
		a.FailIf(len(c.reports(isElected, isEnded)) > 0, "Elected or Ended was called without a term")
	})
	a.in("it ends while Elected is being reported", func(a *arena) {
		c := a.stand()
		hook := c.holdIn(isElected)
		b := c.campaign()
		hook.reached("Elected is called")
		a.delete(a.seat().Key)
		_, next := a.lead()
		a.Settle()
		a.FailIf(len(c.reports(isEnded)) > 0, "Ended was called before Elected had returned")
		hook.release()
		a.ends(b.wins(), elector.ErrDeposed)
		a.holds(next)
	})
	a.in("it campaigns again while Ended is being reported", func(a *arena) {
		c := a.stand()
		hook := c.holdIn(isEnded)
		a.resign(c.campaign().wins())
		hook.reached("Ended is called")
		b := c.campaign()
		a.Settle()
		n := len(c.reports(isElected))
		a.FailIf(n != 1, "Elected was called %d times while the first Ended had not returned", n)
		b.blocked()
		hook.release()
		b.wins()
	})
}

func termBusy(a *arena) {
	leader, t := a.lead()
	waiting, b := a.queue()
	for _, c := range []*candidate{leader, waiting} {
		second := c.campaign()
		second.fails(elector.ErrBusy)
	}
	a.holds(t)
	b.blocked()
	leads := func(c *candidate, want *elector.Term) {
		got := c.e.Term()
		a.FailIf((got == nil) != (want == nil) || got != nil && got.Token() != want.Token(), "Term of candidate %s is %v, want %v", c.id, got, want)
	}
	leads(leader, t)
	leads(waiting, nil)
	next := b.succeeds(t)
	leads(leader, nil)
	leads(waiting, next)
}

func termOutlivesCampaign(a *arena) {
	type key struct{}
	c := a.stand()
	b := c.campaignIn(context.WithValue(context.Background(), key{}, "kept"))
	t := b.wins()
	b.cancel()
	a.stays(t)
	a.FailIf(t.Context().Value(key{}) != "kept", "the term's Context has lost the values of Campaign's ctx")
	a.resign(t)
}

func termProclaim(a *arena) {
	ctx := a.within()
	c, t := a.lead()
	_, b := a.queue()
	viewer := a.view()
	for _, value := range []string{"one", "", "two"} {
		a.proclaim(t, value)
		a.sees(viewer, c, t, value)
	}
	a.FailIf(t.Proclaim(ctx, make([]byte, elector.MaxValue+1)) == nil, "Proclaim of more than MaxValue bytes returned no error")
	a.holds(t)
	a.delete(a.seat().Key)
	next := b.wins()
	a.Refused("Proclaim of a deposed leader", t.Proclaim(ctx, []byte("late")), elector.ErrDeposed)
	a.ends(t, elector.ErrDeposed)
	a.Must("Proclaim of its successor", next.Proclaim(ctx, []byte("mine")))
	a.Refused("Proclaim of a deposed leader", t.Proclaim(ctx, []byte("late")), elector.ErrDeposed)
	a.sees(viewer, b.c, next, "mine")
	a.holds(next)
	a.resign(next)
	a.Refused("Proclaim after Resign", next.Proclaim(ctx, []byte("late")), elector.ErrResigned)
	a.vacant(viewer)
}

func termSameID(a *arena) {
	id := a.id(1)
	same := func(cfg *elector.Config) { cfg.ID = id }
	_, t := a.lead(same)
	_, b := a.queue(same)
	viewer := a.view()
	if a.cfg.Lists {
		a.lists(viewer, id, id)
	}
	next := b.succeeds(t)
	a.holds(next)
	a.sees(viewer, b.c, next, "value of "+a.id(2))
}

// termExclusion makes several candidates come, lead and go at random, while links break at random.
func termExclusion(a *arena) {
	seed := rand.Uint64()
	a.hist.note("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, seed))
	rounds, ttl := 8, a.Service.TTL
	pace := ttl / 4 // candidates come and go at this pace
	if a.Service.Virtual {
		rounds, pace = 120, ttl
	}
	var all []*candidate
	for range 4 {
		all = append(all, a.stand(a.brief))
	}
	all = append(all, a.standIn(all[0].client, a.brief)) // two candidates in one process
	ctx, halt := context.WithCancel(context.Background())
	all[0].atEnd(halt)
	var wg sync.WaitGroup
	for _, c := range all {
		own := rand.New(rand.NewPCG(seed, rnd.Uint64()))
		wg.Go(func() { come(ctx, c, own, pace) })
	}
	release := []func(){}
	for range rounds {
		c := all[rnd.IntN(4)]
		switch n := rnd.IntN(6); {
		case n == 0 && c.client.HoldWakeups != nil:
			release = append(release, a.freeze(c))
		case n == 1 && c.client.LoseReply != nil:
			c.client.LoseReply(backend.OpKind(rnd.IntN(int(backend.OpDelete)) + 1))
		case n == 2 && c.client.LoseRequest != nil:
			c.client.LoseRequest(backend.OpKind(rnd.IntN(int(backend.OpDelete)) + 1))
		case n == 3:
			a.resume(c)
		default:
			a.suspend(c)
		}
		// The faults are the subject of the rule, and they last.
		time.Sleep(time.Duration(rnd.Int64N(int64(ttl) / 2)))
		if rnd.IntN(3) == 0 {
			for _, c := range all {
				c.client.Resume()
			}
			for _, r := range release {
				r()
			}
			release = nil
		}
	}
	for _, c := range all[:4] {
		a.resume(c)
	}
	for _, r := range release {
		r()
	}
	now := a.hist.count()
	a.Until("two more terms begin after the last fault", func() bool { return a.hist.count() >= now+2 })
	halt()
	a.begin("the last candidate", func(context.Context) error { wg.Wait(); return nil }).must()
}

// come campaigns, leads and leaves until ctx ends.
func come(ctx context.Context, c *candidate, rnd *rand.Rand, pace time.Duration) {
	for ctx.Err() == nil {
		trying, cancel := context.WithTimeout(ctx, pace/4+time.Duration(rnd.Int64N(int64(3*pace))))
		t, err := c.e.Campaign(trying)
		cancel()
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				c.a.hist.blame("Campaign of %s: %v", c.id, err)
				return
			}
			continue
		}
		select {
		case <-t.Context().Done():
		case <-ctx.Done():
		case <-time.After(time.Duration(rnd.Int64N(int64(pace) / 3))):
		}
		if rnd.IntN(2) == 0 { // its session may be lost first
			select {
			case <-t.Context().Done():
			case <-ctx.Done():
			case <-time.After(pace):
			}
		}
		leaving, cancel := context.WithTimeout(context.Background(), pace)
		_ = t.Resign(leaving) // without a link it is not confirmed
		cancel()
	}
}
