package backendrules

import (
	"bytes"
	"context"
	"fmt"

	"github.com/elector-go/elector/backend"
)

var writeRules = []rule{
	{
		Name: "write/create-ephemeral",
		Text: "CreateEphemeral makes an ephemeral entry of this session, exclusively: ErrExists if the key is taken, and then nothing is written.",
		Run:  writeCreate,
	}, {
		Name: "write/enqueue",
		Text: "Enqueue makes an ephemeral entry directly in the directory, under a new key, younger than all there.",
		Run:  writeEnqueue,
	}, {
		Name: "write/revisions",
		Text: "Creation revisions rise from commit to commit over all entries and sessions, and a key made anew has a new one.",
		Run:  writeRevisions,
	}, {
		Name: "write/no-parent",
		Text: "CreateEphemeral and Enqueue where the parent does not exist are ErrNoParent, and nothing is written.",
		Run:  writeNoParent,
	}, {
		Name: "write/compare-and-set",
		Text: "CompareAndSet writes a persistent entry if the version is the one expected (0: no entry), and makes missing ancestors; ErrConflict otherwise, and then nothing is written.",
		Run:  writePut,
	}, {
		Name: "write/compare-and-set-race",
		Text: "Of several sessions that CompareAndSet over the same version, one succeeds and the others get ErrConflict.",
		Run:  writePutRace,
	}, {
		Name: "write/update",
		Text: "Update writes a new value to this incarnation, whatever its version, which changes; revision and owner stay. ErrNoEntry if it is gone.",
		Run:  writeSet,
	}, {
		Name: "write/update-of-anothers",
		Text: "Update of another session's ephemeral entry leaves it to its owner, in its place: it goes with the owner and not with the writer. IfUnchanged makes it compare-and-set.",
		Run:  writeUpdateOfAnothers,
	}, {
		Name: "write/delete",
		Text: "Delete removes this incarnation and returns the key alone. ErrNoEntry if it is gone.",
		Run:  writeDelete,
	}, {
		Name: "write/atomic",
		Text: "All ops of a commit are done, or none: an op that fails undoes the others.",
		Run:  writeAtomic,
	},
}

func writeCreate(r *run) {
	s, other := r.session(), r.session()
	dir := s.dir("d")
	key := dir + "/seat"
	e := s.create(key, "one")
	if e.Key != key || string(e.Value) != "one" || e.Rev == 0 || e.Version != 1 || e.Session != s.ID() {
		r.Failf("create returned %+v, session %q", e, s.ID())
	}
	for _, reader := range []sess{s, other} {
		reader.sees(e)
		if got := reader.get(key); string(got.Value) != "one" || got.Session != s.ID() {
			r.Failf("get returned %+v after create returned %+v", got, e)
		}
	}
	for _, writer := range []sess{s, other} {
		_, err := writer.Commit(r.ctx, nil, backend.CreateEphemeral(key, []byte("two")))
		r.Refused("create of a key that is taken", err, backend.ErrExists)
	}
	if got := s.get(key); !got.Same(e) || string(got.Value) != "one" {
		r.Failf("refused creates changed %+v to %+v", e, got)
	}

	// Many want it at once: one gets it.
	key = dir + "/another"
	var tasks []*task[[]backend.Entry]
	for range 8 {
		for _, writer := range []sess{s, other} {
			tasks = append(tasks, start(r, "create", func(ctx context.Context) ([]backend.Entry, error) {
				return writer.Commit(ctx, nil, backend.CreateEphemeral(key, nil))
			}))
		}
	}
	won := 0
	for _, t := range tasks {
		if _, err := t.result(); err == nil {
			won++
		} else {
			r.Refused("create of a key that is taken", err, backend.ErrExists)
		}
	}
	if won != 1 {
		r.Failf("%d of %d creates of the same key succeeded", won, len(tasks))
	}
}

func writeEnqueue(r *run) {
	s, other := r.session(), r.session()
	dir := s.dir("d")
	other.sees(s.get(dir))
	var all []backend.Entry
	for i := range 12 {
		by := s
		if i%3 == 1 {
			by = other
		}
		value := fmt.Sprint(i)
		e := by.enqueue(dir, value)
		if backend.Parent(e.Key) != dir || string(e.Value) != value || e.Rev == 0 || e.Version != 1 || e.Session != by.ID() {
			r.Failf("enqueue returned %+v, session %q", e, by.ID())
		}
		if err := backend.CheckKey(e.Key); err != nil {
			r.Failf("enqueue chose a key that cannot be used: %v", err)
		}
		by.sees(e)
		all = append(all, e)
	}
	other.lists(dir, all...)
	s.lists(dir, all...)

	// At the same time, through few sessions.
	var tasks []*task[[]backend.Entry]
	for i := range 40 {
		by := []sess{s, other}[i%2]
		tasks = append(tasks, start(r, "enqueue", func(ctx context.Context) ([]backend.Entry, error) {
			return by.Commit(ctx, nil, backend.Enqueue(dir, nil))
		}))
	}
	rev := make(map[string]uint64)
	for _, e := range all {
		rev[e.Key] = e.Rev
	}
	for _, t := range tasks {
		e := t.value()[0]
		if rev[e.Key] != 0 {
			r.Failf("enqueue chose the key %q twice", e.Key)
		}
		rev[e.Key] = e.Rev
	}
	var have []string
	r.Until("all enqueued entries are listed", func() bool {
		have = s.list(dir).Keys
		return len(have) == len(rev)
	})
	for i, key := range have {
		if rev[key] == 0 {
			r.Failf("list has %q, which nobody enqueued", key)
		}
		if i > 0 && rev[key] <= rev[have[i-1]] {
			r.Failf("list has %q at revision %d after %q at revision %d", key, rev[key], have[i-1], rev[have[i-1]])
		}
	}
}

func writeRevisions(r *run) {
	s, other := r.session(), r.session()
	dir := s.dir("d")
	other.sees(s.get(dir))
	last := backend.Entry{}
	rises := func(e backend.Entry) {
		if e.Rev <= last.Rev {
			r.Failf("%s has revision %d, made after %s with revision %d", e.Key, e.Rev, last.Key, last.Rev)
		}
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

func writeNoParent(r *run) {
	s := r.session()
	for _, op := range []backend.Op{
		backend.CreateEphemeral(r.key("no/seat"), nil),
		backend.Enqueue(r.key("no"), nil),
		backend.Enqueue(r.key("no/where"), nil),
	} {
		_, err := s.Commit(r.ctx, nil, op)
		r.Refused(fmt.Sprintf("%v %s without a parent", op.Kind, op.Key), err, backend.ErrNoParent)
	}
	_, err := s.Get(r.ctx, r.key("no"))
	r.Refused("get of the parent", err, backend.ErrNoEntry)
}

func writePut(r *run) {
	s := r.session()
	key := r.key("a/b/c")
	e := s.put(key, "one", 0)
	if e.Key != key || string(e.Value) != "one" || e.Rev == 0 || e.Version != 1 || e.Session != "" {
		r.Failf("put returned %+v", e)
	}
	s.get(r.key("a/b"))
	s.enqueue(r.key("a/b"), "the ancestors are directories like others")
	refuse := func(what string, version uint64) {
		_, err := s.Commit(r.ctx, nil, backend.CompareAndSet(key, []byte("no"), version))
		r.Refused(what, err, backend.ErrConflict)
	}
	refuse("put over an entry, expecting none", 0)
	f := s.put(key, "two", e.Version)
	if f.Key != key || string(f.Value) != "two" || f.Rev != e.Rev || f.Version == e.Version || f.Version == 0 || f.Session != "" {
		r.Failf("put over %+v returned %+v", e, f)
	}
	refuse("put over an old version", e.Version)
	if got := s.get(key); !got.Same(f) || string(got.Value) != "two" {
		r.Failf("refused puts changed %+v to %+v", f, got)
	}
	_, err := s.Commit(r.ctx, nil, backend.CompareAndSet(r.key("none"), nil, 1))
	r.Refused("put over an entry that does not exist", err, backend.ErrConflict)
	_, err = s.Get(r.ctx, r.key("none"))
	r.Refused("get after the refused put", err, backend.ErrNoEntry)

	other := r.session()
	r.Must("close", s.Close(r.ctx))
	other.sees(f)
}

func writePutRace(r *run) {
	s, other := r.session(), r.session()
	e := s.put(r.key("counter"), "0", 0)
	other.sees(e)
	for round := range 5 {
		var tasks []*task[[]backend.Entry]
		was := e
		for i := range 6 {
			by := []sess{s, other}[i%2]
			tasks = append(tasks, start(r, "put", func(ctx context.Context) ([]backend.Entry, error) {
				return by.Commit(ctx, nil, backend.CompareAndSet(was.Key, fmt.Appendf(nil, "%d by %d", round, i), was.Version))
			}))
		}
		won := 0
		for _, t := range tasks {
			out, err := t.result()
			if err != nil {
				r.Refused("put over a version that another wrote over", err, backend.ErrConflict)
				continue
			}
			won++
			e = out[0]
		}
		if won != 1 {
			r.Failf("%d of %d puts over the same version succeeded", won, len(tasks))
		}
		s.sees(e)
		other.sees(e)
		if got := s.get(e.Key); !bytes.Equal(got.Value, e.Value) {
			r.Failf("the put of %q succeeded, and the value is %q", e.Value, got.Value)
		}
	}
}

func writeSet(r *run) {
	s := r.session()
	dir := s.dir("d")
	for _, e := range []backend.Entry{s.enqueue(dir, "0"), s.create(dir+"/seat", "0"), s.put(dir+"/p", "0", 0)} {
		seen := map[uint64]bool{e.Version: true}
		for i := range 3 {
			value := fmt.Sprint(i + 1)
			f := s.set(e, value) // always with the first version
			if f.Key != e.Key || f.Rev != e.Rev || f.Session != e.Session || string(f.Value) != value || seen[f.Version] {
				r.Failf("set of %q on %+v returned %+v", value, e, f)
			}
			seen[f.Version] = true
			if got := s.get(e.Key); !got.Same(f) || string(got.Value) != value || got.Session != e.Session {
				r.Failf("get returned %+v after set returned %+v", got, f)
			}
		}
		s.delete(e)
		_, err := s.Commit(r.ctx, nil, backend.Update(e, nil))
		r.Refused("set on an entry that is gone", err, backend.ErrNoEntry)
		_, err = s.Get(r.ctx, e.Key)
		r.Refused("get after the refused set", err, backend.ErrNoEntry)
	}
}

func writeUpdateOfAnothers(r *run) {
	owner, writer, last := r.session(), r.session(), r.session()
	dir := owner.dir("d")
	for _, e := range []backend.Entry{owner.enqueue(dir, "0"), owner.create(dir+"/seat", "0")} {
		next := last.enqueue(dir, "next")
		writer.sees(e)
		writer.sees(next)
		check := func(what string, now backend.Entry, value string) {
			if now.Key != e.Key || now.Rev != e.Rev || now.Session != owner.ID() || now.Version == e.Version || string(now.Value) != value {
				r.Failf("%s on %+v of session %s returned %+v", what, e, owner.ID(), now)
			}
			owner.sees(now)
		}
		asked := writer.set(e, "asked")
		check("update by another session", asked, "asked")

		// The owner goes on to have it: for its own writes, as a condition, and in its place.
		_, err := owner.Commit(r.ctx, []backend.Condition{backend.IfUnchanged(e)}, backend.Update(e, []byte("no")))
		r.Refused("update by the owner of the version before", err, backend.ErrCondition)
		made, err := owner.Commit(r.ctx, []backend.Condition{backend.IfExists(e), backend.IfUnchanged(asked)}, backend.Update(e, []byte("answered")))
		r.Must("update by the owner of what another session has written", err)
		check("update by the owner", made[0], "answered")
		_, err = writer.Commit(r.ctx, []backend.Condition{backend.IfUnchanged(asked)}, backend.Update(e, []byte("late")))
		r.Refused("update by another session over what the owner has written since", err, backend.ErrCondition)
		if dir == backend.Parent(e.Key) && e.Key != dir+"/seat" {
			if before := last.predecessor(next); before.Key != e.Key || before.Rev != e.Rev {
				r.Failf("predecessor of %+v is %+v after another session has written to %+v", next, before, e)
			}
		}
		last.delete(next)
	}

	// The writer's end is not the entry's, and the owner's is.
	e, gone := owner.get(dir+"/seat"), owner.create(dir+"/gone", "0")
	writer.sees(e)
	e = writer.set(e, "asked again")
	writer.sees(gone)
	writer.set(gone, "asked")
	r.Must("discard of an entry that another session has written to", owner.Discard(r.ctx, gone))
	r.Must("close the writer", writer.Close(r.ctx))
	last.sees(e)
	_, err := last.Commit(r.ctx, []backend.Condition{backend.IfUnchanged(e)})
	r.Must("look for the entry after the writer's end", err)
	r.Must("close the owner", owner.Close(r.ctx))
	last.misses(e.Key)
	last.misses(gone.Key)
}

func writeDelete(r *run) {
	s, other := r.session(), r.session()
	dir := s.dir("d")
	e, f := s.enqueue(dir, "x"), s.enqueue(dir, "y")
	g := s.set(e, "z")
	out := s.commit(backend.Delete(e)) // whatever the version
	if got := out[0]; got.Key != e.Key || got.Exists() || got.Version != 0 || len(got.Value) != 0 || got.Session != "" {
		r.Failf("delete of %+v returned %+v", g, got)
	}
	_, err := s.Get(r.ctx, e.Key)
	r.Refused("get of a deleted entry", err, backend.ErrNoEntry)
	s.lists(dir, f)
	_, err = s.Commit(r.ctx, nil, backend.Delete(e))
	r.Refused("delete of a deleted entry", err, backend.ErrNoEntry)
	_, err = s.Commit(r.ctx, nil, backend.Delete(backend.Entry{Key: dir + "/never", Rev: e.Rev}))
	r.Refused("delete of an entry that never was", err, backend.ErrNoEntry)
	// Another session may do it, too.
	other.sees(f)
	other.delete(f)
	s.misses(f.Key)
}

func writeAtomic(r *run) {
	s := r.session()
	dir := s.dir("d")
	seat := s.create(dir+"/seat", "x")
	record := s.put(r.key("record"), "x", 0)
	out := s.commit(
		backend.CompareAndSet(record.Key, []byte("y"), record.Version),
		backend.CompareAndSet(r.key("other/dir"), nil, 0),
		backend.Enqueue(dir, []byte("z")),
		backend.Update(seat, []byte("w")),
	)
	for i, want := range []string{record.Key, r.key("other/dir"), out[2].Key, seat.Key} {
		if out[i].Key != want || !out[i].Exists() {
			r.Failf("op %d of a commit returned %+v, want the entry %s", i, out[i], want)
		}
		if got := s.get(want); !got.Same(out[i]) {
			r.Failf("op %d of a commit returned %+v, and there is %+v", i, out[i], got)
		}
	}
	queue := s.list(dir).Keys
	for _, last := range []struct {
		op  backend.Op
		err error
	}{
		{backend.CreateEphemeral(seat.Key, nil), backend.ErrExists},
		{backend.CreateEphemeral(r.key("no/seat"), nil), backend.ErrNoParent},
		{backend.Enqueue(r.key("no"), nil), backend.ErrNoParent},
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
		for _, ops := range [][]backend.Op{append(fine[:len(fine):len(fine)], last.op), append([]backend.Op{last.op}, fine...)} {
			_, err := s.Commit(r.ctx, nil, ops...)
			r.Refused(fmt.Sprintf("commit with a bad %v %s", last.op.Kind, last.op.Key), err, last.err)
		}
		for i, e := range out {
			if got := s.get(e.Key); !got.Same(out[i]) {
				r.Failf("a refused commit changed %+v to %+v", out[i], got)
			}
		}
		for _, key := range []string{r.key("never"), dir + "/never"} {
			_, err := s.Get(r.ctx, key)
			r.Refused("get of what a refused commit would have made", err, backend.ErrNoEntry)
		}
		if got := s.list(dir).Keys; len(got) != len(queue) {
			r.Failf("after a refused commit the queue is %q, it was %q", got, queue)
		}
	}
}
