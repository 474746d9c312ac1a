package electionrules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy"
)

func dataForeignChildren(a *arena) {
	_, t := a.lead() // the election is founded
	dir := backend.Parent(a.seat().Key)
	a.resign(t)
	names := []string{
		"foreign", "lock", "_c_6f2b9a-lock-0000000000", "-0000000000", "0000000000", "n_0000000001",
		"x-2147483647", "x--2147483648", "y-99999999999999999999", "…ünïcode-0000000002", "a b-0000000003",
		"e--", "-", "0x0-lock-", "seat-0000000000",
	}
	if !a.cfg.Seat {
		names = append(names, "seat")
	}
	// The keys most like a candidate's are former keys of candidates.
	c, t := a.lead()
	d, b := a.queue()
	for _, e := range a.entries() {
		name := strings.TrimPrefix(e.Key, dir+"/")
		if !a.cfg.Lists {
			continue // only the name of the seat matters there
		}
		names = append(names, name+"0", name+"-", "x"+name)
		if n := len(name); n > 10 && strings.Trim(name[n-10:], "0123456789") == "" {
			names = append(names, name[:n-10]+"2147483647")
			for number := range 10 { // more than anybody would try one by one before starting again
				if like := fmt.Sprintf("%s%010d", name[:n-10], number); like != name {
					names = append(names, like)
				}
			}
		}
	}
	for i, name := range names {
		value := ""
		switch i % 3 {
		case 1:
			value = `{"v":1,"id":"nobody","leads":true}`
		case 2:
			value = "\x00\xff{"
		}
		a.put(dir+"/"+name, value)
	}
	a.put(dir+"/foreign/below-0000000000", "x")
	a.stays(t)
	b.blocked()
	viewer := a.view()
	a.leads(viewer, c)
	want := []string{c.id}
	if a.cfg.Lists {
		want = append(want, d.id)
	}
	a.lists(viewer, want...)
	_, third := a.queue()
	a.resign(t)
	rest := []*bid{b, third}
	t = anyWins(a, &rest)
	a.leads(viewer, winnerOf(a, t))
	t = a.passOn(t, &rest)
	a.resign(t)
	_, t = a.lead() // only foreign children are before it
	for _, name := range names {
		a.delete(dir + "/" + name)
	}
	a.stays(t)
	a.resign(t)
	a.vacant(viewer)
}

// winnerOf returns the candidate that has the term.
func winnerOf(a *arena, t *elector.Term) *candidate {
	for _, b := range a.bids {
		if b.returned() && b.term == t {
			return b.c
		}
	}
	return nil
}

// renamed is a strategy under another name.
type renamed struct {
	strategy.Strategy
	name string
}

func (r renamed) Name() string { return r.name }

func dataMismatch(a *arena) {
	c, t := a.lead()
	other := a.stand(func(cfg *elector.Config) { cfg.Strategy = renamed{cfg.Strategy, "other"} })
	a.refusesAll(other, elector.ErrStrategyMismatch)
	a.stays(t)
	a.leads(c.e, c)
	a.left(1, "where only the leader's may exist")
	a.resign(t)
	a.refusesAll(other, elector.ErrStrategyMismatch) // the record stays
	c.campaign().wins()
}

func dataForeignPath(a *arena) {
	values := []string{
		"hello", "{", "{}", "[]", `"v"`, "null", `{"v":1}`, `{"v":1,"strategy":"` + a.cfg.Strategy.Name() + `"}`,
		`{"v":1,"strategy":"` + a.cfg.Strategy.Name() + `","dir":"../x"}`,
		`{"v":999,"strategy":"` + a.cfg.Strategy.Name() + `","dir":"e1"}`, "\x00\xff",
	}
	c := a.stand()
	for _, value := range values {
		a.put(a.path, value)
		a.hist.note("the path holds %q", value)
		a.refusesAll(c, elector.ErrStrategyMismatch)
		a.stands(a.path, value)
	}
	a.delete(a.path)
	a.seesGone(c, a.path)
	a.holds(c.campaign().wins())
	a.in("the path is the parent of other data", func(a *arena) {
		a.put(a.path+"/other/thing", "x")
		a.holds(a.stand().campaign().wins())
		a.stands(a.path+"/other/thing", "x")
	})
}

// blockSeat puts a foreign entry on the seat of an unordered election.
func (a *arena) blockSeat() (seat string) {
	_, t := a.lead() // the election is founded
	seat = a.seat().Key
	a.resign(t)
	a.put(seat, "foreign")
	return seat
}

// until waits until the candidate's session, which may be a little behind, shows the expected state.
func (c *candidate) until(what string, shows func(ctx context.Context, s *backend.Session) bool) {
	c.a.Until(c.id+" "+what, func() bool {
		ctx := c.a.within()
		_, _ = c.e.Leader(ctx) // so that it has a session
		session := c.tap.session()
		return session == nil || shows(ctx, session) // no session: the elector bypasses the tap
	})
}

// seesGone waits until the candidate sees that key is gone.
func (a *arena) seesGone(c *candidate, key string) {
	c.until("sees that "+key+" is gone", func(ctx context.Context, s *backend.Session) bool {
		_, err := s.Get(ctx, key)
		return errors.Is(err, backend.ErrNoEntry) || errors.Is(err, backend.ErrSessionLost)
	})
}

func dataForeignSeat(a *arena) {
	seat := a.blockSeat()
	c := a.stand()
	c.campaign().fails(elector.ErrStrategyMismatch)
	a.delete(seat)
	a.seesGone(c, seat)
	t := c.campaign().wins()
	next := a.stand()
	a.catchesUp(next)
	b := next.enters()
	a.delete(seat)
	a.put(seat, "foreign") // it may come late, when another already has the seat
	a.ends(t, elector.ErrDeposed)
	if b.returned() || a.get(seat).Session == "" {
		_ = b.result()
	}
	if b.returned() && b.err != nil {
		a.Refused("Campaign", b.err, elector.ErrStrategyMismatch)
	}
	a.delete(seat)
}

// stranger makes, as an operator, an ephemeral entry directly under the election's path, where no
// candidate of this library has one.
func (a *arena) stranger() backend.Entry {
	return a.made("make a stranger", backend.Enqueue(a.path, []byte("stranger")))[0]
}

func (a *arena) goes(stranger backend.Entry) {
	a.operate("discard a stranger", func(ctx context.Context, s *backend.Session) error { return s.Discard(ctx, stranger) })
}

// seesIt waits until the candidate sees an entry.
func (a *arena) seesIt(c *candidate, e backend.Entry) {
	c.until("sees "+e.Key, func(ctx context.Context, s *backend.Session) bool {
		_, err := s.Get(ctx, e.Key)
		return err == nil
	})
}

// catchesUp waits until the candidate sees the current state.
func (a *arena) catchesUp(c *candidate) {
	c.until("has caught up", func(ctx context.Context, s *backend.Session) bool {
		_, err := s.Commit(ctx, []backend.Condition{backend.IfExists(backend.Unknown(a.path))})
		return errors.Is(err, backend.ErrCondition)
	})
}

// occupied checks that the candidate is refused, and leaves no entry.
func (a *arena) occupied(c *candidate, by backend.Entry) {
	_, _ = a.leader(c.e) // which still works
	a.seesIt(c, by)
	before := len(a.entries())
	b := c.campaign()
	b.fails(elector.ErrOccupied)
	a.FailIf(!strings.Contains(b.err.Error(), by.Key), "the error does not name %s: %v", by.Key, b.err)
	n := len(a.entries())
	a.FailIf(n != before, "there were %d entries in the election, and now there are %d", before, n)
}

func dataOccupied(a *arena) {
	a.put(a.path, "") // it may exist as the parent of others
	a.put(a.path+"/notes", "somebody's")
	e := a.stranger()
	c := a.stand()
	a.occupied(c, e)
	record := a.get(a.path)
	a.FailIf(len(record.Value) > 0, "the election was founded although a stranger is there: %q", record.Value)
	a.goes(e)
	a.seesGone(c, e.Key)
	t := c.campaign().wins()

	e = a.stranger()
	other := a.stand()
	a.occupied(other, e)
	a.leads(other.e, c)
	a.holds(t)
	a.resign(t)
	a.occupied(c, e)
	a.goes(e)
	a.seesGone(c, e.Key)
	a.holds(c.campaign().wins())

	a.in("one election is nested in another", func(a *arena) {
		_, t := a.lead()
		_, nested := a.lead(func(cfg *elector.Config) { cfg.Election += "/inner" })
		_, b := a.queue()
		a.holds(b.succeeds(t))
		a.resign(nested)
	})
}

func dataOccupiedLate(a *arena) {
	every := max(a.Service.TTL/4, time.Second)
	looks := 2 * every
	watchful := func(cfg *elector.Config) { cfg.SurveyEvery = every }
	c, t := a.lead(watchful)
	d, b := a.queue(watchful)
	time.Sleep(looks) // they find nothing, and nothing changes
	a.holds(t)
	b.waits()

	e := a.stranger()
	reports := func(c *candidate) int {
		return len(slices.DeleteFunc(c.reports(isOccupied), func(r report) bool {
			return !errors.Is(r.err, elector.ErrOccupied) || !strings.Contains(r.err.Error(), e.Key)
		}))
	}
	for _, c := range []*candidate{c, d} {
		a.Until(c.id+" reports the stranger", func() bool { return reports(c) > 0 })
	}
	a.Until("only the leader's entry is left", func() bool { return len(a.visible()) == 1 })
	a.holds(t)
	b.blocked()
	a.resign(t)
	time.Sleep(looks)
	b.blocked()
	a.goes(e)
	t = b.wins()
	n := reports(d)
	time.Sleep(looks)
	a.holds(t)
	again := reports(d)
	a.FailIf(again > n, "%s reports a stranger that is gone, %d times", d.id, again-n)

	a.in("a leader looks soon after its term has begun", func(a *arena) {
		rarely := func(cfg *elector.Config) { cfg.SurveyEvery = time.Hour }
		_, t := a.lead(rarely)
		d, b := a.queue(rarely)
		e := a.stranger()
		t = b.succeeds(t)
		a.Until(d.id+" reports the stranger", func() bool { return len(d.reports(isOccupied)) > 0 })
		a.holds(t)
		a.goes(e)
	})
}
