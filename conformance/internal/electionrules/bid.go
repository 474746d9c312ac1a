package electionrules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/conformance/history"
	"github.com/elector-go/elector/conformance/internal/harness"
	"github.com/elector-go/elector/conformance/kit"
)

// A bid is a pending Campaign.
type bid struct {
	*call
	c     *candidate
	term  *elector.Term
	log   int          // the number of reports before
	atWin meter.Counts // counts when it began the term
}

func (c *candidate) campaign() *bid { return c.campaignIn(context.Background()) }

func (c *candidate) campaignIn(ctx context.Context) *bid {
	b := &bid{c: c}
	c.mu.Lock()
	b.log = len(c.log)
	c.mu.Unlock()
	b.call = c.a.beginIn(ctx, "Campaign of "+c.id, func(ctx context.Context) (err error) {
		b.term, err = c.e.Campaign(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		b.atWin = c.atWin
		return err
	})
	c.a.bids = append(c.a.bids, b)
	c.atEnd(b.cancel)
	return b
}

// enters starts a Campaign that waits for its turn.
func (c *candidate) enters() *bid {
	b := c.campaign()
	b.waits()
	return b
}

// wins waits until the candidate is elected.
func (b *bid) wins() *elector.Term {
	b.must()
	return b.term
}

// fails waits until Campaign returns an error that matches all of want.
func (b *bid) fails(want ...error) { b.a.Refused(b.what, b.result(), want...) }

// withdraws cancels the campaign.
func (b *bid) withdraws() {
	b.cancel()
	b.fails(context.Canceled)
}

// succeeds makes the leader resign, and waits until the candidate wins.
func (b *bid) succeeds(t *elector.Term) *elector.Term {
	b.a.resign(t)
	return b.wins()
}

// waits waits until the candidate has enrolled and waits for its turn.
func (b *bid) waits() {
	b.rests()
	b.blocked()
}

// rests waits until the candidate waits for its turn, or Campaign has returned.
func (b *bid) rests() {
	a := b.a
	if a.lacks(needStages) || a.Service.Virtual {
		a.Settle()
	}
	if a.lacks(needStages) {
		return
	}
	a.Until(b.c.id+" waits for its turn", func() bool {
		return b.returned() || b.isReady() && (a.lacks(needBackend) || b.c.tap.waiting())
	})
}

// isReady reports whether the last stage that the campaign reported is the wait.
func (b *bid) isReady() bool {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	for i := len(b.c.log) - 1; i >= b.log; i-- {
		if r := b.c.log[i]; r.what == isStage {
			return r.stage.Stage == elector.StageReady && !r.stage.Completed
		}
	}
	return false
}

// blocked checks that Campaign has not returned.
func (b *bid) blocked() {
	if b.returned() {
		b.a.Failf("%s returned (term %v, error %s), but it was not its turn", b.what, b.term != nil, harness.Text(b.err))
	}
}

// blocked checks that none of the Campaigns has returned.
func blocked(bids ...*bid) {
	for _, b := range bids {
		b.blocked()
	}
}

// lead makes a candidate that leads.
func (a *arena) lead(set ...func(*elector.Config)) (*candidate, *elector.Term) {
	return a.leadIn(a.process(), set...)
}

func (a *arena) leadIn(at *kit.Client, set ...func(*elector.Config)) (*candidate, *elector.Term) {
	c := a.standIn(at, set...)
	return c, c.campaign().wins()
}

// queue makes a candidate that waits.
func (a *arena) queue(set ...func(*elector.Config)) (*candidate, *bid) {
	return a.queueIn(a.process(), set...)
}

func (a *arena) queueIn(at *kit.Client, set ...func(*elector.Config)) (*candidate, *bid) {
	c := a.standIn(at, set...)
	return c, c.enters()
}

// queues makes n candidates that wait.
func (a *arena) queues(n int) (bids []*bid) {
	for range n {
		_, b := a.queue()
		bids = append(bids, b)
	}
	return bids
}

// ends waits until the term is over and checks the cause.
func (a *arena) ends(t *elector.Term, cause error) {
	arrives(a, fmt.Sprintf("term %d ends with %q", t.Token(), cause), t.Context().Done())
	got := context.Cause(t.Context())
	a.FailIf(!errors.Is(got, cause), "term %d ended with %s, want %q", t.Token(), harness.Text(got), cause)
	a.FailIf(t.Valid(), "Valid of term %d is true after it ended", t.Token())
}

// holds checks that the term has not ended.
func (a *arena) holds(t *elector.Term) {
	cause, valid := context.Cause(t.Context()), t.Valid()
	a.FailIf(cause != nil || !valid, "term %d is over: cause %s, valid %v", t.Token(), harness.Text(cause), valid)
}

// stays lets what is on its way arrive, and then checks that the term has not ended.
func (a *arena) stays(t *elector.Term) {
	a.Settle()
	a.holds(t)
}

// resign resigns and waits for the confirmation.
func (a *arena) resign(t *elector.Term) {
	a.Must(fmt.Sprintf("Resign of term %d", t.Token()), t.Resign(a.within()))
	a.ends(t, elector.ErrResigned)
}

// close closes a candidate, and waits for the confirmation.
func (a *arena) close(c *candidate) {
	began := time.Now()
	a.Confirmed("Close of "+c.id, began, c.real.Close(a.within()))
}

// expire ends the candidate's sessions in the service.
func (a *arena) expire(c *candidate) {
	a.hist.note("%s: its sessions are expired", c.id)
	defer a.hist.During(history.Force, "the sessions of "+c.id+" are expired")()
	c.client.Expire()
}

func (a *arena) suspend(c *candidate) {
	a.hist.note("%s: its link is cut", c.id)
	for _, other := range a.candidates {
		other.cut = other.cut || other.client == c.client
	}
	c.client.Suspend()
}

func (a *arena) resume(c *candidate) {
	a.hist.note("%s: its link is back", c.id)
	c.client.Resume()
}

// freeze holds back notices of changes from the candidate.
func (a *arena) freeze(c *candidate) (thaw func()) {
	a.hist.note("%s: notices are held", c.id)
	return c.atEnd(c.client.HoldWakeups())
}

// works checks that the election still works: a newcomer is elected at once if nobody stands before it.
// It resigns again.
func (a *arena) works() {
	c, t := a.lead()
	a.resign(t)
	a.close(c)
}
