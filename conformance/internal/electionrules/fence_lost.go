package electionrules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
)

func fenceLostAndCut(a *arena) {
	each(a.beside, "%s, and the link comes back in time", writes, func(a *arena, w write) {
		c, t, s, p := a.cutOff(w)
		a.cutBy(p, w, s)
		a.resume(c)
		made, err := p.result()
		a.Must(w.name, err)
		a.effect(w, s, made)
		a.holds(t)
	})
	each(a.beside, "%s, and the link stays cut until the session is lost", writes, func(a *arena, w write) {
		c, t, s, p := a.cutOff(w, a.brief)
		a.unknown(p, w, func() { a.ends(t, elector.ErrSessionLost) })
		_, led := a.lead()
		a.resume(c)
		a.Settle()
		a.onceOrNever(w, s)
		a.holds(led)
	})
	each(a.beside, "%s, and the leader steps down", writes, func(a *arena, w write) {
		c, t, s, p := a.cutOff(w, strict)
		a.unknown(p, w, func() { a.ends(t, elector.ErrSuspended) })
		a.resume(c)
		a.Settle()
		a.onceOrNever(w, s)
	})
}

// cutOff makes a leader commit, and cuts its link by the reply.
func (a *arena) cutOff(w write, set ...func(*elector.Config)) (*candidate, *elector.Term, shelf, *committing) {
	c, t := a.lead(set...)
	a.speak(t)
	s := a.stock(t, "shelf")
	a.operator.look() // opens its session now: the trust window will be running
	c.cut = true
	c.client.CutReply(w.kind)
	return c, t, s, a.startCommit(t, w.ops(s)...)
}

// cutBy waits until the commit has been done and has cut the link.
func (a *arena) cutBy(p *committing, w write, s shelf) {
	was := s[w.changes[0].at]
	a.Until("the commit is done", func() bool { return !a.get(was.Key).Same(was) })
	a.Settle()
	p.pending("its reply is lost and the link is cut")
}

// unknown checks that a commit does not report what it cannot know, and that it gives up when its term
// has ended, not sooner.
func (a *arena) unknown(p *committing, w write, ends func()) {
	ends()
	if a.Service.Virtual {
		a.Settle()
		a.FailIf(!p.returned(), "Commit still blocks after the term has ended")
	}
	_, err := p.result()
	a.Refused(w.name, err, elector.ErrIndeterminate)
	a.isNot(w.name, err, elector.ErrDeposed, elector.ErrConflict, backend.ErrNoEntry)
	a.FailIf(p.held, "Commit gave up while the term was valid: %s", harness.Text(err))
}

// onceOrNever checks that the write was done exactly once or not at all.
func (a *arena) onceOrNever(w write, s shelf) {
	now := a.present(s...)
	if now[w.changes[0].at].Same(s[w.changes[0].at]) {
		a.untouched(s...) // otherwise it was done in part, or is still to come
		return
	}
	made := make([]backend.Entry, len(w.changes))
	for i, c := range w.changes {
		made[i] = now[c.at]
	}
	a.effect(w, s, made)
	a.untouched(now...)
}

func fenceCancel(a *arena) {
	a.in("before it begins", func(a *arena) {
		_, t := a.lead()
		ctx := ended()
		for i, w := range writes {
			s := a.stock(t, fmt.Sprint(i))
			_, err := t.Commit(ctx, w.ops(s)...)
			a.cancelled(t, w, s, err)
		}
		a.Refused("Proclaim", t.Proclaim(ctx, newValue), context.Canceled)
		a.holds(t)
	})
	a.in("while the link is cut", func(a *arena) {
		c, t := a.lead()
		s := a.stock(t, "shelf")
		a.suspend(c)
		queue := a.startAll(t, s)
		queue[0].pending("there is no link")
		for _, p := range queue {
			p.cancel()
		}
		unknown := false
		for i, p := range queue {
			_, err := p.result()
			a.isNot(writes[i].name, err, elector.ErrDeposed, elector.ErrConflict, backend.ErrNoEntry)
			a.Refused(writes[i].name, err, context.Canceled)
			unknown = unknown || errors.Is(err, elector.ErrIndeterminate)
		}
		a.holds(t)
		a.resume(c)
		a.Settle()
		if !unknown {
			a.untouched(s...)
		}
		a.commit(t, elector.Create(a.own("later"), nil))
		a.holds(t)
	})
	each(a.beside, "when it may have been done: %s", writes, func(a *arena, w write) {
		c, t, s, p := a.cutOff(w)
		a.cutBy(p, w, s)
		p.cancel()
		_, err := p.result()
		a.Refused(w.name, err, elector.ErrIndeterminate)
		a.holds(t)
		a.resume(c)
		a.cancelled(t, w, s, err)
		a.holds(t)
	})
}

// cancelled checks the error of a commit whose ctx has ended, and what the commit has done.
func (a *arena) cancelled(t *elector.Term, w write, s shelf, err error) {
	a.isNot(w.name, err, elector.ErrDeposed, elector.ErrConflict, backend.ErrNoEntry)
	a.Refused(w.name, err, context.Canceled)
	// A commit that is answered comes after all that were sent before it.
	a.commit(t, elector.Put(a.own("later"), nil))
	if errors.Is(err, elector.ErrIndeterminate) {
		a.onceOrNever(w, s)
		return
	}
	a.untouched(s...)
}

func fenceLate(a *arena) {
	c, t := a.lead()
	a.speak(t)
	s := a.stock(t, "shelf")
	delay := a.Service.TTL / 2
	giveUp := func(what string, kind backend.OpKind, write func(ctx context.Context) error) {
		sent := c.client.DelayRequest(kind, delay)
		p := a.begin(what, write)
		a.Until(what+" is pending", sent)
		p.cancel()
		a.Refused(what, p.result(), elector.ErrIndeterminate, context.Canceled)
		a.holds(t)
	}
	giveUp("Proclaim", backend.OpUpdate, func(ctx context.Context) error { return t.Proclaim(ctx, []byte("late")) })
	a.speak(t)
	want := a.present(seatOf(a, t))
	giveUp("Delete", backend.OpDelete, func(ctx context.Context) error {
		_, err := t.Commit(ctx, elector.Delete(s[0].Key))
		return err
	})
	want = append(want, a.commit(t, elector.CompareAndSet(s[0].Key, newValue, s[0].Version))...)
	time.Sleep(delay + a.Service.TTL/4) // so that late requests are done
	a.seen(want...)
	a.holds(t)
}
