package electionrules

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/elector-go/elector"
)

var closeRules = []rule{
	promise("close/any-time", closeAnyTime, nil,
		"Close works at any time, any number of times, and with a ctx that has ended: the term or campaign ends with ErrClosed, the next candidate leads long before a timeout, the entry is gone, and all later calls are refused."),
	promise("close/race", closeRace, nil,
		"Close during a Campaign that begins, waits or wins ends the campaign, or its term, and leaves nothing behind."),
	promise("close/out-of-touch", closeOutOfTouch, needs{"Suspend"},
		"Close without a link returns when its ctx ends at the latest, reports that it is not confirmed, and blocks nobody for longer than the session."),
	promise("close/stalled-hook", closeStalledHook, needs{needHooks},
		"Close waits for a hook that has not returned only as long as its ctx allows, and the term ends anyway."),
	promise("config/all-violations", configAll, needs{needConfig},
		"New reports all violations of a Config in one error, each with its field, value and rule."),
	promise("config/duplicate", configDuplicate, needs{needConfig},
		"Two open electors of one process cannot have the same ID in one election. A closed elector frees its ID."),
}

// refusesAll checks that an elector refuses every call.
func (a *arena) refusesAll(c *candidate, want error) {
	ctx := a.within()
	_, err := c.real.Campaign(ctx)
	a.Refused("Campaign", err, want)
	_, err = c.real.Leader(ctx)
	a.Refused("Leader", err, want)
	_, err = c.real.Candidates(ctx)
	a.Refused("Candidates", err, want)
	err = nil
	for _, err = range c.real.Observe(ctx) {
	}
	a.Refused("the end of Observe", err, want)
}

func closeAnyTime(a *arena) {
	a.in("never used", func(a *arena) {
		c := a.stand()
		a.close(c)
		a.close(c)
		a.refusesAll(c, elector.ErrClosed)
	})
	a.in("idle", func(a *arena) {
		c, t := a.lead()
		a.resign(t)
		a.close(c)
		a.ends(t, elector.ErrResigned)
		a.refusesAll(c, elector.ErrClosed)
	})
	a.in("leading", func(a *arena) {
		c, t := a.lead()
		_, b := a.queue()
		a.close(c)
		a.ends(t, elector.ErrClosed)
		next := b.wins()
		a.close(c)
		a.refusesAll(c, elector.ErrClosed)
		a.stays(next)
	})
	a.in("leading, and nobody waits", func(a *arena) {
		c, t := a.lead()
		a.close(c)
		a.ends(t, elector.ErrClosed)
		a.left(0, "after Close has returned")
		a.works()
	})
	a.in("waiting", func(a *arena) {
		_, t := a.lead()
		c, b := a.queue()
		a.close(c)
		b.fails(elector.ErrClosed)
		a.refusesAll(c, elector.ErrClosed)
		a.left(1, "after Close has returned")
		a.holds(t)
	})
	a.in("several times at once", func(a *arena) {
		c, t := a.lead()
		a.atOnce("Close", c.real.Close)
		a.ends(t, elector.ErrClosed)
		a.refusesAll(c, elector.ErrClosed)
	})
	a.in("leading, with a ctx that has ended", func(a *arena) {
		c, t := a.lead()
		_, b := a.queue()
		began := time.Now()
		confirmed := a.Confirmed("Close with a ctx that has ended", began, c.real.Close(ended()))
		a.ends(t, elector.ErrClosed)
		next := b.wins()
		took := time.Since(began)
		a.FailIf(confirmed && took > a.Service.TTL/2, "the next candidate leads only %v after Close", took)
		a.holds(next)
	})
}

func closeRace(a *arena) {
	for i := range 12 {
		a.in(fmt.Sprintf("try %d", i), func(a *arena) {
			var t *elector.Term
			if i%3 == 0 {
				_, t = a.lead()
			}
			c := a.stand()
			if i%4 == 3 {
				a.leader(c.e) // now it has a session
			}
			b := c.campaign()
			a.begin("Close", func(ctx context.Context) error {
				// Not a wait for something: Close must hit the campaign at various points.
				time.Sleep(time.Duration(i) * 300 * time.Microsecond)
				return c.real.Close(ctx)
			}).must()
			want := 0
			if t != nil {
				want = 1
				a.holds(t)
			}
			a.left(want, "after Close has returned")
			_ = b.result()
			if b.err != nil {
				a.Refused("Campaign", b.err, elector.ErrClosed)
			} else {
				a.ends(b.term, elector.ErrClosed)
			}
			a.refusesAll(c, elector.ErrClosed)
		})
	}
}

func closeOutOfTouch(a *arena) {
	a.in("leading", func(a *arena) {
		c, t := a.lead()
		_, b := a.queue()
		a.suspend(c)
		began := time.Now()
		a.FailIf(c.real.Close(a.soon(a.Service.TTL/10)) == nil, "Close returned nil without a link")
		took := time.Since(began)
		a.FailIf(a.Service.Virtual && took > a.Service.TTL/10, "Close took %v, but its ctx ended after %v", took, a.Service.TTL/10)
		a.ends(t, elector.ErrClosed)
		b.wins()
	})
	a.in("waiting", func(a *arena) {
		_, t := a.lead()
		c, b := a.queue()
		_, third := a.queue()
		a.suspend(c)
		_ = c.real.Close(a.soon(a.Service.TTL / 10)) // it may report more than that its session is shut, or not
		b.fails(elector.ErrClosed)
		a.holds(t)
		third.succeeds(t)
	})
	a.in("before it has a session", func(a *arena) {
		c := a.stand()
		a.suspend(c)
		b := c.campaign()
		a.Settle()
		a.close(c)
		b.fails(elector.ErrClosed)
	})
}

func closeStalledHook(a *arena) {
	c, t := a.lead()
	hook := c.holdIn(isEnded)
	_, b := a.queue()
	a.Refused("Close while a hook hangs", c.real.Close(a.soon(a.Service.TTL)), context.DeadlineExceeded)
	a.ends(t, elector.ErrClosed)
	hook.reached("Ended is called")
	b.wins()
	hook.release()
	a.close(c)
}

// configAll tries two Configs. Package elector tries each violation separately.
func configAll(a *arena) {
	var none *tap
	client := a.process()
	for name, x := range map[string]struct {
		cfg  elector.Config
		says []string
	}{
		"all is wrong": {
			elector.Config{Backend: none, Election: "relative", ID: "a\x07", TTL: -1, OnSuspend: 99, RetryMin: -1},
			[]string{"Backend", "Strategy", "Election", "ID", "OnSuspend", "RetryMin"},
		},
		"there is a backend": {
			elector.Config{Backend: client.Backend, Strategy: renamed{a.cfg.Strategy, ""}, TTL: client.Backend.Limits().MaxTTL + 1, SurveyEvery: 1},
			[]string{"Strategy", "Election", "ID", "TTL", "SurveyEvery"},
		},
	} {
		e, err := a.cfg.New(client, x.cfg)
		if err == nil {
			_ = e.Close(context.Background()) // it should not exist; the check below reports it
		}
		a.Refused("New where "+name, err, elector.ErrConfig)
		for _, field := range x.says {
			a.FailIf(!strings.Contains(err.Error(), "Config."+field),
				"the error of New where %s does not name Config.%s: %v", name, field, err)
		}
	}
	a.left(0, "of electors that were refused")
}

func configDuplicate(a *arena) {
	client := a.process()
	ctx := a.within()
	cfg := elector.Config{Backend: client.Backend, Strategy: a.cfg.Strategy, Election: a.path, ID: a.id(7), TTL: a.Service.TTL}
	for range 2 {
		first, err := a.cfg.New(client, cfg)
		a.Must("New", err)
		second, err := a.cfg.New(client, cfg)
		if err == nil {
			_ = second.Close(ctx) // it should not exist; the check below reports it
		}
		a.Refused("New with an ID that an open elector has", err, elector.ErrConfig)
		a.FailIf(!strings.Contains(err.Error(), strconv.Quote(cfg.ID)), "the error does not name the ID: %v", err)
		elsewhere := cfg
		elsewhere.Election += "-other"
		third, err := a.cfg.New(client, elsewhere)
		a.Must("New with the same ID in another election", err)
		a.Must("Close", third.Close(ctx))
		a.Must("Close", first.Close(ctx))
	}
}
