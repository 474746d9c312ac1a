package electionrules

import (
	"context"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

func fenceLate(a *arena) {
	c, t := a.lead()
	a.speak(t)
	s := a.stock(t, "shelf")
	delay := a.Service.TTL / 2
	giveUp := func(what string, kind backend.OpKind, write func(ctx context.Context) error) {
		sent := c.client.DelayRequest(kind, delay)
		p := a.begin(what, write)
		a.Until(what+" is under way", sent)
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
	time.Sleep(delay + a.Service.TTL/4) // for what was late to be done
	a.seen(want...)
	a.holds(t)
}
