package electionrules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
	"github.com/elector-go/elector/internal/election"
)

var transferRules = []rule{
	promise("transfer/heir", transferHeir, needs{needTransfer},
		"Leadership that is transferred goes to the named candidate. The others keep their order behind it. Of the candidates before it in line, each steps aside once, or none does."),
}

// successionRules test the steps of a transfer, one by one.
var successionRules = []rule{
	promise("transfer/next", transferNext, needs{needTransfer, needAside, needBackend},
		"A transfer to the candidate that is next involves no other candidate."),
	promise("transfer/prepare", transferPrepare, needs{needTransfer, needAsk, needAside, needBackend},
		"A leader that transfers leadership continues to lead, publish and receive requests until the heir is next, and after that until its work has stopped."),
	promise("transfer/fails", transferFails, needs{needTransfer, needAside, needBackend, "Expire"},
		"If the heir goes before it leads, a candidate in between does not step aside, or the leader's session is lost, the transfer fails and says why. Nobody steps aside for it any more, a leader continues to lead, and the line moves on."),
	promise("transfer/twice", transferTwice, needs{needTransfer},
		"Of two transfers one after the other, the later one counts."),
	promise("transfer/unknown", transferUnknown, needs{needTransfer, needAsk},
		"Leadership cannot be transferred to a candidate that does not stand, nor to the leader itself: the leader continues to lead, and a request with that name is not written."),
	promise("transfer/refused", transferRefused, needs{needNoTransfer},
		"A strategy that cannot transfer leadership reports that, to the leader and to those who ask it, and nothing changes."),
	promise("transfer/request", transferRequest, needs{needTransfer, needAsk, needAside, needBackend},
		"A leader that is asked to go in favour of a candidate works until that candidate is next, and then goes. If the candidate goes, the leader goes anyway."),
	promise("transfer/same-id", transferSameID, needs{needTransfer},
		"Of several candidates with the ID, the first in line leads next, and the leader does not count. Their entries tell them apart."),
	promise("transfer/used-up", transferUsedUp, needs{needTransfer, needAside, needLayout, "UseUp"},
		"A candidate that finds no room at the end of the line is not lost: it keeps its place, or waits outside like those that arrive then."),
}

// transfer starts Term.Transfer.
func (a *arena) transfer(t *elector.Term, id string) *call {
	return a.handOn(id, func(ctx context.Context) error { return t.Transfer(ctx, id, nil) })
}

// prepare starts Term.Transfer with work that does not stop, so that the leader leads on when the heir is next.
func (a *arena) prepare(t *elector.Term, id string) *call {
	errBusy := errors.New("the work does not stop")
	return a.handOn(id, func(ctx context.Context) error {
		switch err := t.Transfer(ctx, id, func() error { return errBusy }); {
		case err == nil:
			return errors.New("it has resigned though the work has not stopped")
		case !errors.Is(err, errBusy):
			return err
		}
		return nil
	})
}

func (a *arena) handOn(id string, to func(context.Context) error) *call {
	what := fmt.Sprintf("Transfer to %q", id)
	a.hist.note("%s begins", what)
	if !a.cfg.StepsAside { // then others are passed over
		a.hist.promised.Ordered = false
	}
	return a.begin(what, to)
}

// transfers transfers leadership, and waits until the heir leads.
func (a *arena) transfers(t *elector.Term, heir *bid) *elector.Term {
	a.transfer(t, heir.c.id).must()
	a.ends(t, elector.ErrResigned)
	return heir.wins()
}

// A handover is a pending transfer.
type handover struct {
	*call
	before []*bid // in line before the heir
	heir   *bid
	behind *bid
	goOn   func() // releases the candidate that is held
}

// heldUp starts a transfer, and holds one of two candidates before the heir as it is about to step aside.
func (a *arena) heldUp(t *elector.Term, slow int, begin func(t *elector.Term, id string) *call) *handover {
	h := &handover{before: a.queues(2)}
	_, h.heir = a.queue()
	_, h.behind = a.queue()
	one := h.before[slow].c
	held := one.stall(commits(backend.OpEnqueue))
	h.goOn = held.release
	h.call = begin(t, h.heir.c.id)
	held.reached(one.id + " steps aside")
	a.Settle()
	return h
}

// stoodAside checks how often the candidates have stood aside for a transfer, if hooks are available.
func (a *arena) stoodAside(times int, bids ...*bid) {
	if a.lacks(needHooks) {
		return
	}
	for _, b := range bids {
		b.c.stoodAside(times, elector.ErrTransfer)
	}
}

// inOrder waits until they lead one after the other; t is the leader's term. Each commit is fenced by its
// own term, regardless of its past.
func (a *arena) inOrder(t *elector.Term, bids ...*bid) {
	for i, b := range bids {
		a.Settle()
		blocked(bids[i:]...)
		ended := a.guarded(t)
		t = b.succeeds(t)
		ended()
	}
}

// allLead waits until each has led, in any order.
func (a *arena) allLead(bids []*bid) {
	for len(bids) > 0 {
		t := anyReturns(a, &bids)
		a.holds(t)
		a.resign(t)
	}
}

func transferHeir(a *arena) {
	each(a.in, "%d candidates in between", []int{1, 3}, func(a *arena, between int) {
		_, t := a.lead()
		before := a.queues(between)
		_, heir := a.queue()
		behind := a.queues(2)
		t = a.transfers(t, heir)
		a.holds(t)
		times, line := 0, slices.Concat(before, behind)
		if a.cfg.StepsAside {
			times, line = 1, slices.Concat(behind, before)
		}
		a.stoodAside(times, before...)
		a.stoodAside(0, append(behind, heir)...)
		if !a.cfg.Ordered {
			return
		}
		ids := []string{heir.c.id}
		for _, b := range line {
			ids = append(ids, b.c.id)
		}
		a.lists(heir.c.e, ids...)
		a.inOrder(t, line...)
	})
}

func transferNext(a *arena) {
	c, t := a.lead()
	a.speak(t)
	bids := a.queues(3)
	a.Settle()
	before := c.tap.Counts().Commits
	a.prepare(t, bids[0].c.id).must()
	if n := c.tap.Counts().Commits - before; n > 1 { // a check whether its server is behind
		a.Failf("a transfer to the candidate that is next took %d commits", n)
	}
	t = a.transfers(t, bids[0])
	a.stoodAside(0, bids...)
	a.inOrder(t, bids[1:]...)
}

func transferPrepare(a *arena) {
	for slow := range 2 {
		a.in(fmt.Sprintf("number %d of those before the heir is slow", slow+1), func(a *arena) {
			c, t := a.lead()
			h := a.heldUp(t, slow, a.prepare)
			h.pending(h.before[slow].c.id + " stands in between")
			a.holds(t)
			a.speak(t)
			a.ask(t)
			a.hears(t)
			a.speak(t)
			h.goOn()
			h.must()
			a.sees(c.e, c, t, string(newValue))
			a.stays(t)
			h.heir.blocked()
			a.speak(t)
			a.inOrder(t, append([]*bid{h.heir, h.behind}, h.before...)...)
		})
	}
}

func transferFails(a *arena) {
	a.in("the heir goes when it is next, and the leader has not gone yet", func(a *arena) {
		_, t := a.lead()
		before := a.queues(2)
		_, heir := a.queue()
		a.prepare(t, heir.c.id).must()
		a.stoodAside(1, before...)
		a.Settle() // they look up their new predecessors
		heir.withdraws()
		a.Settle()
		a.holds(t) // nobody treats the heir as a leader that has gone
		blocked(before...)
		a.inOrder(t, before...)
		a.stoodAside(1, before...)
	})
	a.in("the heir goes before it is next", func(a *arena) {
		_, t := a.lead()
		h := a.heldUp(t, 0, a.transfer)
		h.heir.withdraws()
		a.Refused("Transfer to one that has gone", h.result(), elector.ErrNoCandidate)
		h.goOn()
		a.stays(t)
		rest := append(h.before, h.behind)
		a.stoodAside(0, rest...)
		a.inOrder(t, rest...)
	})
	a.in("a candidate in between does not step aside", func(a *arena) {
		c, t := a.lead()
		h := a.heldUp(t, 0, a.transfer)
		h.cancel()
		err := h.result()
		a.Refused("Transfer that is given up", err, context.Canceled)
		who := fmt.Sprintf("%q", h.before[1].c.id)
		a.FailIf(!strings.Contains(err.Error(), who), "Transfer's error does not name %s, behind which the heir stands: %v", who, err)
		a.holds(t)
		h.goOn()
		a.Settle()
		// A candidate that now gets in line behind the leader finds no heir named there.
		_, last := a.queue()
		a.resign(t)
		a.close(c)
		a.allLead(append(h.before, h.heir, h.behind, last))
		a.stoodAside(0, h.before[1])
	})
	a.in("the leader's session is lost", func(a *arena) {
		c, t := a.lead()
		h := a.heldUp(t, 0, a.transfer)
		a.expire(c)
		a.ends(t, elector.ErrSessionLost)
		a.Refused("Transfer of a leader whose session is lost", h.result(), elector.ErrDeposed, elector.ErrSessionLost)
		a.Until("the leader's entry is gone", func() bool { return len(a.visible()) == 4 })
		h.goOn()
		a.inOrder(h.before[0].wins(), h.before[1], h.heir, h.behind)
		a.stoodAside(0, h.before[0])
	})
}

func transferTwice(a *arena) {
	_, t := a.lead()
	bids := a.queues(4)
	for _, b := range []*bid{bids[2], bids[3], bids[1]} {
		a.prepare(t, b.c.id).must()
		a.holds(t)
	}
	a.holds(bids[1].succeeds(t))
}

func transferUnknown(a *arena) {
	c, t := a.lead()
	bids := a.queues(2)
	_, gone := a.queue()
	gone.withdraws()
	a.close(gone.c)
	for _, id := range []string{"nobody", c.id, gone.c.id, ""} {
		a.Refused(fmt.Sprintf("Transfer to %q", id), a.transfer(t, id).result(), elector.ErrNoCandidate)
		if id != "" {
			_, err := a.asks(elector.Request{To: id})
			a.Refused(fmt.Sprintf("Ask for %q to lead", id), err, elector.ErrNoCandidate)
		}
	}
	_, err := a.asks(elector.Request{To: strings.Repeat("x", election.MaxRequest+1)})
	a.Refused("Ask with a name that is too long", err, elector.ErrConfig)
	a.unasked(t)
	a.holds(t)
	blocked(bids...)
	a.stoodAside(0, bids...)
	a.resign(t)
	a.Refused("Transfer by a term that is over", a.transfer(t, bids[1].c.id).result(), elector.ErrDeposed, elector.ErrResigned)
}

func transferRefused(a *arena) {
	_, t := a.lead()
	_, b := a.queue()
	a.Refused("Transfer", a.transfer(t, b.c.id).result(), elector.ErrNoTransfer)
	_, err := a.asks(elector.Request{To: b.c.id})
	a.Refused("Ask for a candidate to lead", err, elector.ErrNoTransfer)
	a.unasked(t)
	a.holds(t)
	b.blocked()
	a.holds(b.succeeds(t))
}

func transferRequest(a *arena) {
	each(a.in, "the heir goes meanwhile: %v", []bool{false, true}, func(a *arena, goes bool) {
		j := a.stand().obeys()
		t := j.term()
		h := a.heldUp(t, 0, func(_ *elector.Term, id string) *call {
			return a.begin("Ask", func(context.Context) error {
				_, err := a.asks(elector.Request{By: "operator", Why: "deploy", To: id})
				return err
			})
		})
		h.must()
		select {
		case cause := <-j.causes:
			a.Failf("the ctx of the lead function has ended (%s) before the heir is next", harness.Text(cause))
		default:
		}
		next := h.heir
		if goes {
			h.heir.withdraws()
			next = h.before[0]
		}
		h.goOn()
		j.told(elector.ErrAsked)
		a.stays(t)
		next.blocked()
		j.finish(nil)
		a.ends(t, elector.ErrResigned)
		t = next.wins()
		a.unasked(t)
		a.holds(t)
	})
}

func transferSameID(a *arena) {
	same := func(cfg *elector.Config) { cfg.ID = a.id(100) }
	_, t := a.lead()
	a.queues(1)
	first, b1 := a.queue(same)
	_, b2 := a.queue(same)
	all, err := first.e.Candidates(a.within())
	a.Must("Candidates", err)
	seen := make(map[string]bool)
	for _, c := range all {
		seen[fmt.Sprint(c.Entry.Key, c.Entry.Rev)] = true
	}
	a.FailIf(len(seen) != 4, "Candidates lists %+v, want four different entries", all)
	t = a.transfers(t, b1)
	b2.blocked()
	a.holds(a.transfers(t, b2))
}

func transferUsedUp(a *arena) {
	a.usedUp(3)
	_, t := a.lead()
	bids := a.queues(2)
	done := a.prepare(t, bids[1].c.id) // otherwise its Resign might be what is given up
	a.Settle()
	done.cancel() // unless the one in between has gone outside
	if err := done.result(); err != nil {
		a.Refused("Transfer in a directory that is used up", err, context.Canceled)
	}
	a.holds(t)
	a.resign(t)
	a.allLead(bids)
}
