package backendrules

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/elector-go/elector/backend"
)

var guardRules = []rule{
	promise("condition/holds", guardHolds,
		"IfExists holds as long as this incarnation exists, with any value; IfUnchanged holds as long as it has this version. If a condition does not hold, the commit returns ErrCondition and writes nothing. A commit without ops only checks its conditions."),
	promise("condition/of-what-is-written", guardOfWritten,
		"A condition on the key of an op of the same commit counts like any other, for each kind of op. So do two conditions on one key."),
	promise("condition/race", guardRace,
		"Conditions are checked at the instant of the write, for every kind of op: if the entry of a condition is deleted or changed at the same time, nothing is written after that."),
	promise("condition/own-writes", guardOwnWrites,
		"While a session writes to an entry again and again, its commits on condition that the entry exists are done, and so are those writes."),
	promise("condition/incarnations", guardIncarnations,
		"Conditions, Update, Delete and Discard that name an incarnation that is gone never affect its successor under the same key."),
	promise("discard/confirmed", dropConfirmed,
		"Discard returns nil once the incarnation is gone, whichever session removed it, and may be called again. Discard of another session's entry, or of a persistent one, returns an error, and the entry stays."),
	promise("discard/background", dropBackground,
		"If the context of a Discard ends first, the session continues it in the background until the entry is gone, unless the session ends.",
		"Suspend"),
}

// guarded asks whether the guard holds, commits a write under it, and checks that it is done or refused.
func (s sess) guarded(what string, g backend.Condition, holds bool) {
	s.asks(what, holds, g)
	key := s.r.key("guarded")
	before := s.peek(key)
	out, err := s.Commit(s.r.ctx, []backend.Condition{g}, backend.CompareAndSet(key, []byte(what), before.Version))
	if holds {
		s.r.Must("commit under a condition on "+what, err)
		s.has("commit under a condition on "+what, out[0])
		return
	}
	s.r.Refused("commit under a condition on "+what, err, backend.ErrCondition)
	after := s.peek(key)
	s.r.FailIf(!after.Same(before), "commit under a condition on %s was refused, but changed %+v to %+v", what, before, after)
}

// asks commits guards without ops.
func (s sess) asks(what string, hold bool, guards ...backend.Condition) {
	made, err := s.Commit(s.r.ctx, guards)
	if !hold {
		s.r.Refused("a commit without ops, with conditions on "+what, err, backend.ErrCondition)
	} else if err != nil || len(made) > 0 {
		s.r.Failf("a commit without ops, with conditions on %s, returned (%+v, %v)", what, made, err)
	}
}

// threeKinds makes an entry of each kind.
func (s sess) threeKinds(dir string) []backend.Entry {
	return []backend.Entry{s.enqueue(dir, "x"), s.create(dir+"/seat", "x"), s.put(dir+"/record", "x", 0)}
}

func guardHolds(r *run) {
	s, other, dir := r.pair()
	both := func(what string, e backend.Entry, exists, unchanged bool) {
		s.guarded(what, backend.IfExists(e), exists)
		s.guarded(what, backend.IfUnchanged(e), unchanged)
	}
	never := backend.Entry{Key: dir + "/never", Rev: 1}
	all := s.threeKinds(dir)
	var guards []backend.Condition
	for _, e := range all {
		guards = append(guards, backend.IfExists(e), backend.IfUnchanged(e))
	}
	before := s.list(dir)
	s.asks("several entries", true, guards...)
	s.asks("several entries, one of which never existed", false, append(guards, backend.IfExists(never))...)
	for _, e := range append(all, s.get(dir)) {
		s.has("after a commit without ops", e)
	}
	now := s.list(dir)
	r.FailIf(now.Rev != before.Rev, "a commit without ops changed the listing from %+v to %+v", before, now)
	for _, e := range all {
		both("an entry", e, true, true)
		other.sees(e)
		f := other.set(e, "y")
		s.sees(f)
		both("an entry with a new value", e, true, false)
		both("the entry as it is now", f, true, true)
		g := other.set(f, "x")
		s.sees(g)
		both("an entry with its first value again", e, true, false)
		other.delete(g)
		s.asks("a deleted entry that the session has not read since", false, backend.IfExists(e))
		s.asks("several entries, one of them deleted", false, guards...)
		s.misses(e.Key)
		both("a deleted entry", g, false, false)
	}
	both("an entry that never existed", never, false, false)
	both("no entry", backend.Entry{Key: never.Key}, false, false)

	// One guard that does not hold is enough.
	e, gone := s.enqueue(dir, "x"), s.enqueue(dir, "x")
	s.delete(gone)
	for _, guards := range [][]backend.Condition{{backend.IfExists(e), backend.IfExists(gone)}, {backend.IfExists(gone), backend.IfExists(e)}} {
		s.refused("commit with two conditions, one of which does not hold", backend.ErrCondition, guards, backend.Delete(e))
	}
	// The same with many, whichever it is.
	var many []backend.Entry
	guards = nil
	for range 20 {
		many = append(many, s.enqueue(dir, "x"))
		guards = append(guards, backend.IfExists(many[len(many)-1]))
	}
	s.asks("many entries", true, guards...)
	for _, i := range []int{19, 12} {
		s.delete(many[i])
		s.refused("commit with many conditions, one of which does not hold", backend.ErrCondition, guards[:i+1], backend.Delete(e))
		s.asks("many entries, one of them deleted", false, guards[:i+1]...)
		many = slices.Delete(many, i, i+1)
	}
	s.delete(many...)
	// An entry may be guarded and written in the same commit.
	for _, op := range []backend.Op{backend.Update(e, []byte("y")), backend.Delete(e)} {
		_, err := s.Commit(r.ctx, []backend.Condition{backend.IfExists(e)}, op)
		r.Must(op.Kind.String()+" of the entry of its condition", err)
	}
	s.lists(dir)
}

func guardOfWritten(r *run) {
	s, other, dir := r.pair()
	refused := func(what string, now backend.Entry, op backend.Op, guards ...backend.Condition) {
		s.refused(fmt.Sprintf("%v under %s", op.Kind, what), backend.ErrCondition, guards, op)
		s.has("after the refused commit", now)
	}
	for _, e := range s.threeKinds(dir) {
		other.sees(e)
		now := other.set(e, "y")
		s.sees(now)
		ops := []backend.Op{backend.Delete(e), backend.Update(e, []byte("no"))}
		if now.Session == "" {
			ops = append(ops, backend.CompareAndSet(e.Key, []byte("no"), now.Version))
		}
		for _, op := range ops {
			refused("a condition on the previous version", now, op, backend.IfUnchanged(e))
			refused("conditions on its existence and on the previous version", now, op, backend.IfExists(e), backend.IfUnchanged(e))
			refused("conditions on the previous version and on its existence", now, op, backend.IfUnchanged(e), backend.IfExists(e))
		}
	}
	was := s.put(dir+"/again", "x", 0)
	other.sees(was)
	other.delete(was)
	now := other.put(was.Key, "x", 0)
	s.sees(now)
	op := backend.CompareAndSet(now.Key, []byte("no"), now.Version)
	refused("a condition on the existence of another incarnation", now, op, backend.IfExists(was))
	refused("conditions on the existence of both incarnations", now, op, backend.IfExists(was), backend.IfExists(now))
	refused("conditions on the existence of both incarnations", now, op, backend.IfExists(now), backend.IfExists(was))

	place := s.get(dir)
	other.sees(place)
	changed := other.set(place, "y")
	s.sees(changed)
	before := s.list(dir)
	refused("a condition on another version of the directory", changed, backend.Enqueue(dir, nil), backend.IfUnchanged(place))
	refused("a condition on another version of the directory", changed, backend.CreateEphemeral(dir+"/new", nil), backend.IfUnchanged(place))
	s.none("after the refused commit", dir+"/new")
	after := s.list(dir)
	r.FailIf(!slices.Equal(after.Keys, before.Keys), "refused commits changed the list from %q to %q", before.Keys, after.Keys)
}

// guardRace races an op of each kind. If the op makes something, its revision shows whether it came after
// a later change. If it changes an entry, with, then with guards the other commit.
func guardRace(r *run) {
	s, other, dir := r.pair()
	rounds := r.times(6, 60)
	const kinds, makes = 6, 3 // the first three make something
	for i := range rounds * kinds {
		kind, round := i%kinds, i/kinds
		key := func(name string) string { return fmt.Sprintf("%s/%s%d", dir, name, i) }
		began := time.Now()
		made := s.commit([]backend.Op{
			backend.CreateEphemeral(key("seat"), nil), backend.Enqueue(dir, nil), backend.CompareAndSet(key("seat"), nil, 0),
		}[(i+round)%3], backend.CompareAndSet(key("with"), nil, 0))
		trip := time.Since(began)
		seat, with := made[0], made[1]
		other.sees(seat, with)
		guard, end := backend.IfExists(seat), backend.Delete(seat)
		if round%2 == 1 {
			guard, end = backend.IfUnchanged(seat), backend.Update(seat, []byte("y"))
		}
		op := []backend.Op{
			backend.CreateEphemeral(key("new"), nil), backend.Enqueue(dir, nil), backend.CompareAndSet(key("new"), nil, 0),
			backend.CompareAndSet(with.Key, nil, with.Version), backend.Update(with, nil), backend.Delete(with),
		}[kind]
		var others []backend.Condition
		if kind >= makes {
			others = append(others, backend.IfUnchanged(with))
		}
		a := start(r, "conditional "+op.Kind.String(), func(ctx context.Context) ([]backend.Entry, error) {
			return s.Commit(ctx, []backend.Condition{guard}, op)
		})
		b := start(r, end.Kind.String()+" of the entry of its condition", func(ctx context.Context) ([]backend.Entry, error) {
			// The sleep falls between the steps of a commit of two; Gosched does where time stands still.
			time.Sleep(trip * time.Duration(round) / time.Duration(rounds))
			for range round {
				runtime.Gosched()
			}
			return other.Commit(ctx, others, end, backend.CreateEphemeral(key("mark"), nil))
		})
		write, errA := a.result()
		mark, errB := b.result()
		switch {
		case errA == nil && errB == nil && kind >= makes:
			r.Failf("a %s and a %s both succeeded, though each breaks the other's condition", a.what, b.what)
		case errA == nil && errB == nil && write[0].Rev >= mark[1].Rev:
			r.Failf("a %s created %+v after a %s, which created %+v", a.what, write[0], b.what, mark[1])
		case errA != nil && errB != nil:
			r.Failf("neither a %s nor a %s succeeded: %v; %v", a.what, b.what, errA, errB)
		case errA != nil:
			r.Refused(a.what, errA, backend.ErrCondition)
		case errB != nil:
			r.Refused(b.what, errB, backend.ErrCondition)
		}
	}
}

func guardOwnWrites(r *run) {
	s := r.session()
	dir := s.dir("d")
	times := r.times(20, 50)
	for _, e := range []backend.Entry{s.enqueue(dir, "x"), s.create(dir+"/seat", "x")} {
		again := func(what string, guards []backend.Condition, op func(i int) backend.Op) *task[struct{}] {
			return r.do(what, func(ctx context.Context) error {
				for i := range times {
					if _, err := s.Commit(ctx, guards, op(i)); err != nil {
						return err
					}
					runtime.Gosched() // memory never blocks
				}
				return nil
			})
		}
		all := []*task[struct{}]{again("updates of an entry", nil, func(int) backend.Op { return backend.Update(e, []byte("y")) })}
		for n := range 4 {
			all = append(all, again("commits under a condition on an entry that is updated meanwhile", []backend.Condition{backend.IfExists(e)}, func(i int) backend.Op {
				return backend.CompareAndSet(fmt.Sprintf("%s-%d-%d", e.Key, n, i), nil, 0)
			}))
		}
		for _, t := range all {
			t.value()
		}
	}
}

func guardIncarnations(r *run) {
	s, other, dir := r.pair()
	for range 2 {
		invented := backend.Unknown(dir + "/seat")
		s.guarded("an entry with an invented revision", backend.IfExists(invented), false)
		s.refused("delete of an entry with an invented revision", backend.ErrNoEntry, nil, backend.Delete(invented))
		seat := s.create(invented.Key, "x") // is not taken for an older one
		s.guarded("an entry after another one with an invented revision", backend.IfExists(seat), true)
		s.delete(seat)
	}
	kinds := map[string]func(by sess, key string) backend.Entry{
		"ephemeral":  func(by sess, key string) backend.Entry { return by.create(key, "x") },
		"persistent": func(by sess, key string) backend.Entry { return by.put(key, "x", 0) },
	}
	for kind, remake := range kinds {
		// The successor belongs to another session, or, harder to detect, to the same one.
		for name, by := range map[string]sess{"another session": other, "the same session": s} {
			key := dir + "/" + kind
			old := s.create(key, "x")
			s.delete(old)
			by.misses(key)
			now := remake(by, key)
			s.sees(now)
			what := fmt.Sprintf("an entry that %s has created again (%s)", name, kind)
			s.guarded(what, backend.IfExists(old), false)
			s.guarded(what, backend.IfUnchanged(old), false)
			s.refused("update of the old incarnation of "+what, backend.ErrNoEntry, nil, backend.Update(old, []byte("no")))
			s.refused("delete of the old incarnation of "+what, backend.ErrNoEntry, nil, backend.Delete(old))
			r.Must("discard of the old incarnation of "+what, s.Discard(r.ctx, old))
			r.Settle()
			s.has("after writes to the old incarnation", now)
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
			s.none("get after discard", e.Key)
		}
		other.misses(e.Key)
	}
	g := s.enqueue(dir, "x")
	other.sees(g)
	other.delete(g)
	r.Must("discard of an entry that another session has deleted", s.Discard(r.ctx, g))
	s.lists(dir, keep)

	theirs := other.threeKinds(dir)
	for _, e := range theirs {
		s.sees(e)
		if err := s.Discard(r.ctx, e); err == nil {
			r.Failf("discard of %+v by session %s returned nil", e, s.ID())
		}
	}
	r.Settle() // nothing continues in the background
	for _, e := range theirs {
		s.has("after a discard that was refused", e)
	}
}

func dropBackground(r *run) {
	c, s, other, dir := r.process((*run).open)
	e, keep := s.enqueue(dir, "x"), s.enqueue(dir, "keep")
	other.lists(dir, e, keep)
	c.Suspend()
	drop := r.do("discard while suspended", func(ctx context.Context) error { return s.Discard(ctx, e) })
	drop.blocked("the link was cut")
	began := time.Now()
	drop.stop()
	_, err := drop.result()
	c.Resume()
	r.Refused("discard whose context ended", err, context.Canceled)
	other.lists(dir, keep)
	took := time.Since(began)
	r.FailIf(r.Service.Virtual && took > r.Service.TTL/2, "the entry was gone only %v after the link came back", took)
	s.becomes(backend.Suspended, backend.Live, "after the link came back")
	s.lists(dir, keep)
}
