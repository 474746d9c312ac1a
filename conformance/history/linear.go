package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/anishathalye/porcupine"
)

// A Linearization is the answer to whether one order of all calls explains what each returned: the claims
// as those of a lock with fencing, and the commits to each key as writes to a register that accepts them
// only from the holder of that lock.
type Linearization struct {
	// Result is porcupine.Illegal if there is no such order, and porcupine.Unknown if Options.Patience
	// ended the search.
	Result porcupine.CheckResult

	model porcupine.Model
	info  porcupine.LinearizationInfo
}

// Linearizable searches for that order, for the seat of each election, and for each key that was written
// to. A call with an unknown outcome may have been done or not, and a term may have ended any time after
// the last sign of it. Reads must be linearizable, and only leaders may write the keys.
func (h *History) Linearizable(o Options) Linearization {
	var l Linearization
	end := h.end()
	claims, parts := h.seats(end)
	l.check(parts, o)
	if l.Result == porcupine.Ok && !o.OthersWrite {
		// Not before: a fault of a seat is also a fault of each of its keys, and takes much longer to
		// find there.
		l.check(append(parts, h.keys(claims, end)...), o)
	}
	return l
}

func (l *Linearization) check(parts [][]porcupine.Operation, o Options) {
	rows(parts)
	l.model = model(parts)
	l.Result, l.info = porcupine.CheckOperationsVerbose(l.model, slices.Concat(parts...), o.Patience)
}

// Draw writes the page on which Porcupine shows how far it got.
func (l Linearization) Draw(path string) error {
	return porcupine.VisualizePath(l.model, l.info, path)
}

// Draw searches for the order as Linearizable does, and writes the page on which Porcupine shows how far
// it got, together with faults and refused calls.
func (h *History) Draw(path string, o Options) error {
	l := h.Linearizable(o)
	l.info.AddAnnotations(h.annotations())
	return l.Draw(path)
}

// end returns an instant after all events. It serves as the end of all that has not ended.
func (h *History) end() int64 {
	end := h.Until + 1
	for i := range h.Events {
		end = max(end, h.Events[i].Call+1, h.Events[i].Return+1)
	}
	return end
}

// seats returns the claims of each election, and for each election all operations on its seat.
func (h *History) seats(end int64) (claims map[string][]porcupine.Operation, parts [][]porcupine.Operation) {
	claims = map[string][]porcupine.Operation{}
	for _, at := range h.elections() {
		claims[at.path] = at.seat(end)
		parts = append(parts, slices.Concat(claims[at.path], at.proclaims()))
	}
	return claims, parts
}

// keys returns all operations on each key that was written to, with the claims of its writers.
func (h *History) keys(claims map[string][]porcupine.Operation, end int64) (parts [][]porcupine.Operation) {
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
		parts = append(parts, append(ops, operation(op{do: stop, who: "recording"}, end, end)))
	}
	return parts
}

// rows gives each operation the number of a row in the drawing. A row belongs to the same candidate in
// all parts, and no two operations of a row overlap within a part.
func rows(parts [][]porcupine.Operation) {
	var whose []string
	for _, ops := range parts {
		until := map[int]int64{} // when the last of a row ends
		slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
		for i, o := range ops {
			who, at := o.Input.(op).who, 0
			for at < len(whose) && (whose[at] != who || until[at] >= o.Call) {
				at++
			}
			if at == len(whose) {
				whose = append(whose, who)
			}
			until[at] = o.Return
			ops[i].ClientId = at
		}
	}
}

// seat returns the claims: each begins during its campaign, and ends after the last sign of it.
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
			begun := op{do: renumber, who: "operator", election: at.path}
			done := begun
			done.do = renumbered
			ops = append(ops, operation(begun, e.Call, e.Call), operation(done, until, until))
		}
	}
	return ops
}

// sign returns the last instant at which the claim of a term certainly had not ended. No event says that
// it has: the entry of a lost session may exist for a while after Resign has returned.
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

// proclaims returns writes for which only the claim matters.
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

// registers returns the writes to each key, and the reads of it.
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

// annotations returns the events that are no operations.
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
