package explore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector/backend"
)

// A choice is one thing that may happen next.
type choice struct {
	// label is the choice in a schedule: the candidate's letter, the letter of the
	// call or fault, a number if there are several alike, and "!" for a lost reply.
	label string
	by    int
	fault bool
	time  bool // time passes, which everything depends on
	footprint
	call *call
}

// A footprint is what a step reads and writes, as keys. Two steps of different
// candidates commute if neither writes what the other reads or writes.
type footprint struct{ reads, writes []string }

// Keys that stand for more than an entry. No path begins without a slash.
const (
	created   = "created"   // the order in which entries are made
	elections = "elections" // the order in which terms begin
	own       = "own"       // all entries of the candidate
)

// below stands for the list of what is enqueued in dir; older for what stands in dir
// now, whatever may still come.
func below(dir string) string { return dir + "/" }
func older(dir string) string { return dir + "//" }

// expand replaces keys that stand for entries by those that stand there now.
func expand(keys []string, of *candidate, owners map[string]owner, entries []backend.Entry) []string {
	var all []string
	for _, key := range keys {
		dir, isOlder := strings.CutSuffix(key, "//")
		if !isOlder {
			dir = strings.TrimSuffix(key, "/")
			if key != own {
				all = append(all, key)
			}
		}
		for _, e := range entries {
			if key == own && owners[e.Session].by == of || key != own && dir != key && backend.Parent(e.Key) == dir {
				all = append(all, e.Key)
			}
		}
	}
	return all
}

// independent tells whether two choices of one moment lead to the same, whichever
// comes first, and neither takes the other away. left is how many faults may come.
func independent(a, b choice, left int) bool {
	if a.by == b.by || a.time || b.time || a.fault && b.fault && left < 2 {
		return false
	}
	return !meet(a.writes, b.writes) && !meet(a.writes, b.reads) && !meet(a.reads, b.writes)
}

func meet(a, b []string) bool {
	return slices.ContainsFunc(a, func(key string) bool { return slices.Contains(b, key) })
}

// choices are all that may happen next: calls first, those of the candidate that went
// last before the others', then what ends faults, then faults.
func (w *world) choices() []choice {
	w.mu.Lock()
	defer w.mu.Unlock()
	entries := w.entries()
	var calls, ends, faults []choice
	passes := false
	for i, c := range w.candidates {
		at := choice{by: i, footprint: footprint{writes: expand([]string{own}, c, w.owners, entries)}}
		mine := len(calls)
		calls = append(calls, w.calls(i, entries)...)
		if c == w.last {
			calls = append(slices.Clone(calls[mine:]), calls[:mine]...)
		}
		passes = passes || !w.next(c, entries).IsZero()
		if c.cut && !c.crashed {
			at.label = c.String() + "R"
			ends = append(ends, at)
		}
		if w.faults < w.cfg.Faults {
			for _, kind := range w.cfg.Kinds {
				if !w.mayFail(c, kind, entries) {
					continue
				}
				f := choice{label: string([]byte{c.letter, byte(kind)}), by: i, fault: true}
				if kind == Expire || kind == Delete {
					f.footprint = at.footprint
				}
				faults = append(faults, f)
			}
		}
	}
	if w.faults < w.cfg.Faults && slices.Contains(w.cfg.Kinds, LoseReply) {
		for _, ch := range calls {
			if strings.IndexByte("ncpsd", ch.call.kind) >= 0 {
				ch.label, ch.fault = ch.label+"!", true
				faults = append(faults, ch)
			}
		}
	}
	if passes {
		ends = append(ends, choice{label: "-t", by: -1, time: true})
	}
	return append(append(calls, ends...), faults...)
}

// calls are those of a candidate that can be let go.
func (w *world) calls(i int, entries []backend.Entry) []choice {
	c := w.candidates[i]
	var all []choice
	for _, k := range w.parked {
		if k.by != c || c.crashed || c.cut && k.kind != callWin || w.isForced(k) {
			continue
		}
		all = append(all, choice{by: i, call: k, footprint: footprint{
			expand(k.reads, c, w.owners, entries), expand(k.writes, c, w.owners, entries),
		}})
	}
	slices.SortStableFunc(all, func(a, b choice) int {
		if a.call.kind != b.call.kind {
			return int(a.call.kind) - int(b.call.kind)
		}
		return strings.Compare(a.call.text, b.call.text)
	})
	for n := range all {
		all[n].label = string([]byte{c.letter, all[n].call.kind})
		if n > 0 && all[n].call.kind == all[n-1].call.kind {
			all[n].label += fmt.Sprint(n + 1)
		}
	}
	return all
}

// mayFail tells whether a fault makes a difference to a candidate now.
func (w *world) mayFail(c *candidate, kind Fault, entries []backend.Entry) bool {
	if c.crashed || c.phase == finished || c.session == nil {
		return false
	}
	t := c.term()
	switch kind {
	case Expire, Suspend, Crash:
		return !c.cut && c.session.State() == backend.Live
	case Cancel:
		return c.phase == campaigning && !c.cancelled
	case Resign:
		return c.phase == leading && t.Context().Err() == nil
	case Delete:
		return w.entry(c, entries).Exists()
	}
	return false
}

// entry is the candidate's oldest one.
func (w *world) entry(c *candidate, entries []backend.Entry) (oldest backend.Entry) {
	for _, e := range entries {
		if w.owners[e.Session].by == c && (!oldest.Exists() || e.Rev < oldest.Rev) {
			oldest = e
		}
	}
	return oldest
}

// next is when something happens to a session that has no heartbeats: its window ends,
// and then the service drops its entries. Zero: nothing will.
func (w *world) next(c *candidate, entries []backend.Entry) (first time.Time) {
	for _, s := range c.sessions {
		var at time.Time
		switch owns := slices.ContainsFunc(entries, func(e backend.Entry) bool { return e.Session == s.ID() }); {
		case s.State() == backend.Suspended:
			at = s.Deadline()
		case s.State() == backend.Lost && owns:
			at = s.Deadline().Add(ttl / 10) // memory's margin
		default:
			continue
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// find returns the choice with this label.
func (w *world) find(label string) (choice, bool) {
	for _, ch := range w.choices() {
		if ch.label == label {
			return ch, true
		}
	}
	return choice{}, false
}

// do has the choice happen, returns when all is quiet again, and looks whether the
// rules hold.
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
	switch {
	case ch.time:
		w.passTime()
	case ch.call != nil:
		w.last = w.candidates[ch.by]
		if ch.fault {
			w.last.cut = true
			w.last.client.CutReply(nil)
		}
		w.free(ch.call)
	default:
		w.happen(w.candidates[ch.by], Fault(ch.label[1]))
	}
	w.settle()
	w.check(held)
}

// back is the end of Suspend and LoseReply, as a choice.
const back Fault = 'R'

func (w *world) happen(c *candidate, kind Fault) {
	switch kind {
	case Expire:
		c.client.Expire()
	case Suspend:
		c.cut = true
		c.client.Suspend()
	case Crash:
		c.cut, c.crashed = true, true
		c.client.Suspend()
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
	case back:
		c.cut = false
		c.client.Resume()
	}
}

// passTime moves the clock to the next thing that it brings.
func (w *world) passTime() {
	entries := w.entries()
	var first time.Time
	for _, c := range w.candidates {
		if at := w.next(c, entries); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	time.Sleep(time.Until(first) + time.Millisecond)
}

func (w *world) describe(ch choice) string {
	switch {
	case ch.time:
		return "time passes"
	case ch.call != nil && ch.fault:
		return fmt.Sprintf("%s: %s, and the reply is lost", w.candidates[ch.by], ch.call.text)
	case ch.call != nil:
		return fmt.Sprintf("%s: %s", w.candidates[ch.by], ch.call.text)
	case Fault(ch.label[1]) == back:
		return fmt.Sprintf("%s: link is back", w.candidates[ch.by])
	}
	return fmt.Sprintf("%s: %v", w.candidates[ch.by], Fault(ch.label[1]))
}
