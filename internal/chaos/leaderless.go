package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/elector-go/elector/conformance/history"
)

// recovery is how long a free seat may stay free: a waiting candidate hears of it, may have to reconnect,
// claims it, and gets a confirmation.
const recovery = 3 * time.Second

// A gap is a time without a leader.
type gap struct {
	from, to int64
	bound    time.Duration // how long it may last
}

func (g gap) length() time.Duration { return time.Duration(g.to - g.from) }

// A stretch is a time in which a term was certainly valid.
type stretch struct{ from, to int64 }

// reigns returns the times with a leader, in order.
func reigns(h *history.History) []stretch {
	byTerm := map[uint64]*stretch{}
	for _, t := range h.Terms() {
		byTerm[t.ID] = &stretch{t.Return, t.Return}
	}
	for _, e := range h.Events {
		// Valid at least until then: once it has ended it never starts again.
		if s := byTerm[e.Term]; s != nil && e.Kind == history.Valid && e.Outcome == history.OK {
			s.to = max(s.to, e.Call)
		}
	}
	var all []stretch
	for _, s := range byTerm {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b stretch) int { return cmp.Compare(a.from, b.from) })
	return all
}

// gaps returns the times without a leader, from the first term to the end of the campaign.
func gaps(e *evidence) []gap {
	all := reigns(e.history)
	if len(all) == 0 {
		return nil
	}
	for _, n := range e.history.Events {
		if n.Kind == history.Note && n.Text == ended {
			all = append(all, stretch{n.Call, n.Call})
		}
	}
	faults := slices.SortedFunc(slices.Values(slices.Concat(e.faults, e.outages)), func(a, b meeting) int { return cmp.Compare(a.begin, b.begin) })
	var found []gap
	to := all[0].to
	for _, s := range all[1:] {
		if s.from > to {
			found = append(found, gap{to, s.from, bound(to, s.from, faults, e.failover)})
		}
		to = max(to, s.to)
	}
	return found
}

// bound returns how long a gap that begins at from may last. It ended at to.
//
// The last leader has left, or is silent: the seat is free after the failover time at the latest, and a
// waiting candidate recovers. A fault that begins before that may keep the seat taken, or from being taken:
//
//   - one that makes a candidate silent, for the failover time from its beginning; a fault of one server of
//     several does that to the candidates that depend on it;
//   - one that makes a candidate slow, until its end;
//   - one that takes the service away, for the failover time from its end, as all sessions are then counted
//     from scratch. It is also measured when the service is away: the servers may hold an election
//     without a fault.
func bound(from, to int64, faults []meeting, failover failover) time.Duration {
	free := from + int64(failover.at(from, faults))
	for _, f := range faults {
		if f.begin > min(free+int64(recovery), to) {
			break
		}
		free = max(free, f.extent(faults, failover))
	}
	return time.Duration(free-from) + recovery
}

// extent returns until when a fault may keep the seat from being free.
func (f meeting) extent(faults []meeting, failover failover) int64 {
	switch f.kind.effect {
	case silent:
		return f.begin + int64(failover.at(f.begin, faults))
	case slow:
		return f.end
	case away:
		return f.end + int64(failover.at(f.end, faults))
	}
	return f.begin
}
