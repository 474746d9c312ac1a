package history

import (
	"fmt"
	"maps"
	"slices"

	"github.com/anishathalye/porcupine"
)

// An op is the input of one operation of the model.
type op struct {
	do       action
	who      string
	election string
	term     uint64 // the ID of its Campaign
	token    uint64
	// place is the term's position by token among all terms of its election, or 0. As all recorded terms
	// did begin, "the token must be higher than the last" is equivalent to "the place must be the next",
	// which needs no search through all others.
	place   int
	write   Write
	gone    bool // a look found nothing
	unknown bool // a write may not have been done
}

type action int

const (
	begin      action = iota + 1 // of a term
	finish                       // of a term
	renumber                     // tokens of an election may restart from here, again and again
	renumbered                   // the last restart
	write
	look
	stop // of the recording: unknown writes may count as not done
)

// A seat is the lock of an election.
type seat struct {
	holder      uint64 // the term that holds it, or 0
	token       uint64 // the last
	place       int
	renumbering int // how many operators are renumbering
}

// A state is the state of one partition.
type state struct {
	seats map[string]seat // never changed, only replaced
	register
	stopped bool
}

// A register is what is known about the value of a key.
type register struct {
	known, exists bool
	value         string
	version       uint64 // 0: unknown, but higher than above
	above         uint64
}

// model treats claims as locks with fencing, and keys as registers that accept writes only from the
// holders. Each of the parts is explained separately.
func model(parts [][]porcupine.Operation) porcupine.Model {
	return porcupine.Model{
		Partition: func([]porcupine.Operation) [][]porcupine.Operation { return parts },
		Init:      func() any { return state{} },
		Step:      func(s, in, _ any) (bool, any) { return s.(state).step(in.(op)) },
		Equal: func(a, b any) bool {
			s, o := a.(state), b.(state)
			return s.register == o.register && s.stopped == o.stopped && maps.Equal(s.seats, o.seats)
		},
		DescribeOperation: func(in, _ any) string { return in.(op).String() },
		DescribeState:     func(s any) string { return s.(state).String() },
	}
}

// step does an op, if it is possible in this state.
func (s state) step(o op) (bool, state) {
	at := s.seats[o.election]
	switch o.do {
	case begin:
		if at.holder != 0 || at.renumbering == 0 && o.token <= at.token || o.place != 0 && o.place != at.place+1 {
			return false, s
		}
		at.holder, at.token, at.place = o.term, o.token, o.place
		return true, s.with(o.election, at)
	case finish:
		if at.holder != o.term {
			return false, s
		}
		at.holder = 0
		return true, s.with(o.election, at)
	case renumber:
		at.renumbering++
		return true, s.with(o.election, at)
	case renumbered:
		at.renumbering--
		at.token = 0
		return true, s.with(o.election, at)
	case stop:
		s.stopped = true
		return true, s
	case look:
		found := register{known: true, exists: !o.gone, value: o.write.Value, version: s.version, above: s.above}
		if s.known && (s.exists != found.exists || s.exists && s.value != found.value) {
			return false, s
		}
		s.register = found
		return true, s
	}
	next, can := s.apply(o)
	if can = can && at.holder == o.term; can {
		s.register = next
	}
	// An unknown write need not have been done. If it never was, its place is at the very end, and
	// nowhere else: that leaves fewer orders to try.
	return can || o.unknown && s.stopped, s
}

// with returns the state with another seat.
func (s state) with(election string, at seat) state {
	s.seats = maps.Clone(s.seats)
	if s.seats == nil {
		s.seats = map[string]seat{}
	}
	s.seats[election] = at
	return s
}

// apply does a write.
func (r register) apply(o op) (register, bool) {
	w, next := o.write, register{known: true, exists: true, value: o.write.Value, version: o.write.Version}
	switch w.Op {
	case Create:
		next.version = 1
		return next, !r.known || !r.exists
	case CompareAndSet:
		next.above = w.Expected
		fits := r.exists && w.Expected > r.above && (r.version == 0 || r.version == w.Expected)
		return next, !r.known || fits
	case Delete:
		return register{known: true}, !r.known || r.exists
	case Put:
		next.above = max(r.version, r.above)
		if r.known && !r.exists {
			next.version = 1
		}
	default: // a proclaimed value: it is not under a key
		return r, true
	}
	return next, true
}

// String describes the op.
func (o op) String() string {
	switch o.do {
	case begin:
		return fmt.Sprintf("%s: term %d begins", o.who, o.token)
	case finish:
		return fmt.Sprintf("%s: term %d ends", o.who, o.token)
	case renumber:
		return "tokens may restart"
	case renumbered:
		return "tokens have restarted"
	case stop:
		return "the recording ends"
	case look:
		if o.gone {
			return o.who + ": finds nothing"
		}
		return fmt.Sprintf("%s: finds %q", o.who, o.write.Value)
	}
	what := "proclaim"
	if o.write.Op != "" {
		what = o.write.String()
	}
	if o.unknown {
		what += ", perhaps"
	}
	return fmt.Sprintf("%s in term %d: %s", o.who, o.token, what)
}

// String says who holds the seat and what the register holds.
func (s state) String() string {
	text := ""
	for _, path := range slices.Sorted(maps.Keys(s.seats)) {
		at := s.seats[path]
		who := "nobody leads"
		if at.holder != 0 {
			who = fmt.Sprintf("term %d leads", at.token)
		}
		text += fmt.Sprintf("%s: %s (last token %d)\n", path, who, at.token)
	}
	switch {
	case s.known && s.exists:
		text += fmt.Sprintf("%q, version %d", s.value, s.version)
	case s.known:
		text += "nothing there"
	}
	return text
}
