package electionrules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

var viewRules = []rule{
	promise("view/leader", viewLeader, nil,
		"Leader returns who leads, with value and token, and ErrNoLeader while nobody does. A candidate that arrives late gets the same."),
	promise("view/candidates", viewCandidates, nil,
		"Candidates lists the candidates that stand, with ID and value, in order of succession, and reports which of them leads."),
	promise("view/observe", viewObserve, nil,
		"Observe yields the current leader and then each change: vacancies, new leaders, new values. It ends after an error when its ctx ends or the elector is closed, and without one when the consumer stops."),
	promise("view/observe-founded", viewObserveFounded, needs{"Delete", needKnown},
		"Observe follows an election that is founded after Observe began, then deleted, and founded again."),
	promise("view/observe-lost", viewObserveLost, needs{"Expire", "Suspend"},
		"Observe survives a lost session and a cut link, and yields the current state afterwards."),
	promise("view/no-vacancy", viewNoVacancy, needs{needOrdered, needInLine, needBackend},
		"Leader, Candidates and Observe report no vacancy that never existed, no matter what happens between their reads."),
	promise("view/status", viewStatus, needs{needStatus},
		"Status returns what the elector is doing, with its token, session and leader, without asking the service."),
}

func viewStatus(a *arena) {
	is := func(c *candidate, role elector.Role, token uint64) (s elector.Status) {
		a.Until(fmt.Sprintf("%s's status is %v, with token %d", c.id, role, token), func() bool {
			s = c.e.Status()
			return s.Role == role && s.Token == token && s.IsLeader() == (role == elector.RoleLeading)
		})
		return s
	}
	c := a.stand()
	is(c, elector.RoleIdle, 0)
	b := c.campaign()
	t := b.wins()
	s := is(c, elector.RoleLeading, t.Token())
	a.FailIf(s.Leader.ID != c.id || s.Leader.Token != t.Token() || s.LeaderAsOf.IsZero() || s.Session == "" || s.State != backend.Live || !s.Deadline.After(s.Since),
		"a leader's status is %+v", s)
	next, waiting := a.queue()
	if s = is(next, elector.RoleStanding, 0); s.Session == "" || s.State != backend.Live {
		a.Failf("the status of a waiting candidate is %+v", s)
	}
	a.resign(t)
	is(c, elector.RoleIdle, 0)
	t = waiting.wins()
	is(next, elector.RoleLeading, t.Token())
	a.resign(t)
	a.close(next)
	if s = is(next, elector.RoleClosed, 0); s.State != backend.Lost {
		a.Failf("the status of a closed elector is %+v", s)
	}
}

func viewLeader(a *arena) {
	viewer := a.view()
	none := func(when string) {
		if l, err := a.leader(viewer); err == nil || !l.Vacant() {
			a.Failf("Leader %s returned %+v, error %v; want ErrNoLeader", when, l, err)
		}
	}
	none("before the election was founded")
	got := a.list(viewer)
	a.FailIf(len(got) != 0, "the candidates of an election that was not founded are %q", got)
	c, t := a.lead()
	for range 2 {
		a.sees(viewer, c, t, "value of "+c.id)
		a.resign(t)
		a.vacant(viewer)
		t = c.campaign().wins()
	}
	a.close(c)
	a.vacant(viewer)
	none("after the leader was closed")
	c, t = a.lead()
	a.queue()
	a.sees(a.view(), c, t, "value of "+c.id) // a late candidate sees the same
}

// listsItself checks that a candidate finds itself, and only itself as its own, where it is listed.
func (a *arena) listsItself(c *candidate) {
	a.Until(c.id+" finds itself among the candidates", func() bool {
		all, err := c.e.Candidates(a.within())
		a.Must("Candidates", err)
		n := 0
		for _, one := range all {
			a.FailIf(one.Own != (one.ID == c.id), "%s lists %+v with a wrong Own", c.id, one)
			if one.Own {
				n++
			}
		}
		return n == 1 || !a.cfg.Lists && c != a.bids[0].c
	})
}

func viewCandidates(a *arena) {
	c, t := a.lead()
	viewer := a.view()
	want := []elector.Candidate{{ID: c.id, Value: []byte("value of " + c.id), Leads: true}}
	var last *bid
	for i := range 4 {
		d := a.stand(func(cfg *elector.Config) {
			if a.cfg.ID == nil {
				cfg.ID = fmt.Sprintf("Ünïcode %d/%%", i)
			}
			cfg.Value = []byte{0, 0xff, byte(i)}
		})
		last = d.enters()
		if a.cfg.Lists {
			want = append(want, elector.Candidate{ID: d.id, Value: []byte{0, 0xff, byte(i)}})
		}
	}
	check := func(what string) {
		a.Until(what, func() bool {
			got, err := viewer.Candidates(a.within())
			a.Must("Candidates", err)
			a.hist.note("candidates: %+v", got)
			if !a.cfg.Ordered && len(got) > 0 {
				slices.SortFunc(got[1:], func(x, y elector.Candidate) int { return strings.Compare(x.ID, y.ID) })
			}
			return slices.EqualFunc(got, want, func(x, y elector.Candidate) bool {
				return x.ID == y.ID && string(x.Value) == string(y.Value) && x.Leads == y.Leads && !x.Own
			})
		})
	}
	check("all are listed")
	for _, b := range a.bids {
		a.listsItself(b.c)
	}
	a.proclaim(t, "new")
	want[0].Value = []byte("new")
	check("the leader is listed with its new value")
	if a.cfg.Lists {
		last.withdraws()
		want = want[:len(want)-1]
		check("one that has withdrawn is not listed")
	}
	if a.cfg.Ordered {
		a.resign(t)
		want = want[1:]
		want[0].Leads = true
		check("the successor is listed as the leader")
	}
}

// An observer consumes an Observe on a goroutine of its own.
type observer struct {
	a      *arena
	seen   chan elector.Leader
	err    chan error
	cancel context.CancelFunc
}

func (a *arena) observe(c *candidate) *observer {
	ctx, cancel := context.WithCancel(context.Background())
	c.atEnd(cancel)
	// The buffer is large enough that nothing is skipped.
	o := &observer{a: a, seen: make(chan elector.Leader, 10000), err: make(chan error, 1), cancel: cancel}
	go func() {
		var last error
		for l, err := range c.e.Observe(ctx) {
			if last = err; err != nil {
				continue // it must be the last
			}
			a.hist.note("%s observes %q, token %d, value %q", c.id, l.ID, l.Token, l.Value)
			o.seen <- l
		}
		o.err <- last
		close(o.seen)
	}()
	return o
}

// next returns what Observe yields next.
func (o *observer) next(what string) elector.Leader {
	return arrives(o.a, "Observe yields "+what, o.seen)
}

// vacant expects a vacancy next.
func (o *observer) vacant() {
	l := o.next("a vacancy")
	o.a.FailIf(!l.Vacant() || l.ID != "" || l.Value != nil, "Observe yielded %+v, want a vacancy", l)
}

// leads expects this leader next; with skip, also after other news.
func (o *observer) leads(c *candidate, t *elector.Term, value string, skip bool) {
	for {
		l := o.next(c.id + " with value " + value)
		if l.ID == c.id && l.Token == t.Token() && string(l.Value) == value {
			return
		}
		o.a.FailIf(!skip, "Observe yielded %+v, want %s, token %d, value %q", l, c.id, t.Token(), value)
	}
}

func (o *observer) quiet() {
	o.a.Settle()
	select {
	case l := <-o.seen:
		o.a.Failf("Observe yielded %+v without a change", l)
	default:
	}
}

func viewObserve(a *arena) {
	o := a.observe(a.stand())
	o.vacant()
	c := a.stand()
	var t *elector.Term
	for range 2 {
		t = c.campaign().wins()
		o.leads(c, t, "value of "+c.id, false)
		o.quiet()
		a.proclaim(t, "one")
		o.leads(c, t, "one", false)
		a.proclaim(t, "two")
		o.leads(c, t, "two", false)
		o.quiet()
		a.resign(t)
		o.vacant()
	}
	t = c.campaign().wins()
	o.leads(c, t, "value of "+c.id, false)
	d, b := a.queue()
	o.quiet() // a new candidate that waits is no news
	t = b.succeeds(t)
	o.leads(d, t, "value of "+d.id, true)
	late := a.observe(c)
	late.leads(d, t, "value of "+d.id, !a.Service.Virtual) // a member may be behind
	a.close(d)
	o.vacant()
	late.vacant()
	a.in("it ends", func(a *arena) {
		c := a.stand()
		leader, _ := a.lead()
		a.catchesUp(c)
		o := a.observe(c)
		o.next("the leader")
		o.cancel()
		a.Refused("the end of Observe", arrives(a, "Observe ends", o.err), context.Canceled)

		for l, err := range c.e.Observe(a.within()) {
			a.Must("Observe", err)
			a.FailIf(l.ID != leader.id, "the leader is %+v, want %s", l, leader.id)
			break
		}
		// Several at once, on one elector.
		first, second := a.observe(c), a.observe(c)
		first.next("the leader")
		second.next("the leader")
		first.cancel()
		a.Refused("the end of Observe", arrives(a, "Observe ends", first.err), context.Canceled)
		second.quiet()
		a.close(c)
		a.Refused("the end of Observe", arrives(a, "Observe ends", second.err), elector.ErrClosed)
		for _, err := range c.e.Observe(a.within()) {
			a.Refused("Observe on a closed elector", err, elector.ErrClosed)
		}
	})
}

func viewObserveFounded(a *arena) {
	o := a.observe(a.stand())
	o.vacant()
	o.quiet()
	for range 3 {
		c, t := a.lead()
		o.leads(c, t, "value of "+c.id, true)
		a.delete(a.path)
		a.ends(t, elector.ErrDeposed)
		o.vacant()
		o.quiet()
	}
	_, t := a.lead()
	d, b := a.queue()
	before := a.incarnation()
	a.delete(a.path)
	a.ends(t, elector.ErrDeposed)
	// It may have led in the old election's remains, and then been deposed, too.
	t = b.wins()
	a.Until("the candidate that waited leads in the new election", func() bool {
		if !t.Valid() {
			t = d.campaign().wins()
		}
		return a.seated(t) && a.incarnation() != before
	})
	o.leads(d, t, "value of "+d.id, true)
}

func viewObserveLost(a *arena) {
	viewer := a.stand()
	o := a.observe(viewer)
	c, t := a.lead()
	o.leads(c, t, "value of "+c.id, true)
	for i := range 3 {
		value := fmt.Sprintf("value %d", i)
		switch i {
		case 0:
			viewer.client.Expire()
		case 1:
			a.suspend(viewer)
		case 2:
			a.suspend(viewer)
			a.Until("the observer has lost its session", func() bool {
				s := viewer.tap.session()
				return s == nil || s.State() == backend.Lost
			})
		}
		a.proclaim(t, value)
		a.resume(viewer)
		o.leads(c, t, value, false)
	}
	a.suspend(viewer)
	a.resign(t)
	a.resume(viewer)
	o.vacant()
	o.quiet()
}

func viewNoVacancy(a *arena) {
	c, t := a.lead()
	handOver := func() {
		d, b := a.queue()
		c, t = d, b.succeeds(t)
	}
	viewer := a.stand()
	a.catchesUp(viewer)
	tells := func(isVacant bool, err error) error {
		if err == nil && isVacant {
			return errors.New("nobody leads")
		}
		return err
	}
	asks := map[string]func(ctx context.Context) error{
		"Leader": func(ctx context.Context) error {
			l, err := viewer.e.Leader(ctx)
			return tells(l.Vacant(), err)
		},
		"Candidates": func(ctx context.Context) error {
			all, err := viewer.e.Candidates(ctx)
			return tells(len(all) == 0, err)
		},
		"Observe": func(ctx context.Context) error {
			for l, err := range viewer.e.Observe(ctx) {
				return tells(l.Vacant(), err)
			}
			return errors.New("it yielded nothing")
		},
	}
	for name, ask := range asks {
		looks := viewer.stall(gets(a.seat().Key))
		answer := a.begin(name, ask)
		looks.reached(name + " reads the leader's entry")
		old := a.seat().Key
		handOver() // to a candidate that was not there when the viewer listed the candidates
		looks.release()
		answer.must()           // somebody has led all the time
		a.seesGone(viewer, old) // otherwise the next call may read that entry first
	}
	o := a.observe(viewer)
	o.leads(c, t, "value of "+c.id, true)
	for range 3 {
		handOver()
		for {
			l := o.next(c.id)
			a.FailIf(l.Vacant(), "Observe yielded a vacancy between two leaders, though the second had waited for the first")
			if l.ID == c.id && l.Token == t.Token() {
				break
			}
		}
	}
}
