package backendrules

import (
	"fmt"
	"path"

	"github.com/elector-go/elector/backend"
)

var writeRules = []rule{
	promise("write/create-ephemeral", writeCreate,
		"CreateEphemeral creates an ephemeral entry of this session. If the key is taken, it returns ErrExists, and nothing is written."),
	promise("write/enqueue", writeEnqueue,
		"Enqueue creates an ephemeral entry directly in the directory, under a new key, younger than all entries there."),
	promise("write/revisions", writeRevisions,
		"Creation revisions rise from commit to commit, over all entries and sessions. A key that is created again has a new one."),
	promise("write/compare-and-set", writePut,
		"CompareAndSet writes a persistent entry if it has the expected version (0: no entry), and creates missing ancestors. Otherwise it returns ErrConflict, and nothing is written. Of several at once over one version, one succeeds."),
	promise("write/update", writeUpdate,
		"Update writes a new value to this incarnation, at any version; the version changes, revision and owner stay. Delete removes it, and returns only the key. Both return ErrNoEntry if it is gone. Get returns what was written last, or ErrNoEntry if there is nothing."),
	promise("write/update-of-anothers", writeUpdateOfAnothers,
		"Update of another session's ephemeral entry changes neither its owner nor its place: the entry goes with its owner, not with the writer. With IfUnchanged, Update is a compare-and-set."),
	promise("write/atomic", writeAtomic,
		"All ops of a commit are done, or none: an op that fails undoes the others. CreateEphemeral and Enqueue return ErrNoParent if the parent does not exist."),
}

func writeCreate(r *run) {
	s, other, dir := r.pair()
	key := dir + "/seat"
	e := s.create(key, "one")
	r.isNew("CreateEphemeral", e, key, "one", s.ID())
	for _, by := range []sess{s, other} {
		by.sees(e)
		by.refused("CreateEphemeral of a key that is taken", backend.ErrExists, nil, backend.CreateEphemeral(key, []byte("two")))
	}
	s.has("after refused CreateEphemerals", e)

	// Many commits try it at once.
	create := backend.CreateEphemeral(dir+"/another", nil)
	r.oneOf(16, s, other, backend.ErrExists, func(int) backend.Op { return create })
}

// oneOf commits n ops at once in two sessions. One op must succeed, and the others must be refused with
// refusal. It returns what was made.
func (r *run) oneOf(n int, s, other sess, refusal error, op func(i int) backend.Op) (made backend.Entry) {
	var tasks []*task[[]backend.Entry]
	for i := range n {
		op := op(i)
		tasks = append(tasks, []sess{s, other}[i%2].committing(op.Kind.String()+" at the same time as others", op))
	}
	won := 0
	for _, t := range tasks {
		out, err := t.result()
		if err != nil {
			r.Refused(t.what, err, refusal)
			continue
		}
		won++
		made = out[0]
	}
	r.FailIf(won != 1, "%d of %d commits succeeded, want 1: %s", won, n, tasks[0].what)
	return made
}

func writeEnqueue(r *run) {
	s, other, dir := r.pair()
	var all []backend.Entry
	for i := range 12 {
		by, value := []sess{s, other, s}[i%3], fmt.Sprint(i)
		e := by.enqueue(dir, value)
		r.isNew("enqueue", e, dir+"/"+path.Base(e.Key), value, by.ID())
		r.Must("enqueue chose a key that cannot be used", backend.CheckKey(e.Key))
		by.sees(e)
		all = append(all, e)
	}
	other.lists(dir, all...)
	s.lists(dir, all...)

	// At the same time, through few sessions.
	var tasks []*task[[]backend.Entry]
	for i := range 40 {
		by := []sess{s, other}[i%2]
		tasks = append(tasks, by.committing("enqueue", backend.Enqueue(dir, nil)))
	}
	rev := make(map[string]uint64)
	for _, e := range all {
		rev[e.Key] = e.Rev
	}
	for _, t := range tasks {
		e := t.value()[0]
		r.FailIf(rev[e.Key] != 0, "enqueue chose the key %q twice", e.Key)
		rev[e.Key] = e.Rev
	}
	var have []string
	r.Until("all enqueued entries are listed", func() bool {
		have = s.list(dir).Keys
		return len(have) == len(rev)
	})
	for i, key := range have {
		r.FailIf(rev[key] == 0, "list has %q, which nobody enqueued", key)
		if i > 0 && rev[key] <= rev[have[i-1]] {
			r.Failf("list has %q at revision %d after %q at revision %d", key, rev[key], have[i-1], rev[have[i-1]])
		}
	}
}

func writeRevisions(r *run) {
	s, other, dir := r.pair()
	last := backend.Entry{}
	rises := func(e backend.Entry) {
		r.FailIf(e.Rev <= last.Rev, "%s has revision %d, though it was created after %s with revision %d", e.Key, e.Rev, last.Key, last.Rev)
		last = e
	}
	for i := range 4 {
		e := s.create(dir+"/seat", "x")
		rises(e)
		rises(other.enqueue(dir, "x"))
		rises(s.put(fmt.Sprintf("%s%d", r.key("p"), i), "x", 0))
		rises(s.enqueue(dir, "x"))
		rises(other.put(fmt.Sprintf("%s%d", r.key("q"), i), "x", 0))
		s.delete(e)
	}
}

func writePut(r *run) {
	s := r.session()
	key := r.key("a/b/c")
	e := s.put(key, "one", 0)
	r.isNew("CompareAndSet", e, key, "one", "")
	s.get(r.key("a/b"))
	s.enqueue(r.key("a/b"), "the ancestors are directories like others")
	refuse := func(what string, version uint64) {
		s.refused(what, backend.ErrConflict, nil, backend.CompareAndSet(key, []byte("no"), version))
	}
	refuse("CompareAndSet over an entry, with version 0", 0)
	f := s.put(key, "two", e.Version)
	r.changed("CompareAndSet", e, f, "two")
	refuse("CompareAndSet over an old version", e.Version)
	s.has("after refused CompareAndSets", f)
	s.refused("CompareAndSet over an entry that does not exist", backend.ErrConflict, nil, backend.CompareAndSet(r.key("none"), nil, 1))
	s.none("get after the refused CompareAndSet", r.key("none"))

	other := r.session()
	for round := range 5 {
		other.sees(f)
		f = r.oneOf(6, s, other, backend.ErrConflict, func(i int) backend.Op {
			return backend.CompareAndSet(key, fmt.Appendf(nil, "%d by %d", round, i), f.Version)
		})
		s.sees(f)
	}
	other.sees(f)
	same := backend.CompareAndSet(key, []byte("same"), f.Version)
	f = other.commit(same)[0]
	s.refused("CompareAndSet that another session has made, with this value, over this version", backend.ErrConflict, nil, same)
	s.close()
	other.sees(f)
}

func writeUpdate(r *run) {
	s, other, dir := r.pair()
	for _, e := range s.threeKinds(dir) {
		other.sees(e)
		seen := map[uint64]bool{e.Version: true}
		for i := range 3 {
			f := s.set(e, fmt.Sprint(i)) // always with the first version
			r.changed("update", e, f, fmt.Sprint(i))
			r.FailIf(seen[f.Version], "update of %+v returned %+v, whose version is not new", e, f)
			seen[f.Version] = true
			s.has("after update", f)
		}
		got := s.commit(backend.Delete(e))[0]
		r.FailIf(got.Key != e.Key || got.Exists() || got.Version != 0 || len(got.Value) != 0 || got.Session != "", "delete of %+v returned %+v", e, got)
		s.refused("update of an entry that is gone", backend.ErrNoEntry, nil, backend.Update(e, nil))
		s.refused("delete of an entry that is gone", backend.ErrNoEntry, nil, backend.Delete(e))
		s.none("get after the refused writes", e.Key)
	}
	never := backend.Entry{Key: dir + "/never", Rev: 1}
	s.refused("delete of an entry that never existed", backend.ErrNoEntry, nil, backend.Delete(never))
	f := s.enqueue(dir, "y")
	other.sees(f)
	other.delete(f) // another session may delete it, too
	s.misses(f.Key)
	s.lists(dir)
	for _, key := range []string{r.key("never"), r.key("never/there"), never.Key} {
		s.none("get of an entry that never existed", key)
	}
}

// changed checks the entry that a write with a new value returned.
func (r *run) changed(what string, old, now backend.Entry, value string) {
	r.FailIf(now.Key != old.Key || now.Rev != old.Rev || now.Session != old.Session || !follows(now.Version, old.Version) || string(now.Value) != value,
		"%s of %q on %+v returned %+v", what, value, old, now)
}

// isNew checks the entry that a write to a free key returned.
func (r *run) isNew(what string, e backend.Entry, key, value, owner string) {
	r.FailIf(e.Key != key || string(e.Value) != value || !e.Exists() || e.Version != 1 || e.Session != owner,
		"%s returned %+v, want %s, %q, of session %q", what, e, key, value, owner)
}

func writeUpdateOfAnothers(r *run) {
	owner, writer, last := r.session(), r.session(), r.session()
	dir := owner.dir("d")
	for _, e := range []backend.Entry{owner.enqueue(dir, "0"), owner.create(dir+"/seat", "0")} {
		next := last.enqueue(dir, "next")
		writer.sees(e, next)
		check := func(what string, now backend.Entry, value string) {
			r.changed(what, e, now, value)
			owner.sees(now)
		}
		asked := writer.set(e, "asked")
		check("update by another session", asked, "asked")

		// The owner keeps it: for its own writes, as a condition, and in its place.
		owner.refused("update by the owner under a condition on the previous version", backend.ErrCondition,
			[]backend.Condition{backend.IfUnchanged(e)}, backend.Update(e, []byte("no")))
		made, err := owner.Commit(r.ctx, []backend.Condition{backend.IfExists(e), backend.IfUnchanged(asked)}, backend.Update(e, []byte("answered")))
		r.Must("update by the owner after an update by another session", err)
		check("update by the owner", made[0], "answered")
		if e.Key == dir+"/seat" { // a write by its key does not change the owner
			answered := writer.put(e.Key, "put", made[0].Version)
			check("compare-and-set by another session", answered, "put")
			check("compare-and-set by the owner", owner.put(e.Key, "put", answered.Version), "put")
		}
		writer.refused("update by another session under a condition on a version that the owner has overwritten", backend.ErrCondition,
			[]backend.Condition{backend.IfUnchanged(asked)}, backend.Update(e, []byte("late")))
		if e.Key != dir+"/seat" {
			before := last.predecessor(next)
			r.FailIf(before.Key != e.Key || before.Rev != e.Rev, "predecessor of %+v is %+v after another session has written to %+v", next, before, e)
		}
		last.delete(next)
	}

	// The entry does not end with the writer, but with the owner.
	e, gone := owner.get(dir+"/seat"), owner.create(dir+"/gone", "0")
	writer.sees(e)
	e = writer.set(e, "asked again")
	writer.sees(gone)
	for i := range 3 {
		writer.set(gone, fmt.Sprint("asked", i))
	}
	r.Must("discard of an entry that another session has written to", owner.Discard(r.ctx, gone))
	last.misses(gone.Key)
	writer.close()
	last.sees(e)
	_, err := last.Commit(r.ctx, []backend.Condition{backend.IfUnchanged(e)})
	r.Must("look for the entry after the writer's end", err)
	owner.close()
	last.misses(e.Key)
}

func writeAtomic(r *run) {
	s := r.session()
	dir, queues := s.dir("d"), s.dir("queues")
	seat := s.create(dir+"/seat", "x")
	record := s.put(r.key("record"), "x", 0)
	out := s.commit(
		backend.CompareAndSet(record.Key, []byte("y"), record.Version),
		backend.CompareAndSet(r.key("other/dir"), nil, 0),
		backend.Enqueue(dir, []byte("z")),
		backend.Update(seat, []byte("w")),
		backend.Enqueue(queues, []byte("v")),
	)
	for i, want := range []string{record.Key, r.key("other/dir"), out[2].Key, seat.Key, out[4].Key} {
		r.FailIf(out[i].Key != want || !out[i].Exists(), "op %d of a commit returned %+v, want the entry %s", i, out[i], want)
		s.has(fmt.Sprintf("after op %d of a commit", i), out[i])
	}
	s.lists(queues, out[4])
	r.isNew("the second enqueue of a commit", out[4], out[4].Key, "v", s.ID())
	queue, empty := s.list(dir).Keys, s.get(s.dir("empty"))
	s.refused("CreateEphemeral under an entry that the commit has deleted", backend.ErrNoParent, nil, backend.Delete(empty), backend.CreateEphemeral(empty.Key+"/seat", nil))
	s.has("after a refused commit", empty)
	for _, last := range []struct {
		op  backend.Op
		err error
	}{
		{backend.CreateEphemeral(seat.Key, nil), backend.ErrExists},
		{backend.CreateEphemeral(r.key("no/seat"), nil), backend.ErrNoParent},
		{backend.Enqueue(r.key("no"), nil), backend.ErrNoParent},
		{backend.Enqueue(r.key("no/where"), nil), backend.ErrNoParent},
		{backend.CompareAndSet(seat.Key+"x", nil, 7), backend.ErrConflict},
		{backend.Update(backend.Entry{Key: seat.Key, Rev: seat.Rev - 1}, nil), backend.ErrNoEntry},
		{backend.Delete(backend.Entry{Key: seat.Key, Rev: seat.Rev - 1}), backend.ErrNoEntry},
	} {
		fine := []backend.Op{
			backend.CompareAndSet(record.Key, []byte("no"), out[0].Version),
			backend.CompareAndSet(r.key("never"), nil, 0),
			backend.CreateEphemeral(dir+"/never", nil),
			backend.Enqueue(dir, []byte("no")),
			backend.Delete(out[1]),
		}
		bad := []backend.Op{last.op}
		for _, ops := range [][]backend.Op{bad, append(fine[:len(fine):len(fine)], last.op), append(bad, fine...)} {
			s.refused(fmt.Sprintf("commit of %d ops with a bad %v %s", len(ops), last.op.Kind, last.op.Key), last.err, nil, ops...)
		}
		for _, e := range out {
			s.has("after a refused commit", e)
		}
		for _, key := range []string{r.key("never"), dir + "/never", r.key("no")} {
			s.none("get of an entry that a refused commit would have created", key)
		}
		got := s.list(dir).Keys
		r.FailIf(len(got) != len(queue), "after a refused commit the queue is %q, it was %q", got, queue)
	}
}
