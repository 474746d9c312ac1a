package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
)

// promised is what holds in a world.
var promised = Options{Ordered: true, Dense: true, Contexts: true, Bound: 400}

// A world is an election that never was, in which all promises are kept. What is
// recorded of it are intervals around the instants at which things happened.
type world struct {
	*made
	rnd   *rand.Rand
	now   int64
	terms []Event
	log   []string // the register
	put   []Event  // commits, in order of their instants
	ver   uint64
	n     int // commits so far
}

// some lets time pass, 1 to most ticks.
func (w *world) some(most int64) int64 {
	w.now += 1 + w.rnd.Int64N(most)
	return w.now
}

// around returns an interval around now that reaches back no further than from.
func (w *world) around(from int64) (call, ret int64) {
	call = max(from, w.now-w.rnd.Int64N(5))
	return call, w.now + w.rnd.Int64N(3)
}

// newWorld has candidates come, lead one after the other, and write.
func newWorld(seed uint64) *world {
	w := &world{made: newMade(0), rnd: rand.New(rand.NewPCG(seed, seed)), now: 1}
	const candidates = 6
	var arrived []int64
	for i := range candidates { // all wait before the first leads
		from := w.now
		w.some(10)
		call, ret := w.around(from)
		w.enters(fmt.Sprint("c", i), call, ret)
		arrived = append(arrived, call)
		w.some(4)
	}
	for i := range candidates {
		w.some(10)
		w.leads(fmt.Sprint("c", i), uint64(i+1), max(1, arrived[i]-1))
		if i == 2 {
			w.happens(Fault, w.now, w.now+3)
		}
	}
	w.some(10)
	w.ledger(w.now, w.log...)
	w.Until = w.some(20)
	return w
}

func (w *world) leads(who string, token uint64, call int64) {
	heard := w.some(8)
	c := w.wins(who, token, call, heard)
	w.terms = append(w.terms, c)
	for i := range 2 + w.rnd.IntN(4) {
		w.commits(c, i == 0)
		call, ret := w.around(heard)
		w.of(c, Valid, call, ret)
		w.of(c, Context, call, ret)
		w.now = ret
	}
	over := w.some(5)
	w.some(8)
	w.of(c, Context, max(over, w.now-2), w.now).Outcome = Refused
	w.of(c, Valid, max(over, w.now-1), w.now+1).Outcome = Refused
	w.some(4)
	late := w.writes(c, Put, w.value(), 0, 0, w.some(3), w.some(3))
	late.Outcome = Refused
	w.some(3) // now the service gives the seat to another
}

func (w *world) value() string { w.n++; return fmt.Sprint("value ", w.n) }

// commits has a term write once. Some writes are sure to be done and known to be, for
// there are corruptions that need such.
func (w *world) commits(c Event, sure bool) {
	from, at := w.now, w.some(5)
	call, ret := max(from, at-2), at+w.rnd.Int64N(2)
	w.now = ret + 1
	value := w.value()
	done := func(e *Event) {
		w.log, w.put = append(w.log, value), append(w.put, *e)
	}
	outcome := w.rnd.IntN(5)
	if sure {
		outcome = 4
	}
	switch outcome {
	case 0: // unknown, and done
		w.ver++
		e := w.writes(c, Put, value, 0, 0, call, ret)
		e.Outcome = Unknown
		done(e)
	case 1: // unknown, and not done
		w.writes(c, CompareAndSet, value, w.ver+1, 0, call, 0).Outcome = Unknown
	case 2: // refused: it expects what never was
		w.writes(c, CompareAndSet, value, w.ver+7, 0, call, ret).Outcome = Refused
	default:
		w.ver++
		op, expected := Put, uint64(0)
		if w.rnd.IntN(2) == 0 && w.ver > 1 {
			op, expected = CompareAndSet, w.ver-1
		}
		done(w.writes(c, op, value, expected, w.ver, call, ret))
	}
}

// sees tells what is found in it.
func (w *world) sees() (found []Violation) {
	h := w.history()
	found = h.Check(promised)
	if r := h.Linearizable(Options{}).Result; r != porcupine.Ok {
		found = append(found, Violation{"linearizable", string(r)})
	}
	return found
}

// event finds one at random that pick picks.
func (w *world) event(pick func(e *Event) bool) *Event {
	var all []*Event
	for i := range w.Events {
		if pick(&w.Events[i]) {
			all = append(all, &w.Events[i])
		}
	}
	return all[w.rnd.IntN(len(all))]
}

// last is the last reading at which a term was valid.
func (w *world) last(c Event) *Event {
	var last *Event
	for i := range w.Events {
		if e := &w.Events[i]; e.Kind == Valid && e.Term == c.ID && e.Outcome == OK {
			last = e
		}
	}
	return last
}

func kind(k Kind, o Outcome) func(*Event) bool {
	return func(e *Event) bool { return e.Kind == k && e.Outcome == o }
}

// corruptions are each a promise that is broken, once.
var corruptions = map[string]func(w *world){
	"a term is valid until the next has been": func(w *world) {
		i := w.rnd.IntN(len(w.terms) - 1)
		next := w.last(w.terms[i+1])
		e := w.last(w.terms[i])
		e.Call, e.Return = next.Call, next.Call+1
	},
	"a term is valid at the end of all": func(w *world) {
		e := w.last(w.terms[w.rnd.IntN(len(w.terms))])
		e.Call, e.Return = w.Until, w.Until+1
	},
	"two tokens are exchanged": func(w *world) {
		i := w.rnd.IntN(len(w.terms) - 1)
		j := i + 1 + w.rnd.IntN(len(w.terms)-i-1)
		a, b := &w.Events[w.terms[i].ID-1], &w.Events[w.terms[j].ID-1]
		a.Token, b.Token = b.Token, a.Token
	},
	"a token repeats": func(w *world) {
		i := w.rnd.IntN(len(w.terms) - 1)
		w.Events[w.terms[i+1].ID-1].Token = w.terms[i].Token
	},
	"a token is left out": func(w *world) { w.Events[w.terms[len(w.terms)-1].ID-1].Token++ },
	"a token is none":     func(w *world) { w.event(kind(Campaign, OK)).Token = 0 },
	"two come in disorder": func(w *world) {
		var all []*Event
		for i := range w.Events {
			if w.Events[i].Kind == Enter {
				all = append(all, &w.Events[i])
			}
		}
		i := w.rnd.IntN(len(all) - 2)
		first, second := all[i], all[i+2] // those next to each other may have come at once
		first.Candidate, second.Candidate = second.Candidate, first.Candidate
		for _, c := range w.terms { // who has come earlier has campaigned earlier
			w.Events[c.ID-1].Call = 1
		}
	},
	"a late write is done": func(w *world) { w.event(kind(Commit, Refused)).Outcome = OK },
	"a value is lost":      func(w *world) { w.drop(w.place()) },
	"a value is there twice": func(w *world) {
		l, i := w.event(kind(Ledger, OK)), w.place()
		l.Values = slices.Insert(slices.Clone(l.Values), i, l.Values[i])
	},
	"a value is nobody's": func(w *world) {
		l := w.event(kind(Ledger, OK))
		l.Values = append(slices.Clone(l.Values), "whose?")
	},
	"a refused value is there": func(w *world) {
		l := w.event(kind(Ledger, OK))
		l.Values = append(slices.Clone(l.Values), w.event(kind(Commit, Refused)).Writes[0].Value)
	},
	"two values change places": func(w *world) {
		l := w.event(kind(Ledger, OK))
		l.Values = slices.Clone(l.Values)
		i := w.place()
		j := w.place()
		for j == i {
			j = w.place()
		}
		l.Values[i], l.Values[j] = l.Values[j], l.Values[i]
	},
	"nobody leads after a fault": func(w *world) {
		w.add(Event{Kind: Fault, Call: w.Until, Return: w.Until + 1})
		w.add(Event{Kind: Campaign, Candidate: "c", Election: "/e", Call: 1, Outcome: Unknown})
		w.Until += 1000
	},
}

// place is one in the ledger, of a commit that is known to be done.
func (w *world) place() int {
	for {
		if i := w.rnd.IntN(len(w.put)); w.put[i].Outcome == OK {
			return i
		}
	}
}

func (w *world) drop(i int) {
	l := w.event(kind(Ledger, OK))
	l.Values = slices.Delete(slices.Clone(l.Values), i, i+1)
}

func TestProperty(t *testing.T) {
	const worlds = 200
	first := rand.Uint64()
	for seed := first; seed < first+worlds; seed++ {
		if found := newWorld(seed).sees(); found != nil {
			t.Fatalf("seed %d: found in a sound history: %v", seed, found)
		}
		for name, corrupt := range corruptions {
			w := newWorld(seed)
			corrupt(w)
			if found := w.sees(); found == nil {
				t.Errorf("seed %d: not found: %s", seed, name)
			}
		}
	}
}
