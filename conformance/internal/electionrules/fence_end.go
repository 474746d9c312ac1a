package electionrules

import (
	"context"
	"errors"
	"fmt"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// An ending is a way in which a term ends.
type ending struct {
	name  string
	cause error
	end   func(a *arena, c *candidate, t *elector.Term)
}

func (e ending) String() string { return e.name }

var (
	resigned  = ending{"resigned", elector.ErrResigned, func(a *arena, _ *candidate, t *elector.Term) { a.resign(t) }}
	closed    = ending{"was closed", elector.ErrClosed, func(a *arena, c *candidate, _ *elector.Term) { a.close(c) }}
	expired   = ending{"lost its session", elector.ErrSessionLost, func(a *arena, c *candidate, _ *elector.Term) { a.expire(c) }}
	overthrow = ending{"lost its entry", elector.ErrDeposed, func(a *arena, _ *candidate, _ *elector.Term) { a.delete(a.seat().Key) }}
)

var endings = []ending{resigned, closed, expired, overthrow}

// seatOf returns the entry of the term's claim.
func seatOf(a *arena, t *elector.Term) backend.Entry {
	for _, g := range t.Guard().Conditions {
		if g.Entry.Session != "" {
			return g.Entry
		}
	}
	a.Failf("term %d has no condition on an ephemeral entry: %+v", t.Token(), t.Guard().Conditions)
	return backend.Entry{}
}

// deposed checks that a call was refused because its term has ended, and for no other reason.
func (a *arena) deposed(what string, err error, cause ...error) {
	a.Refused(what, err, append(cause, elector.ErrDeposed)...)
	a.isNot(what, err, elector.ErrConflict, backend.ErrNoEntry, elector.ErrIndeterminate)
}

// guarded checks that the conditions of a term hold, and returns a check that they no longer hold.
func (a *arena) guarded(t *elector.Term) (ended func()) {
	if a.lacks(needCommit) {
		return func() {}
	}
	conditions := t.Guard().Conditions
	ask := func(ctx context.Context, s *backend.Session) error {
		_, err := s.Commit(ctx, conditions)
		return err
	}
	a.operate("check the conditions of a term that continues", ask)
	return func() {
		a.operate("", func(ctx context.Context, s *backend.Session) error {
			a.Refused("a check of the conditions of a term that has ended", ask(ctx, s), backend.ErrCondition)
			return nil
		})
	}
}

func fenceEnded(a *arena) {
	each(a.in, "the leader %s", endings, func(a *arena, way ending) {
		c, t := a.lead()
		s := a.stock(t, "shelf")
		conditions := t.Guard().Conditions
		at := backend.Entry{Key: a.own("entry")}
		anybody := func(when string, want error) {
			a.operate("a commit under the conditions of a term "+when, func(ctx context.Context, s *backend.Session) error {
				made, err := s.Commit(ctx, conditions, backend.CompareAndSet(at.Key, []byte(when), at.Version))
				if want != nil {
					a.Refused("a commit under the conditions of a term "+when, err, want)
					_, err = s.Commit(ctx, conditions)
					a.Refused("a check of the conditions of a term "+when, err, want)
					return nil
				}
				if err == nil {
					at = made[0]
				}
				return err
			})
		}
		anybody("that continues", nil)
		a.speak(t)
		anybody("that has published a value", nil)
		a.holds(t)
		way.end(a, c, t)
		a.ends(t, way.cause)
		for _, w := range writes {
			_, err := a.tryCommit(t, w.ops(s)...)
			a.deposed(w.name, err, way.cause)
		}
		for _, e := range s {
			_, err := a.tryGet(t, e.Key)
			a.deposed("Get", err, way.cause)
		}
		a.deposed("Proclaim", t.Proclaim(a.within(), newValue), way.cause)
		a.ends(t, way.cause)
		a.untouched(s...)
		t.Guard()
		anybody("that has ended", backend.ErrCondition)
		_, next := a.lead()
		anybody("that another has followed", backend.ErrCondition)
		at = a.untouched(at)[0]
		conditions = next.Guard().Conditions
		anybody("that continues", nil)
		a.holds(next)
	})
}

// A zombie no longer leads, hears nothing of that, and trusts its session.
type zombie struct {
	c     *candidate
	term  *elector.Term
	next  *candidate // its successor
	led   *elector.Term
	seat  backend.Entry // the successor's
	shelf shelf
	thaw  func()
}

func (a *arena) zombie(way ending) *zombie {
	z := &zombie{}
	var b *bid
	z.c, z.term = a.lead()
	z.shelf = a.stock(z.term, "shelf")
	z.next, b = a.queue()
	z.thaw = z.c.freeze()
	way.end(a, z.c, z.term)
	z.led = b.wins()
	z.seat = seatOf(a, z.led)
	return z
}

// harmless checks that the zombie has done nothing to its successor.
func (z *zombie) harmless(a *arena) {
	a.stays(z.led)
	a.untouched(z.shelf...)
	have := a.get(z.seat.Key)
	a.FailIf(have.Rev != z.seat.Rev, "the successor's entry was %+v and is %+v", z.seat, have)
	a.leads(z.next.e, z.next)
	a.commit(z.led, elector.Create(a.own("by-the-successor"), nil))
}

func fenceFrozen(a *arena) {
	publish := write{name: "a proclaimed value"}
	// A client may hear while the write is on its way that its session is over, although the elector
	// cannot. Then the outcome is unknown, and the client knows it at the next try. Only few tries may
	// end like that: the service must refuse the others.
	var midway allowance
	midway.left.Store(int64(len(writes) / 2))
	for _, way := range []ending{overthrow, expired} {
		for _, w := range append([]write{publish}, writes...) {
			a.beside(fmt.Sprintf("it %s, and tries %s", way.name, w.name), func(a *arena) {
				z := a.zombie(way)
				try := func() error {
					if w.changes == nil {
						return z.term.Proclaim(a.within(), newValue)
					}
					_, err := a.tryCommit(z.term, w.ops(z.shelf)...)
					return err
				}
				z.refused(a, way, func() error {
					err := try()
					if errors.Is(err, elector.ErrIndeterminate) && errors.Is(err, elector.ErrSessionLost) && midway.use() {
						err = try()
					}
					return err
				})
			})
		}
	}
	// Later writes of its successor are no fault of the caller.
	each(a.beside, "its successor has done the same before: %s", writes, func(a *arena, w write) {
		z := a.zombie(overthrow)
		ops := w.ops(z.shelf)
		z.shelf = w.after(z.shelf, a.commit(z.led, ops...))
		z.refused(a, overthrow, func() error {
			_, err := a.tryCommit(z.term, ops...)
			return err
		})
	})
}

// refused checks that a zombie's write is refused, twice, and ends its term.
func (z *zombie) refused(a *arena, way ending, try func() error) {
	for range 2 {
		err := try()
		a.deposed("the zombie's write", err, way.cause)
		a.FailIf(z.term.Valid() || z.term.Context().Err() == nil, "the term continues after its write was refused for good")
	}
	a.ends(z.term, way.cause)
	z.harmless(a)
	z.thaw()
	again := z.c.enters()
	a.resign(z.led)
	a.holds(again.wins())
}

func fenceQueued(a *arena) {
	each(a.in, "the link is back before its session is lost: %v", []bool{true, false}, func(a *arena, inTime bool) {
		timeout := a.brief
		if inTime { // an operator ends the term
			timeout = func(*elector.Config) {}
		}
		c, t := a.lead(timeout)
		s := a.stock(t, "shelf")
		next, b := a.queue()
		if inTime { // otherwise it would hear of its own entry first
			c.freeze()
		}
		seat := seatOf(a, t)
		a.suspend(c)
		queue := a.startAll(t, s)
		for _, p := range queue {
			p.pending("there is no link")
		}
		if inTime {
			a.delete(seat.Key)
		}
		led := b.wins()
		a.resume(c)
		for i, p := range queue {
			if _, err := p.result(); !errors.Is(err, elector.ErrIndeterminate) {
				a.deposed(writes[i].name, err)
			}
		}
		a.Settle()
		a.untouched(s...)
		a.holds(led)
		a.leads(next.e, next)
	})
	// Writes above that must read first stop there until the link is back. Here each has read.
	each(a.in, "the link goes when it has read: %s", writes, func(a *arena, w write) { overtaken(a, w, true) })
}

// overtaken moves leadership while a commit is on its way, or, if cut, waits there for the link.
func overtaken(a *arena, w write, cut bool) {
	c, t := a.lead()
	s := a.stock(t, "shelf")
	_, b := a.queue()
	c.freeze() // otherwise it would hear of its own entry first, and its ctx would end
	p, g := a.stall(c, t, commits(w.kind), w.ops(s)...)
	seat := seatOf(a, t)
	if cut {
		a.suspend(c)
		g.release()
		a.Settle()
		p.pending("there is no link")
	}
	a.delete(seat.Key)
	led := b.wins()
	a.commit(led, elector.Create(a.own("by-the-successor"), nil))
	if cut {
		a.resume(c)
	}
	g.release()
	_, err := p.result()
	if !cut || !errors.Is(err, elector.ErrIndeterminate) {
		a.deposed(w.name, err)
	}
	if !cut {
		a.ends(t, elector.ErrDeposed)
	}
	a.Settle()
	a.untouched(s...)
	a.holds(led)
}

// stall stops a commit on its way to the service, or back.
func (a *arena) stall(c *candidate, t *elector.Term, at func(passing) bool, ops ...elector.Write) (*committing, *stop) {
	g := c.stall(at)
	p := a.startCommit(t, ops...)
	g.reached("the commit is on its way")
	return p, g
}

func fenceStalled(a *arena) {
	each(a.in, "leadership moves meanwhile: %s", writes, func(a *arena, w write) { overtaken(a, w, false) })
	each(a.in, "a conflict is reported when the leader has %s", []ending{resigned, overthrow, expired}, func(a *arena, way ending) {
		c, t := a.lead()
		s := a.stock(t, "shelf")
		_, b := a.queue()
		c.freeze()
		p, g := a.stall(c, t, answers(backend.OpCompareAndSet), elector.Create(s[0].Key, newValue))
		way.end(a, c, t)
		b.wins()
		g.release()
		_, err := p.result()
		// ErrConflict would mean that the term continues.
		a.Refused("the commit", err, elector.ErrDeposed, way.cause)
		a.isNot("the commit", err, elector.ErrConflict)
		a.ends(t, way.cause)
	})
	a.in("others of the same term are faster", func(a *arena) {
		c, t := a.lead()
		s := a.stock(t, "shelf")
		for _, at := range []int{0, 2} { // the first exists, the second does not
			put, g := a.stall(c, t, commits(backend.OpCompareAndSet), elector.Put(s[at].Key, newValue))
			sooner := a.commit(t, elector.Put(s[at].Key, newValue))
			g.release()
			made, err := put.result()
			a.Must("a put", err)
			a.FailIf(made[0].Rev != sooner[0].Rev || made[0].Version <= sooner[0].Version, "a put turned %+v into %+v", sooner[0], made[0])
		}
		gone, g := a.stall(c, t, commits(backend.OpDelete), elector.Delete(s[1].Key))
		a.commit(t, elector.Delete(s[1].Key))
		a.commit(t, elector.Create(s[1].Key, newValue))
		g.release()
		left, err := gone.result()
		a.Must("a delete", err)
		a.seen(left...)
		a.holds(t)
	})
}

func fenceOverdue(a *arena) {
	each(a.in, "%s", writes, func(a *arena, w write) {
		c, t := a.lead()
		s := a.stock(t, "shelf")
		c.tap.oversleep()
		_, err := a.tryCommit(t, w.ops(s)...)
		a.Refused(w.name, err, elector.ErrDeposed, elector.ErrSessionLost)
		a.ends(t, elector.ErrSessionLost)
		a.untouched(s...)
	})
}
