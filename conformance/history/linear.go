package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/anishathalye/porcupine"
)

// A Linearization is the answer to whether one order of all calls explains what each
// returned: the claims as those of a lock with fencing, and the commits to each key
// as writes to a register that takes them from the holder of that lock only.
type Linearization struct {
	// Result is porcupine.Illegal if there is no such order, and porcupine.Unknown if
	// Options.Patience was over before it was found out.
	Result porcupine.CheckResult

	model porcupine.Model
	info  porcupine.LinearizationInfo
}

// Linearizable looks for that order, for the seat of each election, and for each key
// that was written to. What nobody knows the outcome of may have been done or not,
// and a term may have ended any time after the last sign of it. Reads must be
// linearizable ones, and keys nobody's but the leaders'.
func (h *History) Linearizable(o Options) Linearization {
	l := Linearization{model: model()}
	end := h.end()
	claims, seats := h.seats(end)
	l.Result, l.info = porcupine.CheckOperationsVerbose(l.model, rows(seats), o.Patience)
	if l.Result == porcupine.Ok && !o.OthersWrite {
		// Not before: what is wrong with a seat is wrong with each of its keys, and takes
		// much longer to find out there.
		all := rows(append(seats, h.keys(claims, end)...))
		l.Result, l.info = porcupine.CheckOperationsVerbose(l.model, all, o.Patience)
	}
	return l
}

// Draw writes the page on which Porcupine shows how far it got.
func (l Linearization) Draw(path string) error {
	return porcupine.VisualizePath(l.model, l.info, path)
}

// Draw looks for the order that Linearizable looks for, and writes the page on which
// Porcupine shows how far it got, with faults and what was refused beside it.
func (h *History) Draw(path string, o Options) error {
	l := h.Linearizable(o)
	l.info.AddAnnotations(h.annotations())
	return l.Draw(path)
}

// end is after all events. It is the end of what has not ended.
func (h *History) end() int64 {
	end := h.Until + 1
	for i := range h.Events {
		end = max(end, h.Events[i].Call+1, h.Events[i].Return+1)
	}
	return end
}

// seats returns the claims of each election, and the partitions of the seats.
func (h *History) seats(end int64) (claims map[string][]porcupine.Operation, seats []porcupine.Operation) {
	claims = map[string][]porcupine.Operation{}
	for _, at := range h.elections() {
		claims[at.path] = at.seat(end)
		seats = append(seats, in("seat of "+at.path, claims[at.path])...)
		seats = append(seats, in("seat of "+at.path, at.proclaims())...)
	}
	return claims, seats
}

// keys returns the partitions of the keys that were written to. The claims of those
// who wrote belong to each.
func (h *History) keys(claims map[string][]porcupine.Operation, end int64) (keys []porcupine.Operation) {
	registers := h.registers(end)
	for _, key := range slices.Sorted(maps.Keys(registers)) {
		ops, elections := registers[key], []string(nil)
		for _, o := range ops {
			elections = append(elections, o.Input.(op).election)
		}
		slices.Sort(elections)
		for _, path := range slices.Compact(elections) {
			ops = append(ops, claims[path]...)
		}
		ops = append(ops, operation(op{do: stop, who: "recording"}, end, end))
		keys = append(keys, in(key, ops)...)
	}
	return keys
}

// in puts operations into a partition.
func in(part string, ops []porcupine.Operation) []porcupine.Operation {
	ops = slices.Clone(ops)
	for i := range ops {
		o := ops[i].Input.(op)
		o.part = part
		ops[i].Input = o
	}
	return ops
}

// rows gives each operation the number of a row in the drawing: no two of a row
// overlap.
func rows(ops []porcupine.Operation) []porcupine.Operation {
	type row struct {
		part, who string
		until     int64
	}
	var all []row
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	for i := range ops {
		o := ops[i].Input.(op)
		at := slices.IndexFunc(all, func(r row) bool { return r.who == o.who && (r.part != o.part || r.until < ops[i].Call) })
		if at < 0 {
			at = len(all)
			all = append(all, row{who: o.who})
		}
		all[at].part, all[at].until = o.part, ops[i].Return
		ops[i].ClientId = at
	}
	return ops
}

// seat are the claims: each begins during its campaign, and ends after the last sign
// of it.
func (at *election) seat(end int64) (ops []porcupine.Operation) {
	dense := !slices.ContainsFunc(at.events, func(e *Event) bool { return e.Kind == Renumber })
	byToken := slices.SortedFunc(slices.Values(at.terms), func(a, b *term) int { return cmp.Compare(a.Campaign.Token, b.Campaign.Token) })
	for i, t := range byToken {
		c := t.Campaign
		begins := op{do: begin, who: t.name(), election: at.path, term: c.ID, token: c.Token}
		if dense {
			begins.place = i + 1
		}
		ends := begins
		ends.do = finish
		ops = append(ops, operation(begins, c.Call, c.Return), operation(ends, at.sign(t), end))
	}
	for _, e := range at.events {
		if e.Kind == Renumber {
			until := min(e.until(), end)
			anew := op{do: renumber, who: "operator", election: at.path}
			done := anew
			done.do = renumbered
			ops = append(ops, operation(anew, e.Call, e.Call), operation(done, until, until))
		}
	}
	return ops
}

// sign is the last instant at which the claim of a term had not ended for certain. No
// event tells that it has: the entry of a lost session may live a while after Resign
// has returned.
func (at *election) sign(t *term) int64 {
	last := max(t.Campaign.Call, t.held())
	for _, e := range at.events {
		if e.Kind == Force && e.until() > t.Campaign.Call {
			last = max(t.Campaign.Call, min(last, e.Call)) // its holder may not have known
		}
	}
	for _, c := range t.Calls {
		if c.Kind != Resign && c.done() {
			last = max(last, c.Call)
		}
	}
	return last
}

func operation(o op, call, ret int64) porcupine.Operation {
	return porcupine.Operation{Input: o, Call: call, Return: ret}
}

// proclaims are writes for which nothing but the claim matters.
func (at *election) proclaims() (ops []porcupine.Operation) {
	for _, t := range at.terms {
		for _, c := range t.Calls {
			if c.Kind == Proclaim && c.done() {
				ops = append(ops, operation(op{do: write, who: t.name(), election: at.path, term: t.Campaign.ID, token: c.Token}, c.Call, c.Return))
			}
		}
	}
	return ops
}

// registers are the writes to each key, and the reads of it.
func (h *History) registers(end int64) map[string][]porcupine.Operation {
	ops := map[string][]porcupine.Operation{}
	for i := range h.Events {
		e := &h.Events[i]
		who := named(e, "reader")
		switch {
		case e.Kind == Read && e.Return != 0 && e.Outcome != Unknown:
			o := op{do: look, who: who, write: Write{Key: e.Key, Value: e.Value}, gone: e.Outcome == Refused}
			ops[e.Key] = append(ops[e.Key], operation(o, e.Call, e.Return))
		case e.Kind == Commit && e.Outcome != Refused:
			for _, w := range e.Writes {
				o := op{do: write, who: who, election: e.Election, term: e.Term, token: e.Token, write: w, unknown: !e.done()}
				ret := e.Return
				if o.unknown {
					ret = end + 1
				}
				ops[w.Key] = append(ops[w.Key], operation(o, e.Call, ret))
			}
		}
	}
	return ops
}

// annotations are the events that are no operations.
func (h *History) annotations() (all []porcupine.Annotation) {
	for _, e := range h.Events {
		color := map[Kind]string{Fault: "#f6c7b6", Force: "#f6c7b6", Renumber: "#f6c7b6", Commit: "#dddddd", Proclaim: "#dddddd"}[e.Kind]
		if color == "" || (e.Kind == Commit || e.Kind == Proclaim) && e.Outcome != Refused {
			continue
		}
		end := e.Return
		if end == 0 {
			end = h.Until
		}
		tag := string(e.Kind)
		if e.Candidate != "" {
			tag = named(&e, "") + ", refused"
		}
		all = append(all, porcupine.Annotation{
			Tag: tag, Start: e.Call, End: end, Description: cmp.Or(e.Text, tag), Details: fmt.Sprint(e), BackgroundColor: color,
		})
	}
	return all
}
