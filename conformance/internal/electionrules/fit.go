package electionrules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/strategy"
)

var fitRules = []rule{
	promise("fit/waits", fitWaits, needs{needFit, needHooks},
		"A candidate that is not fit from the start has no entry that blocks others, reports that once, and stands when it is fit."),
	promise("fit/withdraws", fitWithdraws, needs{needFit, needHooks},
		"A candidate that becomes unfit while it waits lets the others go first, and stands again when it is fit."),
	promise("fit/win", fitWin, needs{needFit, needHooks, needStages},
		"A candidate that wins when it is no longer fit does not take the win, and the next candidate leads."),
	promise("fit/leading", fitLeading, needs{needFit, needHooks},
		"A leader that becomes unfit asks itself to go, once. Run obeys, the next candidate leads, and the unfit one stands again when it is fit."),
	promise("fit/hangs", fitHangs, needs{needFit, needHooks},
		"A check that hangs has failed when its timeout is over, and no other check begins before it has returned."),
	promise("fit/close", fitClose, needs{needFit, needHooks},
		"Checks run during a campaign or a term, and at no other time. A check that hangs does not keep Close from returning."),
}

var errIll = errors.New("the disk is full")

// A health is the health of an application, set by the rule.
type health struct {
	a              *arena
	every, timeout time.Duration

	mu       sync.Mutex
	why      error
	hang     <-chan struct{} // if not nil, checks hang until it is closed
	begun    int
	answered int
	running  int
	most     int // the highest number of checks at once
}

func (a *arena) health(why error) *health {
	// On a busy machine a check that does not hang must not be treated as one that does.
	return &health{a: a, why: why, every: max(a.Service.TTL/100, 10*time.Millisecond), timeout: a.Patience()}
}

// hanging is health for a check that hangs later: it has failed soon.
func (a *arena) hanging() *health {
	h := a.health(nil)
	h.timeout = max(a.Service.TTL/5, 2*time.Second)
	return h
}

// is makes a candidate use it as its check.
func (h *health) is(cfg *elector.Config) {
	cfg.Fit = elector.Fit{Check: h.check, Every: h.every, Timeout: h.timeout}
}

func (h *health) check(context.Context) error {
	h.mu.Lock()
	h.begun++
	h.running++
	h.most = max(h.most, h.running)
	why, hang := h.why, h.hang
	h.mu.Unlock()
	if hang != nil {
		<-hang // it ignores ctx
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running--
	h.answered++
	return why
}

// becomes changes the application's answer, nil for fit. Checks must be running: it waits until one has
// returned that answer, which the elector may not have heard yet.
func (h *health) becomes(why error) {
	h.a.hist.note("the application becomes fit: %v", why == nil)
	h.mu.Lock()
	h.why = why
	begun := h.begun
	h.mu.Unlock()
	h.a.Until("the application is asked", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.answered > begun
	})
	h.a.Settle()
}

// hangs makes checks hang from now on, until release.
func (h *health) hangs(c *candidate) (release func()) {
	hang := make(chan struct{})
	release = c.atEnd(func() {
		h.mu.Lock()
		h.hang = nil
		h.mu.Unlock()
		close(hang)
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hang = hang
	return release
}

func (h *health) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.begun
}

// rests checks that no more checks begin. On a real service the elector may be about to stop them.
func (h *health) rests(after string) {
	begun := func() int {
		before := h.count()
		time.Sleep(10 * h.every)
		h.a.Settle()
		return h.count() - before
	}
	if !h.a.Service.Virtual {
		h.a.Until("no more checks begin after "+after, func() bool { return begun() == 0 })
		return
	}
	n := begun()
	h.a.FailIf(n > 0, "%d checks have begun after %s", n, after)
}

// aside checks that the candidate has reported n times that it stands aside because it is not fit.
func (c *candidate) aside(n int) {
	c.stoodAside(n, elector.ErrUnfit)
	c.a.Settle()
	c.stoodAside(n, elector.ErrUnfit)
}

func fitWaits(a *arena) {
	h := a.health(errIll)
	c := a.stand(h.is)
	b := c.campaign()
	time.Sleep(5 * h.every)
	c.aside(1)
	b.blocked()
	n := len(a.entries())
	a.FailIf(n > 0 && !is[strategy.UnfitStands](a.cfg.Strategy), "a candidate that is not fit has %d entries", n)
	_, t := a.lead() // nobody is in its way
	_, behind := a.queue()
	t = behind.succeeds(t)
	b.blocked()
	h.becomes(nil)
	b.waits()
	a.holds(b.succeeds(t))
	c.aside(1)
}

func fitWithdraws(a *arena) {
	a.in("others wait behind it", func(a *arena) {
		_, t := a.lead()
		before := len(a.entries())
		h := a.health(nil)
		c, b := a.queue(h.is)
		others := before + 1 // counts the one behind it
		if own := len(a.entries()) - before; own == 0 {
			others = before // waiting candidates have no entry
		}
		_, behind := a.queue()
		h.becomes(errIll)
		c.aside(1)
		if !is[strategy.UnfitStands](a.cfg.Strategy) {
			a.Until("the entry of the candidate that is not fit is gone", func() bool { return len(a.entries()) == others })
		}
		a.holds(t)
		t = behind.succeeds(t)
		b.blocked()
		h.becomes(nil)
		b.waits()
		t = b.succeeds(t)
		a.holds(t)
		ended := a.guarded(t)
		a.resign(t)
		ended()
		c.aside(1)
	})
	a.in("nobody else waits", func(a *arena) {
		_, t := a.lead()
		h := a.health(nil)
		c, b := a.queue(h.is)
		for n := range 3 {
			h.becomes(errIll)
			c.aside(n + 1)
			h.becomes(nil)
			b.waits()
		}
		h.becomes(errIll)
		c.aside(4)
		a.resign(t)
		a.vacant(a.view())
		b.blocked()
		h.becomes(nil)
		a.holds(b.wins())
	})
	a.in("and its campaign is cancelled", func(a *arena) {
		_, t := a.lead()
		h := a.health(nil)
		c, b := a.queue(h.is)
		h.becomes(errIll)
		c.aside(1)
		b.withdraws()
		a.resign(t)
		a.works()
	})
}

func fitWin(a *arena) {
	h := a.health(nil)
	c := a.stand(h.is)
	offered := c.holdAt(completed(elector.StageOffer))
	b := c.campaign()
	offered.reached(c.id + " has made an offer")
	h.becomes(errIll)
	c.aside(1)
	offered.release()
	_, t := a.lead()
	b.blocked()
	a.holds(t)
	h.becomes(nil)
	a.holds(b.succeeds(t))
}

func fitLeading(a *arena) {
	h := a.health(nil)
	c := a.stand(h.is)
	j := c.obeys()
	t := j.term()
	_, b := a.queue()
	h.becomes(errIll)
	j.told(elector.ErrAsked)
	r, _ := t.Request()
	a.FailIf(r.By != c.id || !strings.Contains(r.Why, errIll.Error()), "the leader's request to itself is %v", r)
	a.stays(t)
	b.blocked()
	h.becomes(nil) // this withdraws no request
	h.becomes(errIll)
	if again, asked := t.Request(); !asked || again != r {
		a.Failf("the request was %v, and is now %v", r, again)
	}
	a.holds(t)
	b.blocked()
	j.finish(nil)
	a.ends(t, elector.ErrResigned)
	c.heard(r)
	next := b.wins()
	c.aside(1)
	a.unasked(next)
	a.resign(next)
	a.vacant(a.view())
	h.becomes(nil)
	again := j.term()
	a.unasked(again)
	a.holds(again)
	j.stops()
}

func fitHangs(a *arena) {
	h := a.hanging()
	c, t := a.lead(h.is)
	release := h.hangs(c)
	arrives(a, "a leader whose check hangs is asked to go", t.Asked())
	a.holds(t)
	a.resign(t)
	b := c.campaign()
	c.aside(1)
	a.works()
	time.Sleep(10 * h.every)
	b.blocked()
	release()
	a.holds(b.wins())
	h.mu.Lock()
	defer h.mu.Unlock()
	a.FailIf(h.most > 1, "%d checks have run at once", h.most)
}

func fitClose(a *arena) {
	a.in("the campaign is cancelled", func(a *arena) {
		h := a.health(errIll)
		c := a.stand(h.is)
		h.rests("New")
		b := c.campaign()
		c.aside(1)
		b.withdraws()
		a.Settle()
		h.rests("the campaign")
	})
	a.in("the term ends", func(a *arena) {
		h := a.health(nil)
		_, t := a.lead(h.is)
		before := h.count()
		a.Until("the application of a leader is asked", func() bool { return h.count() > before+2 })
		a.resign(t)
		a.Settle()
		h.rests("the term")
	})
	for _, why := range []error{nil, errIll} {
		a.in(fmt.Sprintf("the elector is closed, fit: %v", why == nil), func(a *arena) {
			h := a.health(why)
			c := a.stand(h.is)
			b := c.campaign()
			if why == nil {
				b.wins()
			} else {
				c.aside(1)
			}
			a.close(c)
			h.rests("Close")
		})
	}
	a.in("a check hangs", func(a *arena) {
		h := a.hanging()
		c, t := a.lead(h.is)
		release := h.hangs(c)
		arrives(a, "a leader whose check hangs is asked to go", t.Asked())
		a.close(c)
		h.rests("Close")
		release()
		h.rests("Close")
	})
}
