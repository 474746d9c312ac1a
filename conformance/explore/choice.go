package explore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/strategy"
)

// A choice is one thing that may happen next.
type choice struct {
	// label is the choice in a schedule: the candidate's letter, the letter of the call or fault, a
	// number if there are several alike, and "!" for a lost reply or "~" for a late request.
	label string
	by    *candidate // nil: no candidate
	fault bool
	call  *call // nil: not a call
	kind  Fault // of what happens to the candidate, or to its call; 0: nothing
}

// choices returns everything that may happen next: calls first, those of the candidate that acted last
// before the others', then ends of faults, then faults.
func (w *world) choices() []choice {
	w.mu.Lock()
	defer w.mu.Unlock()
	entries := w.entries()
	var calls, ends, faults []choice
	for _, c := range w.candidates {
		mine := len(calls)
		calls = append(calls, w.calls(c)...)
		if c == w.last {
			calls = append(slices.Clone(calls[mine:]), calls[:mine]...)
		}
		happens := func(kind Fault) choice { return choice{label: c.String() + string(rune(kind)), by: c, kind: kind} }
		if c.cut && !c.crashed {
			ends = append(ends, happens(back))
		}
		if w.mayExecute(c, entries) {
			ends = append(ends, happens(executes))
		}
		if c.app.unfit && !c.crashed && c.phase != finished {
			ends = append(ends, happens(fitAgain))
		}
		for _, kind := range w.cfg.Kinds {
			if w.mayGoWrong() && w.mayFail(c, kind, entries) {
				f := happens(kind)
				f.fault = true
				faults = append(faults, f)
			}
		}
	}
	for _, kind := range []Fault{LoseReply, Late} {
		if !w.mayGoWrong() || !slices.Contains(w.cfg.Kinds, kind) {
			continue
		}
		for _, ch := range calls {
			if ch.isWrite() {
				ch.label, ch.kind, ch.fault = ch.label+string(rune(kind)), kind, true
				faults = append(faults, ch)
			}
		}
	}
	if w.catchUp != nil {
		ends = append(ends, choice{label: caughtUp})
	}
	if w.mayLag() {
		faults = append(faults, choice{label: lagging, fault: true})
	}
	if !w.next(entries).IsZero() || len(calls)+len(ends) == 0 && w.mayWait() {
		ends = append(ends, choice{label: passing})
	}
	return slices.Concat(calls, ends, faults)
}

func labels(of []choice) (all []string) {
	for _, ch := range of {
		all = append(all, ch.label)
	}
	return all
}

// find returns the choice with this label.
func (w *world) find(label string) (choice, bool) {
	all := w.choices()
	if i := slices.IndexFunc(all, func(ch choice) bool { return ch.label == label }); i >= 0 {
		return all[i], true
	}
	return choice{}, false
}

// mayGoWrong reports whether another fault may happen.
func (w *world) mayGoWrong() bool { return w.faults < w.cfg.Faults && !w.calm }

// mayLag reports whether a server that is behind may make a difference.
func (w *world) mayLag() bool {
	return w.catchUp == nil && w.faults+1 < w.cfg.Faults && !w.calm && slices.Contains(w.cfg.Kinds, Lag) &&
		slices.ContainsFunc(w.candidates, func(c *candidate) bool { return !c.crashed && c.phase != finished })
}

// mayWait reports whether a candidate may be waiting for a timer of its own.
func (w *world) mayWait() bool {
	return !w.idle && slices.ContainsFunc(w.candidates, func(c *candidate) bool { return !c.crashed && c.phase != finished })
}

// calls returns the calls of a candidate that can be released.
func (w *world) calls(c *candidate) (all []choice) {
	for _, k := range w.parked {
		if k.by != c || c.crashed || c.cut && k.kind != callWin || w.isForced(k) {
			continue
		}
		all = append(all, choice{by: c, call: k})
	}
	// Not in the order in which they came, because two goroutines may come in any order.
	slices.SortStableFunc(all, func(a, b choice) int {
		return cmp.Or(cmp.Compare(a.call.kind, b.call.kind), cmp.Compare(a.call.text, b.call.text), cmp.Compare(a.call.is, b.call.is))
	})
	for n := range all {
		all[n].label = string([]byte{c.letter, all[n].call.kind})
		if n > 0 && all[n].call.kind == all[n-1].call.kind {
			all[n].label += fmt.Sprint(n + 1)
		}
	}
	return all
}

// mayFail reports whether a fault makes a difference to a candidate now.
func (w *world) mayFail(c *candidate, kind Fault, entries []backend.Entry) bool {
	if c.crashed || c.phase == finished || c.session == nil {
		return false
	}
	t := c.term()
	switch kind {
	case Expire, Revoke:
		return !c.cut && c.session.State() == backend.Live && !w.revoked(c.session)
	case Suspend, Crash:
		return !c.cut && c.session.State() == backend.Live
	case Cancel:
		return c.phase == campaigning && !c.cancelled
	case Resign:
		return c.phase == leading && t.Context().Err() == nil
	case Ask, AskTo:
		return c.phase == leading && t.Context().Err() == nil && !t.asked && w.svc.Entry(t.claim.Key).Rev == t.claim.Rev &&
			(kind == Ask || w.transfers() && w.lastBut(c, entries) != nil)
	case Designate:
		return w.designates() && w.designated != c
	case Delete:
		return w.entry(c, entries).Exists()
	case Unfit:
		return !c.app.unfit && (c.phase == campaigning && !c.cancelled || c.phase == leading)
	}
	return false
}

func (w *world) designates() bool {
	_, ok := w.cfg.Strategy().(strategy.Designator)
	return ok
}

func (w *world) transfers() bool {
	_, ok := w.cfg.Strategy().(transferrer)
	return ok
}

// lastBut returns the candidate with the youngest entry, except the leader, or nil.
func (w *world) lastBut(leader *candidate, entries []backend.Entry) (last *candidate) {
	var rev uint64
	for _, e := range entries {
		if by := w.owners[e.Session].by; by != nil && by != leader && e.Rev > rev {
			last, rev = by, e.Rev
		}
	}
	return last
}

// mayExecute reports whether the companion of a candidate's process may act, and whether that makes a
// difference.
func (w *world) mayExecute(c *candidate, entries []backend.Entry) bool {
	most := 1
	if w.cfg.companion.again {
		most = 2
	}
	switch dead := c.crashed || w.cfg.companion.stopped && c.cut; {
	case !dead || c.executed == most:
		return false
	case w.cfg.companion.again:
		return true
	}
	of := w.executed(c)
	return w.entry(of, entries).Exists() ||
		slices.ContainsFunc(w.late, func(r lateRequest) bool { return r.by == of && w.svc.Knows(r.session.ID()) })
}

// executed returns the candidate whose wills the companion of c executes.
func (w *world) executed(c *candidate) *candidate {
	if !w.cfg.companion.another {
		return c
	}
	i := slices.Index(w.candidates, c)
	return w.candidates[(i+1)%len(w.candidates)]
}

// entry returns the candidate's oldest entry.
func (w *world) entry(c *candidate, entries []backend.Entry) (oldest backend.Entry) {
	for _, e := range entries {
		if w.owners[e.Session].by == c && (!oldest.Exists() || e.Rev < oldest.Rev) {
			oldest = e
		}
	}
	return oldest
}

// expiry returns when the clock does something to a session: its window ends, and then the service drops
// its entries; or a heartbeat reports that it was revoked. Zero means never.
func (w *world) expiry(s *backend.Session, entries []backend.Entry) time.Time {
	owns := slices.ContainsFunc(entries, func(e backend.Entry) bool { return e.Session == s.ID() })
	switch {
	case s.State() == backend.Suspended:
		return s.Deadline()
	case s.State() == backend.Lost && owns:
		return s.Deadline().Add(margin)
	case s.State() == backend.Live && w.revoked(s):
		return s.Deadline().Add(margin - ttl + ttl/3)
	}
	return time.Time{}
}

// revoked reports whether a session has ended and its process has not heard of it.
func (w *world) revoked(s *backend.Session) bool {
	return s.State() != backend.Lost && !w.svc.Knows(s.ID())
}

// next returns when time brings the next event, or zero if it brings none.
func (w *world) next(entries []backend.Entry) (first time.Time) {
	soonest := func(at time.Time) {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	for _, c := range w.candidates {
		for _, s := range c.sessions {
			soonest(w.expiry(s, entries))
		}
	}
	for _, r := range w.late {
		soonest(r.at)
	}
	return first
}

// isWrite reports whether the call is a commit that writes. A lost read is repeated.
func (ch choice) isWrite() bool { return strings.IndexByte("ncpsd", ch.call.kind) >= 0 }

// do makes the choice happen, returns when all goroutines wait again, and checks the rules.
func (w *world) do(ch choice) {
	held := w.standing()
	w.mu.Lock()
	w.steps = append(w.steps, ch.label)
	if w.tell {
		w.tracef("%-5s %s", ch.label, w.describe(ch))
	}
	w.mu.Unlock()
	if ch.fault {
		w.faults++
	}
	w.idle = false
	done := w.recordFault(ch)
	var before []backend.Entry
	if ch.kind == LoseReply {
		before = w.entries()
	}
	switch {
	case ch.label == passing:
		w.passTime()
	case ch.label == lagging:
		w.lag()
	case ch.label == caughtUp:
		w.catchUp()
		w.catchUp = nil
	case ch.call != nil:
		w.last = ch.by
		if ch.kind == LoseReply {
			w.last.cut = true
			w.last.client.CutReply(nil)
		}
		if ch.kind == Late {
			w.last.client.DelayRequest(nil, lateBy)
			w.late = append(w.late, lateRequest{ch.call, time.Now().Add(lateBy)})
		}
		w.free(ch.call)
	default:
		w.happen(ch.by, ch.kind)
	}
	done()
	w.settle()
	if ch.kind == LoseReply {
		ch.call.applied = !slices.EqualFunc(before, w.entries(), backend.Entry.Same)
	}
	w.look()
	w.check(held)
}

// The letters of choices that are no kinds of Faults.
const (
	back     Fault = 'R' // the end of Suspend and LoseReply
	fitAgain Fault = 'F' // the end of Unfit
	executes Fault = 'W' // the companion's act after Crash
	passing        = "-t"
	lagging        = "-L" // a fault, of no candidate
	caughtUp       = "-U"
)

func (w *world) happen(c *candidate, kind Fault) {
	switch kind {
	case Expire:
		c.client.Expire()
	case Revoke:
		w.mu.Lock()
		for _, e := range w.entries() {
			if w.owners[e.Session].by == c {
				w.deleted[e.Rev] = true
			}
		}
		w.mu.Unlock()
		c.client.Revoke()
	case Suspend:
		c.cut = true
		c.client.Suspend()
	case Crash:
		c.cut, c.crashed = true, true
		c.client.Kill()
	case Cancel:
		c.cancelled = true
		c.cancel()
	case Resign:
		close(c.term().resign)
	case Delete:
		w.mu.Lock()
		e := w.entry(c, w.entries())
		w.deleted[e.Rev] = true
		w.mu.Unlock()
		w.svc.Delete(e.Key)
	case Ask, AskTo:
		w.ask(c, kind)
	case Designate:
		w.designate(c)
	case back:
		c.cut = false
		c.client.Resume()
	case executes:
		w.execute(c)
	case Unfit, fitAgain:
		c.app.becomes(kind == Unfit)
	}
}

// execute makes the companion of a candidate's process act.
func (w *world) execute(c *candidate) {
	c.executed++
	var b backend.Backend = w.svc.Client("companion")
	if w.cfg.Backend != nil {
		if worse, ok := w.cfg.Backend(b).(backend.Executor); ok {
			b = worse.(backend.Backend)
		}
	}
	for _, s := range w.executed(c).sessions {
		will, err := s.Will()
		if err == nil {
			err = backend.Execute(w.ctx, b, will)
		}
		if err != nil {
			w.broken("campaign", "executing the will of %s's session %s failed: %v", c, s.ID(), err)
		}
	}
}

// designate makes the candidate the next to lead, as an operator does.
func (w *world) designate(c *candidate) {
	w.set(func() { w.designated = c })
	b := w.svc.Client("operator")
	if err := election.Designate(w.ctx, b, w.cfg.Strategy(), Election, election.Designation{ID: c.id}); err != nil {
		w.broken("campaign", "designating %s failed: %v", c, err)
	}
}

// ask asks the leader to go, as an operator does.
func (w *world) ask(leader *candidate, kind Fault) {
	r := election.Request{By: "operator"}
	t := leader.term()
	w.set(func() {
		t.asked = true
		if kind == AskTo {
			t.heir = w.lastBut(leader, w.entries())
			r.To = t.heir.id
		}
	})
	b := w.svc.Client("operator")
	_, err := election.Ask(w.ctx, b, w.cfg.Strategy(), Election, r)
	switch {
	case errors.Is(err, elector.ErrAsked), errors.Is(err, elector.ErrNoCandidate): // another request was first, or a candidate has gone
		w.set(func() { t.heir = nil })
	case err != nil:
		w.broken("campaign", "asking %s to go failed: %v", leader, err)
	}
}

// lag makes sessions that are opened from now on begin at the present state.
func (w *world) lag() {
	past := w.entries()
	lists := make(map[string]uint64)
	for _, e := range past {
		if e.Session == "" {
			lists[e.Key] = w.svc.Listing(e.Key).Rev
		}
	}
	w.set(func() { w.past, w.lists = past, lists })
	w.catchUp = w.svc.Lag()
}

// passTime moves the clock to its next event. A state tells times apart by milliseconds, and backoffs
// take microseconds. So that backoffs decide nothing, each move ends later within its millisecond than
// anything that an earlier move started.
func (w *world) passTime() {
	first := w.next(w.entries())
	if first.IsZero() {
		w.idle = true
		time.Sleep(patience)
		return
	}
	w.moves++
	time.Sleep(time.Until(first.Round(time.Millisecond)) + time.Millisecond + time.Duration(w.moves)*20*time.Microsecond)
	w.late = slices.DeleteFunc(w.late, func(r lateRequest) bool { return !time.Now().Before(r.at) })
}

func (w *world) describe(ch choice) string {
	switch ch.label {
	case passing:
		return "time passes"
	case lagging:
		return "the server that opens sessions is behind from now on"
	case caughtUp:
		return "the server that was behind has caught up"
	}
	what := ch.kind.String()
	if ch.call != nil {
		what = ch.call.text
		if ch.kind != 0 {
			what += ", and the " + ch.kind.String()
		}
	}
	return fmt.Sprintf("%s: %s", ch.by, what)
}
