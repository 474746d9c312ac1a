package backendrules

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/elector-go/elector/backend"
)

var guardRules = []rule{
	{
		Name: "condition/if-exists",
		Text: "IfExists holds as long as this incarnation exists, whatever its value; else the commit is ErrCondition and nothing is written.",
		Run:  guardHeld,
	}, {
		Name: "condition/if-unchanged",
		Text: "IfUnchanged holds as long as this incarnation exists at this version; else the commit is ErrCondition and nothing is written.",
		Run:  guardUnchanged,
	}, {
		Name: "condition/alone",
		Text: "Guards without ops ask whether they hold: no error, or ErrCondition, and nothing is written.",
		Run:  guardAlone,
	}, {
		Name: "condition/race",
		Text: "Guards are checked at the instant of the write, whatever it is: where what guards it is deleted or changed at the same time, it is not done after that.",
		Run:  guardRace,
	}, {
		Name: "condition/incarnations",
		Text: "Conditions, Update, Delete and Discard of an incarnation that is gone never hit its successor under the same key.",
		Run:  guardIncarnations,
	}, {
		Name: "discard/confirmed",
		Text: "Discard returns nil once the incarnation is gone, whoever removed it, and may be called again.",
		Run:  dropConfirmed,
	}, {
		Name: "discard/background",
		Text: "A Discard whose context ends first goes on in the background until the entry is gone, while the session lives on.",
		Need: []string{"Suspend"},
		Run:  dropBackground,
	}, {
		Name: "discard/not-own",
		Text: "Discard of an entry that is another session's, or nobody's, is refused, and the entry stands.",
		Run:  dropNotOwn,
	},
}

// guarded asks whether the guard holds, commits a write under it, and checks that it is done or
// refused.
func (s sess) guarded(what string, g backend.Condition, holds bool) {
	s.asks(what, holds, g)
	key := s.r.key("guarded")
	before := s.peek(key)
	out, err := s.Commit(s.r.ctx, []backend.Condition{g}, backend.CompareAndSet(key, []byte(what), before.Version))
	if holds {
		s.r.Must("commit guarded by "+what, err)
		if got := s.get(key); !got.Same(out[0]) || string(got.Value) != what {
			s.r.Failf("commit guarded by %s returned %+v, and there is %+v", what, out[0], got)
		}
		return
	}
	s.r.Refused("commit guarded by "+what, err, backend.ErrCondition)
	if after := s.peek(key); !after.Same(before) {
		s.r.Failf("commit guarded by %s was refused, and changed %+v to %+v", what, before, after)
	}
}

// asks commits guards without ops.
func (s sess) asks(what string, hold bool, guards ...backend.Condition) {
	made, err := s.Commit(s.r.ctx, guards)
	if !hold {
		s.r.Refused("asking for "+what, err, backend.ErrCondition)
	} else if err != nil || len(made) > 0 {
		s.r.Failf("asking for %s returned (%+v, %v)", what, made, err)
	}
}

// threeKinds makes an entry of each kind.
func (s sess) threeKinds(dir string) []backend.Entry {
	return []backend.Entry{s.enqueue(dir, "x"), s.create(dir+"/seat", "x"), s.put(dir+"/record", "x", 0)}
}

func guardHeld(r *run) {
	s, other, dir := r.pair()
	for _, e := range s.threeKinds(dir) {
		s.guarded("an entry", backend.IfExists(e), true)
		other.sees(e)
		f := other.set(e, "y")
		s.sees(f)
		s.guarded("an entry with a new value", backend.IfExists(e), true)
		other.delete(e)
		s.misses(e.Key)
		s.guarded("a deleted entry", backend.IfExists(e), false)
	}
	s.guarded("an entry that never was", backend.IfExists(backend.Entry{Key: dir + "/never", Rev: 1}), false)
	s.guarded("no entry", backend.IfExists(backend.Entry{Key: dir + "/never"}), false)

	// One of several that does not hold is enough.
	e, f := s.enqueue(dir, "x"), s.enqueue(dir, "x")
	s.delete(f)
	for _, guards := range [][]backend.Condition{{backend.IfExists(e), backend.IfExists(f)}, {backend.IfExists(f), backend.IfExists(e)}} {
		_, err := s.Commit(r.ctx, guards, backend.Delete(e))
		r.Refused("commit with one guard of two that holds", err, backend.ErrCondition)
	}
	// An entry may be guarded and written in the same commit.
	if _, err := s.Commit(r.ctx, []backend.Condition{backend.IfExists(e)}, backend.Update(e, []byte("y"))); err != nil {
		r.Failf("set of the guarded entry: %v", err)
	}
	if _, err := s.Commit(r.ctx, []backend.Condition{backend.IfExists(e)}, backend.Delete(e)); err != nil {
		r.Failf("delete of the guarded entry: %v", err)
	}
	s.lists(dir)
}

func guardUnchanged(r *run) {
	s, other := r.session(), r.session()
	for _, e := range s.threeKinds(s.dir("d")) {
		s.guarded("an unchanged entry", backend.IfUnchanged(e), true)
		other.sees(e)
		f := other.set(e, "y")
		s.sees(f)
		s.guarded("an entry that has changed", backend.IfUnchanged(e), false)
		s.guarded("the entry as it is now", backend.IfUnchanged(f), true)
		g := other.set(f, "x")
		s.sees(g)
		s.guarded("an entry with its first value again", backend.IfUnchanged(e), false)
		other.delete(g)
		s.misses(e.Key)
		s.guarded("a deleted entry", backend.IfUnchanged(g), false)
	}
}

func guardAlone(r *run) {
	s, other, dir := r.pair()
	all := s.threeKinds(dir)
	before := append(all, s.get(dir))
	listing := s.list(dir)
	var guards []backend.Condition
	for _, e := range all {
		guards = append(guards, backend.IfExists(e), backend.IfUnchanged(e))
	}
	s.asks("several", true, guards...)
	s.asks("several, and one that never was", false, append(guards, backend.IfExists(backend.Entry{Key: dir + "/never", Rev: 1}))...)
	for _, e := range before {
		if got := s.get(e.Key); !got.Same(e) || got.Session != e.Session {
			r.Failf("asking changed %+v to %+v", e, got)
		}
	}
	if now := s.list(dir); now.Rev != listing.Rev {
		r.Failf("asking changed the listing from %+v to %+v", listing, now)
	}
	for _, e := range all {
		other.sees(e)
		other.delete(e)
		s.asks("a deleted entry, which has not been looked at since", false, backend.IfExists(e))
		s.asks("several, of which one was deleted", false, guards...)
	}
}

// races are the ops that condition/race races. That something was made is told from a later
// change by its revision. Of a change to an entry, with, that one has to be the guard.
var races = []struct {
	what string
	op   func(dir, key string, with backend.Entry) backend.Op
	ends bool // Held(with), or Unchanged(with) at least
}{
	{"create", func(_, key string, _ backend.Entry) backend.Op { return backend.CreateEphemeral(key, nil) }, false},
	{"enqueue", func(dir, _ string, _ backend.Entry) backend.Op { return backend.Enqueue(dir, nil) }, false},
	{"put of a new key", func(_, key string, _ backend.Entry) backend.Op { return backend.CompareAndSet(key, nil, 0) }, false},
	{"put", func(_, _ string, with backend.Entry) backend.Op {
		return backend.CompareAndSet(with.Key, nil, with.Version)
	}, true},
	{"set", func(_, _ string, with backend.Entry) backend.Op { return backend.Update(with, nil) }, true},
	{"delete", func(_, _ string, with backend.Entry) backend.Op { return backend.Delete(with) }, true},
}

func guardRace(r *run) {
	s, other, dir := r.pair()
	rounds := r.times(6, 60)
	for i := range rounds * len(races) {
		race, round := races[i%len(races)], i/len(races)
		key := func(name string) string { return fmt.Sprintf("%s/%s%d", dir, name, i) }
		began := time.Now()
		made := s.commit([]backend.Op{
			backend.CreateEphemeral(key("seat"), nil), backend.Enqueue(dir, nil), backend.CompareAndSet(key("seat"), nil, 0),
		}[(i+round)%3], backend.CompareAndSet(key("with"), nil, 0))
		trip := time.Since(began)
		seat, with := made[0], made[1]
		other.sees(seat)
		other.sees(with)
		guard, end := backend.IfExists(seat), backend.Delete(seat)
		if round%2 == 1 {
			guard, end = backend.IfUnchanged(seat), backend.Update(seat, []byte("y"))
		}
		var others []backend.Condition
		if race.ends {
			others = append(others, backend.IfUnchanged(with))
		}
		a := start(r, "guarded "+race.what, func(ctx context.Context) ([]backend.Entry, error) {
			return s.Commit(ctx, []backend.Condition{guard}, race.op(dir, key("new"), with))
		})
		b := start(r, end.Kind.String()+" of its guard", func(ctx context.Context) ([]backend.Entry, error) {
			// What has two steps is met between them, in time, and where time stands still.
			time.Sleep(trip * time.Duration(round) / time.Duration(rounds))
			for range round {
				runtime.Gosched()
			}
			return other.Commit(ctx, others, end, backend.CreateEphemeral(key("mark"), nil))
		})
		write, errA := a.result()
		mark, errB := b.result()
		switch {
		case errA == nil && errB == nil && race.ends:
			r.Failf("a %s and a %s succeeded that each end what the other is guarded by", a.what, b.what)
		case errA == nil && errB == nil && write[0].Rev >= mark[1].Rev:
			r.Failf("a %s made %+v after a %s, which made %+v", a.what, write[0], b.what, mark[1])
		case errA != nil && errB != nil:
			r.Failf("of a %s and a %s none succeeded: %v; %v", a.what, b.what, errA, errB)
		case errA != nil:
			r.Refused(a.what, errA, backend.ErrCondition)
		case errB != nil:
			r.Refused(b.what, errB, backend.ErrCondition)
		}
	}
}

func guardIncarnations(r *run) {
	s, other, dir := r.pair()
	kinds := map[string]func(by sess, key string) backend.Entry{
		"ephemeral":  func(by sess, key string) backend.Entry { return by.create(key, "x") },
		"persistent": func(by sess, key string) backend.Entry { return by.put(key, "x", 0) },
	}
	for kind, remake := range kinds {
		// The successor is another session's, or, harder to tell, the same one's.
		for name, by := range map[string]sess{"another session": other, "the same session": s} {
			key := dir + "/" + kind
			old := s.create(key, "x")
			s.delete(old)
			by.misses(key)
			now := remake(by, key)
			s.sees(now)
			what := fmt.Sprintf("an entry that %s has made anew (%s)", name, kind)
			s.guarded(what, backend.IfExists(old), false)
			s.guarded(what, backend.IfUnchanged(old), false)
			s.refused("set on "+what, backend.ErrNoEntry, backend.Update(old, []byte("no")))
			s.refused("delete of "+what, backend.ErrNoEntry, backend.Delete(old))
			r.Must("drop of "+what, s.Discard(r.ctx, old))
			r.Settle()
			if got := s.get(key); !got.Same(now) || string(got.Value) != "x" {
				r.Failf("the successor was %+v and is %+v", now, got)
			}
			by.delete(now)
			s.misses(key)
		}
	}
}

func dropConfirmed(r *run) {
	s, other, dir := r.pair()
	e, f := s.enqueue(dir, "x"), s.create(dir+"/seat", "x")
	keep := s.enqueue(dir, "keep")
	s.set(e, "y")
	for _, e := range []backend.Entry{e, f} {
		for range 2 {
			s.discard(e)
			s.none("get after drop", e.Key)
		}
		other.misses(e.Key)
	}
	g := s.enqueue(dir, "x")
	other.sees(g)
	other.delete(g)
	r.Must("drop of an entry that another session has deleted", s.Discard(r.ctx, g))
	s.lists(dir, keep)
}

func dropBackground(r *run) {
	c := r.client()
	s, other := r.open(c), r.session()
	dir := s.dir("d")
	e, keep := s.enqueue(dir, "x"), s.enqueue(dir, "keep")
	other.lists(dir, e, keep)
	c.Suspend()
	drop := start(r, "drop while suspended", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.Discard(ctx, e)
	})
	drop.blocked("the link was cut")
	began := time.Now()
	drop.stop()
	_, err := drop.result()
	c.Resume()
	r.Refused("drop whose context ended", err, context.Canceled)
	other.lists(dir, keep)
	if took := time.Since(began); r.Service.Virtual && took > r.Service.TTL/2 {
		r.Failf("the entry went %v after the link came back", took)
	}
	if got := s.awaitState(backend.Suspended).value(); got != backend.Live {
		r.Failf("after the link came back the session is %v", got)
	}
	s.lists(dir, keep)
}

func dropNotOwn(r *run) {
	s, other := r.session(), r.session()
	dir := other.dir("d")
	entries := []backend.Entry{other.enqueue(dir, "x"), other.create(dir+"/seat", "x"), other.put(r.key("record"), "x", 0)}
	for _, e := range entries {
		s.sees(e)
		if err := s.Discard(r.ctx, e); err == nil {
			r.Failf("drop of %+v by session %s returned nil", e, s.ID())
		}
	}
	r.Settle() // nothing goes on in the background
	for _, e := range entries {
		if got := s.peek(e.Key); !got.Same(e) {
			r.Failf("after a drop that was refused there is %+v, want %+v", got, e)
		}
	}
}
