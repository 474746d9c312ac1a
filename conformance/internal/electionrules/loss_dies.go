package electionrules

import (
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// lossProcessDies has a write of the leader's under way as its process dies.
func lossProcessDies(a *arena) {
	for _, companion := range []bool{true, false} {
		state := "its wills are executed"
		if !companion {
			state = "nobody executes its wills"
		}
		a.in(state, func(a *arena) {
			ttl := a.Service.TTL
			c, t := a.lead()
			d, b := a.queue()
			shelf := a.stock(t, "shelf")
			sent := c.client.DelayRequest(backend.OpCompareAndSet, 2*ttl)
			p := a.startCommit(t, elector.CompareAndSet(shelf[0].Key, newValue, shelf[0].Version))
			a.Until("a commit is under way", sent)
			deadline := c.tap.session().Deadline()
			died := time.Now()
			wills := c.client.Kill()
			c.cut = true // its Close cannot be confirmed
			a.hist.note("%s: its process dies", c.id)
			if companion {
				for _, w := range wills {
					a.Must("execute the "+w.String(), backend.Execute(a.within(), d.client.Backend, w))
				}
			}
			next := b.wins()
			switch took := time.Since(died); {
			case companion && took > ttl/2:
				a.Failf("the next leader was elected %v after the process died, and the session timeout is %v", took, ttl)
			case !companion && time.Now().Before(deadline):
				a.Failf("the next leader was elected %v before the deadline of the one that died", time.Until(deadline))
			case next.Token() <= t.Token():
				a.Failf("the next leader has token %d, and the one that died had %d", next.Token(), t.Token())
			}
			a.ends(t, elector.ErrSessionLost)
			_, err := p.result()
			a.Refused("a commit of a process that died", err, elector.ErrIndeterminate)
			time.Sleep(2*ttl + ttl/4) // for what was late to arrive
			a.untouched(shelf...)
			a.holds(next)
		})
	}
}
