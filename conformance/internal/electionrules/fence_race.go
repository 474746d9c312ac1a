package electionrules

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/history"
)

func fenceRace(a *arena) {
	rounds := 2
	if a.Service.Virtual {
		rounds = 10
	}
	for _, way := range []struct {
		ending
		unheard bool
	}{{resigned, false}, {overthrow, false}, {overthrow, true}} {
		for i := range rounds {
			a.in(fmt.Sprintf("the leader %s, unheard: %v, try %d", way.name, way.unheard, i+1), func(a *arena) {
				c, t := a.lead()
				_, b := a.queue()
				race := startRace(a, t)
				defer race.last()
				arrives(a, "several commits succeed", race.enough)
				var mark backend.Entry // made after the end, if known
				if way.unheard {
					c.freeze()
				}
				if way.cause == elector.ErrDeposed {
					mark = a.depose(t)
				} else {
					way.end(a, c, t)
				}
				race.last()
				led := b.wins()
				if first := a.commit(led, elector.Create(a.own("first"), nil))[0]; !mark.Exists() {
					mark = first
				}
				arrives(a, "all commits of the old term return", race.done)
				a.ends(t, way.cause)
				race.endedBefore(mark)
				a.holds(led)
			})
		}
	}
}

// depose removes the leader's entry, as an operator does, and makes a mark in the same commit.
func (a *arena) depose(t *elector.Term) (mark backend.Entry) {
	seat := a.get(seatOf(a, t).Key)
	a.hist.note("operator deletes %s", seat.Key)
	defer a.hist.During(history.Force, "operator deletes "+seat.Key)()
	return a.made("delete "+seat.Key, backend.Delete(seat), backend.CompareAndSet(a.own("mark"), nil, 0))[1]
}

// endedBefore checks that nothing of the term was done at the mark or after it, and no refused commit at
// all.
func (r *race) endedBefore(mark backend.Entry) {
	r.a.FailIf(r.wrong != nil, "a commit during the end of its term: %v", r.wrong)
	for _, e := range append(r.made, r.a.present(r.unknown...)...) {
		r.a.FailIf(e.Rev >= mark.Rev, "%+v of the old term was written after its end, when %+v was written", e, mark)
	}
	r.a.untouched(r.refused...)
}

// A race is several goroutines that write in a term until it has ended. It collects the results of their
// commits.
type race struct {
	a      *arena
	enough chan struct{} // closed when several have succeeded
	done   chan struct{} // closed when all have returned
	ended  atomic.Bool   // the term is over; a writer that does not hear of it gives up some time

	mu                     sync.Mutex
	made, refused, unknown shelf
	wrong                  error
}

func startRace(a *arena, t *elector.Term) *race {
	r := &race{a: a, enough: make(chan struct{}), done: make(chan struct{})}
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() { r.write(t, i) })
	}
	go func() { writers.Wait(); close(r.done) }()
	return r
}

// last notes that the term is over.
func (r *race) last() { r.ended.Store(true) }

// write makes one entry after the other until a commit fails, or until 2000 have succeeded since the term
// was over. Every second commit also deletes the entry before.
func (r *race) write(t *elector.Term, writer int) {
	const several = 20
	ctx := r.a.within()
	key := func(i int) string { return r.a.own(fmt.Sprintf("w%d-%d", writer, i)) }
	for i, left := 0, 2000; left > 0; i++ {
		if r.ended.Load() {
			left--
		}
		at := backend.Entry{Key: key(i)}
		ops := []elector.Write{elector.Create(at.Key, nil)}
		if i%2 == 1 {
			ops = append(ops, elector.Delete(key(i-1)))
		}
		made, err := t.Commit(ctx, ops...)
		r.mu.Lock()
		switch {
		case err == nil:
			r.made = append(r.made, made[0])
			if len(r.made) == several {
				close(r.enough)
			}
		case errors.Is(err, elector.ErrIndeterminate):
			r.unknown = append(r.unknown, at)
		case errors.Is(err, elector.ErrDeposed):
			r.refused = append(r.refused, at)
		default:
			r.wrong = err
		}
		r.mu.Unlock()
		if err != nil {
			return
		}
	}
}
