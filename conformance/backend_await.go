package conformance

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/elector-go/elector/backend"
)

func awaitRules() []rule {
	return []rule{
		{
			name: "await/changed-already",
			text: "Await returns at once if an entry is not as known any more: gone, changed, made, or made anew.",
			run:  awaitChanged,
		}, {
			name: "await/wakes",
			text: "Await returns when an entry is deleted, changed or made, whoever does it.",
			run:  awaitWakes,
		}, {
			name: "await/blocks",
			text: "Await blocks while nothing changes, through changes of other entries and for many timeouts, and ends with its context.",
			run:  awaitBlocks,
		}, {
			name: "await/several",
			text: "Await returns what there is of each entry, in the order given.",
			run:  awaitSeveral,
		}, {
			name: "await/in-order",
			text: "Await never shows a later change without the earlier ones of the other entries it was asked for: never the predecessor gone and the own entry there, if the own one went first.",
			run:  awaitInOrder,
		}, {
			name: "await/nothing-missed",
			text: "No change between a read and the Await that follows is missed.",
			run:  awaitNothingMissed,
		}, {
			name: "await/again",
			text: "Await works again after one that was cancelled, and for many that wait for the same entry.",
			run:  awaitAgain,
		}, {
			name: "await/operator",
			text: "An operator's delete of a directory and all in it ends every Await of an entry there.",
			need: []string{"Delete"},
			run:  awaitOperator,
		},
	}
}

func awaitChanged(r *run) {
	s := r.session()
	dir := s.dir("d")
	for _, e := range s.threeKinds(dir) {
		f := s.set(e, "y")
		if got := one(s.await(e)); !got.Same(f) || string(got.Value) != "y" || got.Session != e.Session {
			r.failf("await of %+v, which has changed to %+v, returned %+v", e, f, got)
		}
		s.delete(f)
		if got := one(s.await(f)); got.Exists() || got.Key != f.Key {
			r.failf("await of %+v, which is deleted, returned %+v", f, got)
		}
	}
	absent := backend.Entry{Key: dir + "/seat"}
	seat := s.create(absent.Key, "x")
	if got := one(s.await(absent)); !got.Same(seat) {
		r.failf("await of %s, known to be absent and since made, returned %+v", absent.Key, got)
	}
	s.delete(seat)
	again := s.create(absent.Key, "x")
	if got := one(s.await(seat)); !got.Same(again) {
		r.failf("await of %+v, made anew as %+v, returned %+v", seat, again, got)
	}
}

func awaitWakes(r *run) {
	s, other := r.session(), r.session()
	dir := s.dir("d")
	other.sees(s.get(dir))
	for _, by := range []sess{other, s} {
		for _, e := range by.threeKinds(dir) {
			s.sees(e)
			waiting := s.await(e)
			waiting.blocked("nothing happened")
			f := by.set(e, "y")
			if got := one(waiting); !got.Same(f) || string(got.Value) != "y" {
				r.failf("await of %+v, which became %+v, returned %+v", e, f, got)
			}
			waiting = s.await(f)
			waiting.blocked("nothing happened")
			by.delete(f)
			if got := one(waiting); got.Exists() || got.Key != f.Key {
				r.failf("await of %+v, which was deleted, returned %+v", f, got)
			}
		}
		// Absent: in a directory, and where not even that is there yet.
		for _, key := range []string{dir + "/new", r.key("not-yet-" + by.ID() + "/new")} {
			waiting := s.await(backend.Entry{Key: key})
			waiting.blocked("nothing happened")
			e := by.put(key, "x", 0)
			if got := one(waiting); !got.Same(e) || string(got.Value) != "x" {
				r.failf("await of %s, which was made as %+v, returned %+v", key, e, got)
			}
			by.delete(e)
			s.misses(key)
		}
	}
}

func awaitBlocks(r *run) {
	s, other := r.session(), r.session()
	dir := s.dir("d")
	e := s.enqueue(dir, "x")
	waiting := s.await(e, backend.Entry{Key: dir + "/seat"})
	other.sees(e)
	f := other.enqueue(dir, "y")
	other.set(f, "z")
	other.delete(f)
	other.delete(other.create(dir+"/seat2", "x"))
	waiting.blocked("only other entries changed")
	time.Sleep(2 * r.svc.TTL)
	waiting.blocked("only time passed")
	waiting.stop()
	_, err := waiting.result()
	r.refused("await with a context that ended", err, context.Canceled)
	s.lives()
}

func awaitSeveral(r *run) {
	s, other := r.session(), r.session()
	dir := s.dir("d")
	var known []backend.Entry
	for i := range 4 {
		known = append(known, s.enqueue(dir, fmt.Sprint(i)))
	}
	known = append(known, backend.Entry{Key: dir + "/seat"}, known[0]) // twice the same, too
	for _, i := range []int{2, 1, 3} {
		waiting := s.await(known...)
		waiting.blocked("nothing happened")
		other.sees(known[i])
		other.delete(known[i])
		now := waiting.value()
		if len(now) != len(known) {
			r.failf("await of %d entries returned %d", len(known), len(now))
		}
		for k, e := range now {
			switch {
			case e.Key != known[k].Key:
				r.failf("await of %q returned %q", keys(known), keys(now))
			case k == i && e.Exists():
				r.failf("entry %d was deleted; await returned %+v", k, e)
			case k != i && !e.Same(known[k]):
				r.failf("entry %d is still %+v; await returned %+v", k, known[k], e)
			}
		}
		known = now
	}
}

func awaitInOrder(r *run) {
	s, other := r.session(), r.session()
	dir := s.dir("d")
	other.sees(s.get(dir))
	rounds := 30
	if r.svc.Virtual {
		rounds = 200
	}
	for i := range rounds {
		before := other.enqueue(dir, "predecessor")
		own := s.enqueue(dir, "own")
		s.sees(before)
		other.sees(own)
		// Two orders, and the deletes come while the calls begin, or when they wait.
		var waiting []*task[[]backend.Entry]
		for k := range 4 {
			waiting = append(waiting, s.await([][]backend.Entry{{own, before}, {before, own}}[k%2]...))
		}
		if i%4 == 0 {
			waiting[0].blocked("nothing happened")
		}
		for range i % 16 {
			runtime.Gosched()
		}
		other.delete(own)
		other.delete(before)
		for k, w := range waiting {
			now := w.value()
			if len(now) != 2 {
				r.failf("await of 2 entries returned %d", len(now))
			}
			if o, b := now[k%2], now[1-k%2]; o.Exists() {
				r.failf("the own entry was deleted before its predecessor; await shows it as %+v, and the predecessor as %+v", o, b)
			}
		}
	}
}

func awaitNothingMissed(r *run) {
	s, other := r.session(), r.session()
	dir := s.dir("d")
	flag := s.put(r.key("flag"), "0", 0)
	other.sees(flag)
	changes := 40
	if r.svc.Virtual {
		changes = 400
	}
	writer := start(r, "writer", func(ctx context.Context) (backend.Entry, error) {
		e := flag
		for i := range changes {
			out, err := other.Commit(ctx, nil, backend.Put(e.Key, fmt.Append(nil, i+1), e.Version))
			if err != nil {
				return e, err
			}
			e = out[0]
		}
		return e, nil
	})
	for last := fmt.Sprint(changes); string(flag.Value) != last; {
		// If a change is missed, the last one at the latest hangs here.
		next := one(s.await(flag))
		if next.Rev != flag.Rev || next.Same(flag) {
			r.failf("await of %+v returned %+v", flag, next)
		}
		flag = next
	}
	if want := writer.value(); !flag.Same(want) {
		r.failf("the last change that await showed is %+v, the last written %+v", flag, want)
	}
	// The predecessor goes while its successor is about to wait for it.
	for range changes / 4 {
		e := other.enqueue(dir, "x")
		s.sees(e)
		gone := start(r, "delete", func(ctx context.Context) ([]backend.Entry, error) {
			return other.Commit(ctx, nil, backend.Delete(e))
		})
		if got := one(s.await(e)); got.Exists() {
			r.failf("await of a deleted entry returned %+v", got)
		}
		gone.value()
	}
}

func awaitAgain(r *run) {
	s, other := r.session(), r.session()
	dir := s.dir("d")
	e := other.enqueue(dir, "x")
	s.sees(e)
	for i := range 20 {
		waiting := s.await(e)
		if i%4 == 0 {
			waiting.blocked("nothing happened")
		}
		waiting.stop()
		_, err := waiting.result()
		r.refused("await with a context that ended", err, context.Canceled)
	}
	var all []*task[[]backend.Entry]
	for range 20 {
		all = append(all, s.await(e))
	}
	for _, t := range all {
		t.blocked("nothing happened")
	}
	for _, t := range all[:10] { // the end of some is not the end of the others
		t.stop()
		_, err := t.result()
		r.refused("await with a context that ended", err, context.Canceled)
	}
	f := other.set(e, "y")
	for _, t := range all[10:] {
		if got := one(t); !got.Same(f) {
			r.failf("await of %+v, which became %+v, returned %+v", e, f, got)
		}
	}
	last := s.await(f)
	last.blocked("nothing happened")
	other.delete(f)
	if got := one(last); got.Exists() {
		r.failf("await of a deleted entry returned %+v", got)
	}
}

func awaitOperator(r *run) {
	s := r.session()
	dir := s.dir("d")
	a, b, seat := s.enqueue(dir, "x"), s.enqueue(dir, "y"), s.create(dir+"/seat", "x")
	var all []*task[[]backend.Entry]
	for _, known := range [][]backend.Entry{{a}, {b, a}, {seat}, {s.get(dir)}} {
		t := s.await(known...)
		t.blocked("nothing happened")
		all = append(all, t)
	}
	listing := s.awaitList(s.list(dir))
	listing.blocked("nothing happened")
	r.nothing("operator's delete", r.svc.Delete(dir))
	for _, t := range all {
		gone := false
		for _, e := range t.value() {
			gone = gone || !e.Exists()
		}
		if !gone {
			r.failf("%s returned %+v after the operator's delete", t.what, t.v)
		}
	}
	listing.value()
	s.misses(dir)
	s.lives()
	_, err := s.Commit(r.ctx, nil, backend.Enqueue(dir, nil))
	r.refused("enqueue in the deleted directory", err, backend.ErrNoParent)
	// The same directory anew: nothing of the old one is taken for its own.
	s.dir("d")
	c := s.enqueue(dir, "z")
	s.lists(dir, c)
	if got := s.predecessor(c); got.Exists() {
		r.failf("predecessor in the new directory is %+v", got)
	}
	_, err = s.Predecessor(r.ctx, b)
	r.refused("predecessor of an entry of the old directory", err, backend.ErrNoEntry)
	s.guarded("an entry of the old directory", backend.Held(a), false)
}
