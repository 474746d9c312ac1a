package etcd

import "github.com/elector-go/elector/backend"

// mostUnused is how many watches in a row are made ahead in vain.
const mostUnused = 4

// An ahead is a watch on an enqueued entry and the one before it, made before the entry has its place:
// by then it reports what happens from there on, without a read, and without a round trip that anybody
// has to wait for. Nil means none.
type ahead struct {
	r    *registry
	t    *watch
	kept bool
}

// ahead makes one. That costs requests, so it makes none if nobody waits on them, as strategies that
// wait for other things show.
func (r *registry) ahead(own, before string) *ahead {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unused >= mostUnused && r.feeds[feedPath(own)] == nil { // a feed costs nothing more
		return nil
	}
	r.unused++
	t := r.make([]string{own, before}) // in their order: see name
	t.reading <- struct{}{}            // the entry's place brings what exists
	t.spare, t.hidden = true, true
	r.list(t)
	r.run(t)
	return &ahead{r: r, t: t}
}

// keep makes the next Await find the watch. At the revision rev the entry has got its place.
func (a *ahead) keep(own, before backend.Entry, rev int64) {
	if a == nil {
		return
	}
	a.r.merge(a.t, snapshot{own, before}, rev)
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	if a.t.ctx.Err() == nil {
		a.t.hidden = false
		a.r.keep(a.t)
		a.kept = true
	}
}

// end drops a watch that is not kept.
func (a *ahead) end() {
	if a == nil {
		return
	}
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	if !a.kept {
		a.r.unused-- // this does not show whether anybody waits
		a.r.drop(a.t)
	}
	<-a.t.reading
}
