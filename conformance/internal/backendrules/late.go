package backendrules

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/elector-go/elector/backend"
)

// lateRules are about commits that were given up, and may yet be done.
var lateRules = []rule{
	promise("late/overtaken", lateOvertaken,
		"Once a commit has succeeded, an earlier one of the session that writes to the same key, and was told as ErrIndeterminate, is not done any more.",
		"DelayRequest"),
	promise("late/given-up", lateGivenUp,
		"A commit that is given up at any moment does not undo one that comes right after it."),
}

func lateOvertaken(r *run) {
	c := r.client()
	s := r.open(c)
	dir := s.dir("d")
	delay := r.Service.TTL / 2
	put := func(name string) backend.Entry { return s.put(dir+"/"+name, "first", 0) }
	late := []byte("late")
	updated, own, deleted, remade, beside := put("updated"), s.enqueue(dir, "first"), put("deleted"), put("remade"), put("beside")
	var checks []func()
	for _, try := range []struct {
		what  string
		late  []backend.Op
		later func() backend.Entry // returns what there is then
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
		},
	} {
		sent := c.DelayRequest(try.late[0].Kind, delay)
		late := s.committing("commit whose request is late", try.late...)
		r.Until(try.what+": the request is under way", sent)
		late.stop()
		late.fails(try.what, backend.ErrIndeterminate, context.Canceled)
		want := try.later()
		checks = append(checks, func() {
			if got := s.peek(want.Key); got.Rev != want.Rev || !got.Same(want) && want.Exists() || string(got.Value) != string(want.Value) {
				r.Failf("%s: the later commit left %+v, and there is %+v", try.what, want, got)
			}
		})
	}
	time.Sleep(delay + r.Service.TTL/4) // for what was late to be done
	for _, check := range checks {
		check()
	}
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
		_, _ = s.Commit(ctx, nil, backend.Update(e, []byte("given up"))) // whatever has become of it
		cancel()
		later = append(later, s.set(e, "later"))
	}
	time.Sleep(r.Service.TTL / 4) // for what was given up to be done
	for _, e := range later {
		s.has("after a later commit", e)
	}
}

// impatient is a context that ends when somebody begins to wait for its end: where that is the
// answer to a request, it may not have been sent yet.
type impatient struct {
	context.Context
	end context.CancelFunc
}

func (c impatient) Done() <-chan struct{} {
	c.end()
	return c.Context.Done()
}
