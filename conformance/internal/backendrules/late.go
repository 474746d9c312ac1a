package backendrules

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/kit"
)

// lateRules are about commits that were given up, and may still be done.
var lateRules = []rule{
	promise("late/overtaken", lateOvertaken,
		"If a commit returned ErrIndeterminate, it is no longer applied once a later commit of the session to the same key has succeeded.",
		"DelayRequest"),
	promise("late/left", lateLeft,
		"An ephemeral entry whose commit was given up, and is applied late, is removed. After the session's end it is not even created.",
		"DelayRequest"),
	promise("late/given-up", lateGivenUp,
		"A commit that is given up at any moment does not undo the commit that follows it."),
}

func lateOvertaken(r *run) {
	c := r.client()
	s := r.open(c)
	dir := s.dir("d")
	delay := r.Service.TTL / 2
	put := func(name string) backend.Entry { return s.put(dir+"/"+name, "first", 0) }
	late := []byte("late")
	updated, own, deleted, remade, beside, second := put("updated"), s.enqueue(dir, "first"), put("deleted"), put("remade"), put("beside"), put("second")
	tries := []struct {
		what  string
		late  []backend.Op
		later func() backend.Entry // returns the entry after it
	}{
		{
			"an Update before an Update", []backend.Op{backend.Update(updated, late)},
			func() backend.Entry { return s.set(updated, "later") },
		}, {
			"an Update before an Update of the session's own entry", []backend.Op{backend.Update(own, late)},
			func() backend.Entry { return s.set(own, "later") },
		}, {
			"a Delete before a CompareAndSet", []backend.Op{backend.Delete(deleted)},
			func() backend.Entry { return s.put(deleted.Key, "later", deleted.Version) },
		}, {
			"a CompareAndSet before a CompareAndSet and a Delete", []backend.Op{backend.CompareAndSet(dir+"/new", late, 0)},
			func() backend.Entry {
				s.delete(s.put(dir+"/new", "later", 0))
				return backend.Entry{Key: dir + "/new"}
			},
		}, {
			"an Update before a Delete and a CompareAndSet", []backend.Op{backend.Update(remade, late)},
			func() backend.Entry {
				s.delete(remade)
				return s.put(remade.Key, "later", 0)
			},
		}, {
			"several ops before an Update", []backend.Op{backend.CompareAndSet(dir+"/more", nil, 0), backend.Delete(beside)},
			func() backend.Entry { return s.set(beside, "later") },
		}, {
			"an Update before a commit whose second op is an Update", []backend.Op{backend.Update(second, late)},
			func() backend.Entry {
				return s.commit(backend.CompareAndSet(dir+"/before", nil, 0), backend.Update(second, []byte("later")))[1]
			},
		},
	}
	for _, try := range tries { // so that several are pending
		s.late(c, delay, try.what, try.late...)
	}
	var checks []func()
	for _, try := range tries {
		want := try.later()
		checks = append(checks, func() {
			if got := s.peek(want.Key); got.Rev != want.Rev || !got.Same(want) && want.Exists() || string(got.Value) != string(want.Value) {
				r.Failf("%s: the later commit left %+v, but the entry is %+v", try.what, want, got)
			}
		})
	}
	time.Sleep(delay + r.Service.TTL/4) // so that late requests are done
	for _, check := range checks {
		check()
	}
}

// late gives up a commit whose request arrives after delay.
func (s sess) late(c *kit.Client, delay time.Duration, what string, ops ...backend.Op) {
	sent := c.DelayRequest(ops[0].Kind, delay)
	late := s.committing("commit whose request is late", ops...)
	s.r.Until(what+": the request is pending", sent)
	late.stop()
	late.fails(what, backend.ErrIndeterminate, context.Canceled)
}

func lateLeft(r *run) {
	c, s, other, dir := r.process((*run).open)
	delay := r.Service.TTL / 2
	keep := s.enqueue(dir, "keep")
	none := func() {
		time.Sleep(delay + r.Service.TTL/4) // so that late requests are done
		other.misses(dir + "/seat")
		other.none("get of an entry that was created late", dir+"/seat")
	}
	ops := []backend.Op{backend.Enqueue(dir, []byte("late")), backend.CreateEphemeral(dir+"/seat", []byte("late"))}
	for _, op := range ops {
		s.late(c, delay, "a late "+op.Kind.String(), op)
	}
	none()
	other.lists(dir, keep)
	for _, op := range ops {
		s.late(c, delay, "a late "+op.Kind.String()+" of a session that is closed", op)
	}
	s.close()
	none()
	other.lists(dir)
}

func lateGivenUp(r *run) {
	s := r.session()
	dir := s.dir("d")
	var later []backend.Entry
	for i := range 60 {
		e := s.enqueue(dir, "first")
		if i%2 == 0 {
			e = s.put(fmt.Sprintf("%s/%d", dir, i), "first", 0)
		}
		ctx, cancel := context.WithCancel(r.ctx)
		if i%4 < 2 {
			ctx = impatient{ctx, cancel}
		} else {
			time.AfterFunc(rand.N(time.Millisecond), cancel)
		}
		_, _ = s.Commit(ctx, nil, backend.Update(e, []byte("given up"))) // any result is right
		cancel()
		later = append(later, s.set(e, "later"))
	}
	time.Sleep(r.Service.TTL / 4) // so that given-up requests are done
	for _, e := range later {
		s.has("after a later commit", e)
	}
}

// impatient is a context that ends when somebody begins to wait for its end. If the backend waits for a
// reply then, the request may not have been sent.
type impatient struct {
	context.Context
	end context.CancelFunc
}

func (c impatient) Done() <-chan struct{} {
	c.end()
	return c.Context.Done()
}
