package electionrules

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
)

var transferRules = []rule{
	{
		Name: "transfer/heir",
		Text: "Leadership that is transferred goes to the candidate that was named. The others keep their order behind it, and of those before it in line each steps aside once, or none.",
		Need: []string{needTransfer},
		Run:  transferHeir,
	},
}

// successionRules are the steps of a transfer, one by one.
var successionRules = []rule{
	{
		Name: "transfer/next",
		Text: "Leadership is transferred to the candidate that is next without a word to anybody.",
		Need: []string{needTransfer, needAside, needBackend},
		Run:  transferNext,
	}, {
		Name: "transfer/prepare",
		Text: "A leader that prepares a transfer leads on until the heir is next, and after that until it resigns.",
		Need: []string{needTransfer, needAside, needBackend},
		Run:  transferPrepare,
	}, {
		Name: "transfer/gone",
		Text: "When the heir goes before it leads the leader leads on, and hears of it if a transfer is under way; nobody steps aside for it any more, and the line goes on.",
		Need: []string{needTransfer, needAside, needBackend},
		Run:  transferGone,
	}, {
		Name: "transfer/stuck",
		Text: "A candidate in between that does not step aside is named when the transfer is given up; the leader leads on, and the line goes on.",
		Need: []string{needTransfer, needAside, needBackend},
		Run:  transferStuck,
	}, {
		Name: "transfer/twice",
		Text: "Of two transfers one after the other the later one counts.",
		Need: []string{needTransfer},
		Run:  transferTwice,
	}, {
		Name: "transfer/unknown",
		Text: "Leadership cannot be transferred to who does not stand, nor to the leader itself: it leads on, and a request with that name is not written.",
		Need: []string{needTransfer, needAsk},
		Run:  transferUnknown,
	}, {
		Name: "transfer/refused",
		Text: "A strategy that cannot transfer leadership says so, to the leader and to whoever asks it, and all stays as it is.",
		Need: []string{needNoTransfer},
		Run:  transferRefused,
	}, {
		Name: "transfer/request",
		Text: "A leader that is asked to go for a candidate to lead works on until that is next, and then goes; if the candidate goes, the leader goes all the same.",
		Need: []string{needTransfer, needAsk, needAside, needBackend},
		Run:  transferRequest,
	}, {
		Name: "transfer/same-id",
		Text: "Of several candidates with the ID the first in line leads next, and the leader is none of them; their entries tell them apart.",
		Need: []string{needTransfer},
		Run:  transferSameID,
	}, {
		Name: "transfer/proclaim",
		Text: "A value that the leader publishes meanwhile is published, and the transfer goes on; a request that comes meanwhile is heard.",
		Need: []string{needTransfer, needAsk, needAside, needBackend},
		Run:  transferProclaim,
	}, {
		Name: "transfer/crash",
		Text: "When the leader's session is lost before the heir is next, the transfer ends with it, and the line goes on.",
		Need: []string{needTransfer, needAside, needBackend, "Expire"},
		Run:  transferCrash,
	}, {
		Name: "transfer/used-up",
		Text: "A candidate that finds no room at the end of the line is not lost: it stays in its place, or waits outside as those who come then.",
		Need: []string{needTransfer, needAside, needLayout, "UseUp"},
		Run:  transferUsedUp,
	},
}

func transferrer(s elector.Strategy) bool {
	_, ok := s.(elector.Transferrer)
	return ok
}

// transfer starts a transfer, or the preparation of one: Term.Transfer or Term.Prepare.
func (a *arena) transfer(to func(context.Context, string) error, id string) (returned <-chan error, giveUp context.CancelFunc) {
	ctx, cancel := context.WithCancel(a.within())
	a.T.Cleanup(cancel)
	a.hist.note("a transfer to %s begins", id)
	if !a.cfg.StepsAside { // others are passed over
		a.hist.promised.Ordered = false
	}
	done := make(chan error, 1)
	go func() {
		err := to(ctx, id)
		a.hist.note("the transfer to %s: %s", id, harness.Text(err))
		done <- err
	}()
	return done, cancel
}

// transfers transfers leadership, and waits until the heir leads.
func (a *arena) transfers(t *elector.Term, heir *bid) *elector.Term {
	done, _ := a.transfer(t.Transfer, heir.c.id)
	a.Must("Transfer", arrives(a, "Transfer returns", done))
	a.ends(t, elector.ErrResigned)
	return heir.wins()
}

// stoodAside checks how often the candidate has stood aside, if its hooks are there.
func (a *arena) stoodAside(b *bid, times int) {
	if _, lacks := a.cfg.Why[needHooks]; lacks {
		return
	}
	asides := func() []report { return b.c.reports(func(r report) bool { return r.what == isAside }) }
	// The heir may lead before it has heard that its own commit is done.
	a.Until(b.c.id+" stands aside", func() bool { return len(asides()) >= times })
	all := asides()
	for _, r := range all {
		a.Refused("why "+b.c.id+" stands aside", r.err, elector.ErrTransfer)
	}
	if len(all) != times {
		a.Failf("%s has stood aside %d times, want %d", b.c.id, len(all), times)
	}
}

// inOrder waits until they lead one after the other, t being the leader's term.
func (a *arena) inOrder(t *elector.Term, bids ...*bid) {
	for i, b := range bids {
		a.Settle()
		for _, waiting := range bids[i:] {
			waiting.blocked()
		}
		t = b.succeeds(t)
	}
}

// allLead waits until each has led, in any order.
func (a *arena) allLead(bids []*bid) {
	for len(bids) > 0 {
		a.resign(anyReturns(a, &bids))
	}
}

// stepsAside holds the candidate when it is about to step aside.
func (b *bid) stepsAside() *stop { return b.c.stall(commits(backend.OpEnqueue)) }

func transferHeir(a *arena) {
	for _, between := range []int{1, 3} {
		a.in(fmt.Sprintf("%d candidates in between", between), func(a *arena) {
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
			for _, b := range before {
				a.stoodAside(b, times)
			}
			for _, b := range append(behind, heir) {
				a.stoodAside(b, 0)
			}
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
}

func transferNext(a *arena) {
	c, t := a.lead()
	a.speak(t)
	bids := a.queues(3)
	a.Settle()
	before := c.tap.Counts().Commits
	done, _ := a.transfer(t.Prepare, bids[0].c.id)
	a.Must("Prepare", arrives(a, "Prepare returns", done))
	if n := c.tap.Counts().Commits - before; n > 1 { // a look whether its server is behind
		a.Failf("a transfer to the one that is next took %d commits", n)
	}
	t = a.transfers(t, bids[0])
	for _, b := range bids {
		a.stoodAside(b, 0)
	}
	a.inOrder(t, bids[1:]...)
}

func transferPrepare(a *arena) {
	_, t := a.lead()
	before := a.queues(2)
	_, heir := a.queue()
	slow := before[1].stepsAside()
	done, _ := a.transfer(t.Prepare, heir.c.id)
	slow.reached(before[1].c.id + " steps aside")
	a.Settle()
	select {
	case err := <-done:
		a.Failf("Prepare returned (%s), and %s stands in between", harness.Text(err), before[1].c.id)
	default:
	}
	a.holds(t)
	a.speak(t)
	slow.release()
	a.Must("Prepare", arrives(a, "Prepare returns", done))
	a.stays(t)
	heir.blocked()
	a.speak(t)
	a.inOrder(t, append([]*bid{heir}, before...)...)
}

func transferGone(a *arena) {
	a.in("it is next, and the leader has not gone yet", func(a *arena) {
		_, t := a.lead()
		before := a.queues(2)
		_, heir := a.queue()
		done, _ := a.transfer(t.Prepare, heir.c.id)
		a.Must("Prepare", arrives(a, "Prepare returns", done))
		for _, b := range before {
			a.stoodAside(b, 1)
		}
		a.Settle() // they look behind whom they stand now
		heir.withdraws()
		a.Settle()
		a.holds(t) // nobody takes the heir for a leader that has gone
		for _, b := range before {
			b.blocked()
		}
		a.inOrder(t, before...)
		for _, b := range before {
			a.stoodAside(b, 1)
		}
	})
	_, t := a.lead()
	before := a.queues(2)
	_, heir := a.queue()
	behind := a.queues(1)
	first := before[0].stepsAside()
	done, _ := a.transfer(t.Transfer, heir.c.id)
	first.reached(before[0].c.id + " steps aside")
	heir.withdraws()
	a.Refused("Transfer to one that has gone", arrives(a, "Transfer returns", done), elector.ErrNoCandidate)
	first.release()
	a.stays(t)
	for _, b := range append(before, behind...) {
		a.stoodAside(b, 0)
	}
	a.inOrder(t, append(before, behind...)...)
}

func transferStuck(a *arena) {
	c, t := a.lead()
	before := a.queues(2)
	_, heir := a.queue()
	stuck := before[0].stepsAside()
	done, giveUp := a.transfer(t.Transfer, heir.c.id)
	stuck.reached(before[0].c.id + " steps aside")
	a.Settle()
	giveUp()
	err := arrives(a, "Transfer returns", done)
	a.Refused("Transfer that is given up", err, context.Canceled)
	if who := fmt.Sprintf("%q", before[1].c.id); !strings.Contains(err.Error(), who) {
		a.Failf("Transfer's error does not name %s, behind which the heir stands: %v", who, err)
	}
	a.holds(t)
	stuck.release()
	a.Settle()
	// Whoever comes to stand behind the leader now finds no heir named there.
	_, last := a.queue()
	a.resign(t)
	a.close(c)
	a.allLead(append(before, heir, last))
	a.stoodAside(before[1], 0)
}

func transferTwice(a *arena) {
	_, t := a.lead()
	bids := a.queues(4)
	for _, b := range []*bid{bids[2], bids[3], bids[1]} {
		done, _ := a.transfer(t.Prepare, b.c.id)
		a.Must("Prepare", arrives(a, "Prepare returns", done))
		a.holds(t)
	}
	a.holds(bids[1].succeeds(t))
}

func transferUnknown(a *arena) {
	ask := a.asking()
	c, t := a.lead()
	bids := a.queues(2)
	_, gone := a.queue()
	gone.withdraws()
	a.close(gone.c)
	for _, id := range []string{"nobody", c.id, gone.c.id, ""} {
		done, _ := a.transfer(t.Transfer, id)
		a.Refused(fmt.Sprintf("Transfer to %q", id), arrives(a, "Transfer returns", done), elector.ErrNoCandidate)
		if id != "" {
			_, err := ask(elector.Request{To: id})
			a.Refused(fmt.Sprintf("Ask for %q to lead", id), err, elector.ErrNoCandidate)
		}
	}
	_, err := ask(elector.Request{To: strings.Repeat("x", elector.MaxRequest+1)})
	a.Refused("Ask with a name that is too long", err, elector.ErrConfig)
	a.unasked(t)
	a.holds(t)
	for _, b := range bids {
		b.blocked()
		a.stoodAside(b, 0)
	}
	a.resign(t)
	done, _ := a.transfer(t.Transfer, bids[1].c.id)
	a.Refused("Transfer by a term that is over", arrives(a, "Transfer returns", done), elector.ErrDeposed, elector.ErrResigned)
}

func transferRefused(a *arena) {
	ask := a.asking()
	_, t := a.lead()
	_, b := a.queue()
	done, _ := a.transfer(t.Transfer, b.c.id)
	a.Refused("Transfer", arrives(a, "Transfer returns", done), elector.ErrNoTransfer)
	_, err := ask(elector.Request{To: b.c.id})
	a.Refused("Ask for a candidate to lead", err, elector.ErrNoTransfer)
	a.unasked(t)
	a.holds(t)
	b.blocked()
	a.holds(b.succeeds(t))
}

func transferRequest(a *arena) {
	for _, goes := range []bool{false, true} {
		state := "the heir stays"
		if goes {
			state = "the heir goes meanwhile"
		}
		a.in(state, func(a *arena) {
			ask := a.asking()
			c := a.stand()
			j, causes, finish := c.obeys()
			t := j.term()
			before := a.queues(2)
			_, heir := a.queue()
			slow := before[0].stepsAside()
			r := elector.Request{By: "operator", Why: "deploy", To: heir.c.id}
			_, err := ask(r)
			a.Must("Ask", err)
			slow.reached(before[0].c.id + " steps aside")
			a.Settle()
			select {
			case cause := <-causes:
				a.Failf("the ctx of the lead function has ended (%s) before the heir is next", harness.Text(cause))
			default:
			}
			next := heir
			if goes {
				heir.withdraws()
				next = before[0]
			}
			slow.release()
			a.told(causes, elector.ErrAsked)
			a.stays(t)
			next.blocked()
			finish.give(nil)
			a.ends(t, elector.ErrResigned)
			t = next.wins()
			a.unasked(t)
			a.holds(t)
		})
	}
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
	if len(seen) != 4 {
		a.Failf("Candidates lists %+v: four entries tell four candidates apart", all)
	}
	t = a.transfers(t, b1)
	b2.blocked()
	a.holds(a.transfers(t, b2))
}

func transferProclaim(a *arena) {
	ask := a.asking()
	c, t := a.lead()
	before := a.queues(3)
	_, heir := a.queue()
	first := before[0].stepsAside()
	done, _ := a.transfer(t.Prepare, heir.c.id)
	first.reached(before[0].c.id + " steps aside")
	a.speak(t)
	a.ask(ask, t)
	a.hears(t)
	a.speak(t)
	first.release()
	a.Must("Prepare", arrives(a, "Prepare returns", done))
	if l := a.leads(c.e, c); string(l.Value) != string(newValue) {
		a.Failf("the leader's value is %q, want %q", l.Value, newValue)
	}
	a.holds(t)
	a.inOrder(t, append([]*bid{heir}, before...)...)
}

func transferCrash(a *arena) {
	c, t := a.lead()
	before := a.queues(2)
	_, heir := a.queue()
	first := before[0].stepsAside()
	done, _ := a.transfer(t.Transfer, heir.c.id)
	first.reached(before[0].c.id + " steps aside")
	a.expire(c)
	a.ends(t, elector.ErrSessionLost)
	a.Refused("Transfer of a leader whose session is lost", arrives(a, "Transfer returns", done), elector.ErrDeposed, elector.ErrSessionLost)
	a.Until("the leader's entry is gone", func() bool { return len(a.visible()) == 3 })
	first.release()
	a.inOrder(before[0].wins(), before[1], heir)
	a.stoodAside(before[0], 0)
}

func transferUsedUp(a *arena) {
	c, t := a.lead() // the election is founded
	a.resign(t)
	a.close(c)
	a.operator.close()
	a.Must("use up "+a.dir(), a.Service.UseUp(a.dir(), 3))
	_, t = a.lead()
	bids := a.queues(2)
	done, giveUp := a.transfer(t.Prepare, bids[1].c.id) // not Transfer: its Resign may be what is given up
	a.Settle()
	giveUp() // unless the one in between has gone out
	if err := arrives(a, "Prepare returns", done); err != nil {
		a.Refused("Prepare in a directory that is used up", err, context.Canceled)
	}
	a.holds(t)
	a.resign(t)
	a.allLead(bids)
}
