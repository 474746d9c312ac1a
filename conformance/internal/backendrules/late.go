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
	{
		Name: "late/overtaken",
		Text: "Once a commit has succeeded, an earlier one of the session that writes to the same key, and was told as ErrIndeterminate, is not done any more.",
		Need: []string{"DelayRequest"},
		Run:  lateOvertaken,
	}, {
		Name: "late/given-up",
		Text: "A commit that is given up at any moment does not undo one that comes right after it.",
		Run:  lateGivenUp,
	},
}

func lateOvertaken(r *run) {
	c := r.client()
	s := r.open(c)
	dir := s.dir("d")
	delay := r.Service.TTL / 2
	var checks []func()
	for i, try := range []struct {
		what  string
		first backend.Entry
		late  func(e backend.Entry) []backend.Op
		later func(e backend.Entry) backend.Entry // returns what there is then
	}{
		{
			"an Update before an Update", s.put(dir+"/0", "first", 0),
			func(e backend.Entry) []backend.Op { return []backend.Op{backend.Update(e, []byte("late"))} },
			func(e backend.Entry) backend.Entry { return s.set(e, "later") },
		}, {
			"an Update before an Update of the session's own entry", s.enqueue(dir, "first"),
			func(e backend.Entry) []backend.Op { return []backend.Op{backend.Update(e, []byte("late"))} },
			func(e backend.Entry) backend.Entry { return s.set(e, "later") },
		}, {
			"a Delete before a CompareAndSet", s.put(dir+"/2", "first", 0),
			func(e backend.Entry) []backend.Op { return []backend.Op{backend.Delete(e)} },
			func(e backend.Entry) backend.Entry { return s.put(e.Key, "later", e.Version) },
		}, {
			"a CompareAndSet before a CompareAndSet and a Delete", backend.Entry{Key: dir + "/3"},
			func(e backend.Entry) []backend.Op {
				return []backend.Op{backend.CompareAndSet(e.Key, []byte("late"), 0)}
			},
			func(e backend.Entry) backend.Entry {
				s.delete(s.put(e.Key, "later", 0))
				return e
			},
		}, {
			"an Update before a Delete and a CompareAndSet", s.put(dir+"/4", "first", 0),
			func(e backend.Entry) []backend.Op { return []backend.Op{backend.Update(e, []byte("late"))} },
			func(e backend.Entry) backend.Entry {
				s.delete(e)
				return s.put(e.Key, "later", 0)
			},
		}, {
			"several ops before an Update", s.put(dir+"/5", "first", 0),
			func(e backend.Entry) []backend.Op {
				return []backend.Op{backend.CompareAndSet(dir+"/beside", nil, 0), backend.Delete(e)}
			},
			func(e backend.Entry) backend.Entry { return s.set(e, "later") },
		},
	} {
		ops := try.late(try.first)
		sent := c.DelayRequest(ops[0].Kind, delay)
		late := start(r, "commit whose request is late", func(ctx context.Context) ([]backend.Entry, error) { return s.Commit(ctx, nil, ops...) })
		r.Until(fmt.Sprintf("request %d is under way", i), sent)
		late.stop()
		late.fails(try.what, backend.ErrIndeterminate, context.Canceled)
		want := try.later(try.first)
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
		if got := s.get(e.Key); !got.Same(e) || string(got.Value) != "later" {
			r.Failf("a later commit left %+v, and there is %+v", e, got)
		}
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
