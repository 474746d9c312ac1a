package electionrules

import (
	"errors"

	"github.com/elector-go/elector/backend"
)

func dataUsedUp(a *arena) {
	old := a.usedUp(3)
	_, t := a.lead()
	inside, outside := a.queues(2), []*bid{}
	for range 3 {
		b := a.stand().campaign()
		outside = append(outside, b)
		if !a.lacks(needHooks) {
			a.Until(b.c.id+" says that it has to wait", b.isOutside)
		}
	}
	stay := func() {
		a.stays(t)
		if now := a.dir(); now != old {
			a.Failf("the election has a new directory, %s, while a candidate leads in %s", now, old)
		}
		blocked(append(inside, outside...)...)
	}
	for {
		stay()
		n := len(a.entries())
		a.FailIf(n != 1+len(inside), "the directory that is used up has %d entries, want those of the %d that got in", n, 1+len(inside))
		a.resign(t)
		if len(inside) == 0 {
			break
		}
		t = inside[0].wins()
		inside = inside[1:]
	}
	for len(outside) > 0 {
		t = anyReturns(a, &outside) // they enrol as they come
		a.holds(t)
		if now := a.dir(); now == old {
			a.Failf("%d leads in %s, which is used up", t.Token(), now)
		}
		a.resign(t)
	}
	a.works()
}

// usedUp founds the election, and returns its directory, which takes no more than so many.
func (a *arena) usedUp(left int) (dir string) {
	a.works()
	dir = a.dir()
	a.operator.close()
	a.Must("use up "+dir, a.Service.UseUp(dir, left))
	return dir
}

// isOutside tells whether the campaign has said that the directory takes no more.
func (b *bid) isOutside() bool {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	for _, r := range b.c.log[b.log:] {
		if r.what == isRetry && errors.Is(r.err, backend.ErrUsedUp) {
			return true
		}
	}
	return false
}
