package backendrules

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
)

var listRules = []rule{
	promise("list/await", listAwait,
		"AwaitList returns at once if the listing differs from the known one, and otherwise at the next change. It does so for every waiter, also if the directory did not exist."),
	promise("list/nothing-missed", listNothingMissed,
		"No change between a List and the AwaitList that follows is missed."),
	promise("list/while-enqueued", listWhileEnqueued,
		"An enqueued entry has its key, value and place from the start, also for sessions that list or look up predecessors while it is enqueued."),
	promise("list/side-by-side", listSideBySide,
		"Directories in each other, and those whose names begin alike, have nothing to do with each other: neither lists, predecessors and surveys, nor waits."),
}

func listAwait(r *run) {
	s, other, dir := r.pair()
	empty := s.list(dir)
	a := s.enqueue(dir, "x")
	shows := func(what string, t *task[backend.Listing], known backend.Listing, want ...backend.Entry) {
		if got := t.value(); !slices.Equal(got.Keys, harness.Keys(want)) || got.Dir != dir || got.Rev <= known.Rev {
			r.Failf("%s: await list of %+v returned %+v, want %q", what, known, got, harness.Keys(want))
		}
	}
	shows("after an enqueue", s.awaitList(empty), empty, a)
	var want []backend.Entry
	for i, step := range []func() []backend.Entry{
		func() []backend.Entry { return []backend.Entry{a, other.enqueue(dir, "y")} },
		func() []backend.Entry { other.delete(want[0]); return want[1:] },
		func() []backend.Entry { other.delete(want[0]); return nil },
		func() []backend.Entry { return []backend.Entry{other.enqueue(dir, "y")} },
	} {
		known := s.list(dir)
		var waiting []*task[backend.Listing]
		for range 3 {
			waiting = append(waiting, s.waitsList(known))
		}
		want = step()
		for _, t := range waiting {
			shows(fmt.Sprintf("step %d", i), t, known, want...)
		}
	}
	waiting := s.waitsList(s.list(dir))
	waiting.stop()
	waiting.fails("await list with a context that ended", context.Canceled)

	known := s.list(r.key("later"))
	waiting = s.waitsList(known)
	other.dir("later")
	e := other.enqueue(known.Dir, "x")
	for known = waiting.value(); !slices.Equal(known.Keys, []string{e.Key}); known = s.awaitList(known).value() {
		if len(known.Keys) > 0 { // otherwise the directory was made
			r.Failf("await list returned %+v, want only %s", known, e.Key)
		}
	}
}

func listNothingMissed(r *run) {
	s, other, dir := r.pair()
	changes := r.times(20, 200)
	known := s.list(dir)
	writer := start(r, "writer", func(ctx context.Context) ([]backend.Entry, error) {
		var made []backend.Entry
		for i := range changes {
			out, err := other.Commit(ctx, nil, backend.Enqueue(dir, fmt.Append(nil, i)))
			if err != nil {
				return made, err
			}
			made = append(made, out[0])
		}
		return made, nil
	})
	for len(known.Keys) < changes {
		next := s.awaitList(known).value()
		r.FailIf(!slices.Equal(next.Keys[:min(len(known.Keys), len(next.Keys))], known.Keys) || next.Rev <= known.Rev,
			"await list of %+v returned %+v though entries were only added", known, next)
		known = next
	}
	want := harness.Keys(writer.value())
	r.FailIf(!slices.Equal(known.Keys, want), "the listing is %q, but %q were enqueued", known.Keys, want)
	// An entry comes while a session is about to wait for it.
	for range changes / 4 {
		known = s.list(dir)
		made := other.committing("enqueue", backend.Enqueue(dir, nil))
		if next := s.awaitList(known).value(); next.Rev <= known.Rev {
			r.Failf("await list of %+v returned %+v", known, next)
		}
		made.value()
	}
}

func listWhileEnqueued(r *run) {
	s := r.session()
	dir := s.dir("d")
	first := s.enqueue(dir, "first")
	var entering []*task[[]backend.Entry]
	var looking []*task[[]string]
	const enrolling = 3
	var enrolled atomic.Int32
	for i := range enrolling {
		one := r.session()
		one.sees(first)
		entering = append(entering, start(r, "enqueue", func(ctx context.Context) (all []backend.Entry, err error) {
			defer enrolled.Add(1)
			for j := range 5 {
				made, err := one.Commit(ctx, nil, backend.Enqueue(dir, fmt.Appendf(nil, "%d of %d", j, i)))
				if err != nil {
					return nil, err
				}
				all = append(all, made...)
				if _, err := one.Predecessor(ctx, made[0]); err != nil {
					return nil, err
				}
			}
			return all, nil
		}))
		other := r.session()
		looking = append(looking, start(r, "list", func(ctx context.Context) ([]string, error) {
			seen := make(map[string]bool)
			for n := 0; n < 20 || enrolled.Load() < enrolling; n++ {
				runtime.Gosched() // memory never blocks
				l, err := other.List(ctx, dir)
				if err != nil {
					return nil, err
				}
				for _, key := range l.Keys {
					seen[key] = true
				}
			}
			return slices.Collect(maps.Keys(seen)), nil
		}))
	}
	all := []backend.Entry{first}
	for _, t := range entering {
		all = append(all, t.value()...)
	}
	slices.SortFunc(all, func(a, b backend.Entry) int { return cmp.Compare(a.Rev, b.Rev) })
	s.lists(dir, all...)
	s.sees(all...)
	for _, t := range looking {
		for _, key := range t.value() {
			r.FailIf(!slices.Contains(harness.Keys(all), key), "a listing had %s, which is not among the enqueued entries: %q", key, harness.Keys(all))
		}
	}
}

func listSideBySide(r *run) {
	s, other, top := r.pair()
	names := []string{"/x", "/x/y", "/x/y/z", "/xy", "/x-y", "/x0", "/x.y", "/x!"}
	queues := make(map[string][]backend.Entry)
	for _, name := range names {
		other.sees(s.put(top+name, "", 0))
	}
	for _, by := range []sess{s, other, s} {
		for _, name := range names {
			queues[name] = append(queues[name], by.enqueue(top+name, "x"))
		}
	}
	for _, name := range names {
		dir, queue := top+name, queues[name]
		s.sees(queue[1])
		waiting := s.waits(queue[0], queue[1])
		other.lists(dir, queue...)
		other.comesAfter(queue[0], backend.Entry{})
		other.comesAfter(queue[2], queue[1])
		_, strangers, err := s.Survey(r.ctx, dir, nil)
		r.Must("survey "+dir, err)
		slices.Sort(strangers)
		r.FailIf(!slices.Equal(strangers, slices.Sorted(slices.Values(harness.Keys(queue)))), "strangers under %s are %q, want %q", dir, strangers, harness.Keys(queue))
		for _, beside := range names {
			if e := queues[beside][2]; beside != name {
				queues[beside][2] = s.set(e, "y")
			}
		}
		waiting.blocked("only entries of other directories have changed")
		s.discard(queue[0])
		now := waiting.value()
		r.FailIf(now[0].Exists() || !now[1].Same(queue[1]), "await of %+v, the first of which was discarded, returned %+v", queue[:2], now)
		queues[name] = append(queue[1:], s.enqueue(dir, "x"))
	}
}
