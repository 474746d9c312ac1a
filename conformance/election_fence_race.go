package conformance

import (
	"errors"
	"fmt"
	"sync"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

func fenceRace(a *arena) {
	rounds := 2
	if a.svc.Virtual {
		rounds = 10
	}
	for _, way := range []ending{resigned, overthrow, {"lost its entry, unheard", elector.ErrDeposed, func(a *arena, c *candidate, t *elector.Term) {
		c.atEnd(c.tap.freeze())
		overthrow.end(a, c, t)
	}}} {
		for i := range rounds {
			a.in(fmt.Sprintf("the leader %s, try %d", way.name, i+1), func(a *arena) { raceTheEnd(a, way) })
		}
	}
}

// raceTheEnd has several goroutines write while the term ends.
func raceTheEnd(a *arena, way ending) {
	c, t := a.lead()
	_, b := a.queue()
	race := &race{enough: make(chan struct{})}
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() { race.write(a, t, i) })
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	arrives(a, "several commits succeed", race.enough)
	way.end(a, c, t)
	led := b.wins()
	marker := a.commit(led, elector.Create(a.own("marker"), nil))[0]
	arrives(a, "all commits of the old term return", done)
	a.ends(t, way.cause)
	if race.wrong != nil {
		a.failf("a commit beside the end of its term: %v", race.wrong)
	}
	for _, e := range race.made {
		if e.Rev >= marker.Rev {
			a.failf("%s of the old term came after the first commit of the new one: %+v, %+v", e.Key, e, marker)
		}
	}
	a.untouched(race.refused...)
	for _, e := range a.present(race.unknown...) {
		if e.Rev >= marker.Rev {
			a.failf("%+v came after the first commit of the new term: %+v", e, marker)
		}
	}
	a.holds(led)
}

// A race collects what became of commits.
type race struct {
	enough chan struct{} // closed when several have succeeded

	mu                     sync.Mutex
	made, refused, unknown shelf
	wrong                  error
}

// write makes one entry after the other until a commit fails.
func (r *race) write(a *arena, t *elector.Term, writer int) {
	const most, several = 2000, 20
	ctx, cancel := a.within()
	defer cancel()
	for i := 0; i < most; i++ {
		at := backend.Entry{Key: a.own(fmt.Sprintf("w%d-%d", writer, i))}
		made, err := t.Commit(ctx, elector.Create(at.Key, nil))
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
