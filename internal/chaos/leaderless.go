package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/elector-go/elector/conformance/history"
)

// recovery is what a free seat may stay free: a waiting candidate hears of it, has to connect
// anew perhaps, claims it, and has that confirmed.
const recovery = 3 * time.Second

// A gap is a time in which nobody led.
type gap struct {
	from, to int64
	bound    time.Duration // how long it may have been
}

func (g gap) length() time.Duration { return time.Duration(g.to - g.from) }

// A stretch is a time in which a term was certainly valid.
type stretch struct{ from, to int64 }

// reigns returns when somebody led, in order.
func reigns(h *history.History) []stretch {
	byTerm := map[uint64]*stretch{}
	for _, t := range h.Terms() {
		byTerm[t.ID] = &stretch{t.Return, t.Return}
	}
	for _, e := range h.Events {
		// Valid until then at least, for it only ever ends.
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

// gaps returns when nobody led, from the first term to the end of the campaign.
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

// bound is how long nobody may lead from an instant on; it was until to.
//
// Who led then has left, or is silent: the seat is free after the failover time at the
// latest, and a waiting candidate recovers. A fault that begins before that may keep the
// seat taken, or from being taken:
//
//   - one that makes a candidate silent, by the failover time from its beginning; that is
//     also what one server of several costs who depended on it;
//   - one that makes a candidate slow, until its end;
//   - one that takes the service away, by the failover time from its end, for then all
//     sessions are counted anew. When the service is away is measured, too: an election
//     among the servers is nobody's fault.
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

// extent is until when a fault may keep the seat from being free.
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
