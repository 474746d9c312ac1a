package backendrules

import (
	"fmt"
	"strings"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
)

var commitRules = []rule{
	promise("write/compare-and-set-parent", writePutParent,
		"The ancestors that a CompareAndSet creates exist for the later ops of the same commit. A commit that is refused does not leave even them behind. Nothing is created below an ephemeral entry, at any depth: ErrNoParent."),
	promise("write/conflict", writeConflict,
		"Delete of an entry with children returns ErrConflict, under any conditions, and the commit writes nothing."),
	promise("write/too-large", writeTooLarge,
		"A commit within the limits of bytes and ops is done. A commit over a limit returns ErrTooLarge, which names the limit; it writes nothing, and the session continues."),
	promise("write/used-up", writeUsedUp,
		"When a directory has no sequence number left, Enqueue always returns ErrUsedUp, in every session, and creates nothing. The entries there keep their order.",
		"UseUp"),
}

func writePutParent(r *run) {
	s, other := r.session(), r.session()
	taken := s.create(s.dir("d")+"/seat", "x")
	for _, below := range []string{"/a", "/a/b", "/a/b/c"} {
		s.refused("CompareAndSet below an ephemeral entry", backend.ErrNoParent, nil, backend.CompareAndSet(taken.Key+below, nil, 0))
		s.none("get of an entry below an ephemeral one", taken.Key+"/a")
	}
	for _, top := range []string{"epoch", "epoch/a", "epoch/a/b"} {
		// The seat is made in the CompareAndSet's parent, and in the topmost ancestor that it makes.
		for i, dir := range []string{top, strings.Split(top, "/")[0]} {
			base := strings.ReplaceAll(top, "/", "-") + fmt.Sprint(i) + "-"
			put := backend.CompareAndSet(r.key(base+top+"/epoch"), []byte("1"), 0)
			seat, queue := r.key(base+dir+"/seat"), r.key(base+dir)
			made := r.key(base + "epoch") // the topmost

			for what, ops := range map[string][]backend.Op{
				"a CreateEphemeral of a key that is taken": {put, backend.CreateEphemeral(taken.Key, nil)},
				"a CreateEphemeral in a missing directory": {put, backend.CreateEphemeral(queue+"/no/seat", nil)},
				"a CompareAndSet of a missing entry":       {put, backend.CreateEphemeral(seat, nil), backend.CompareAndSet(taken.Key+"x", nil, 3)},
			} {
				if _, err := s.Commit(r.ctx, nil, ops...); err == nil {
					r.Failf("a CompareAndSet and %s were committed", what)
				}
				s.none("get of an ancestor that a refused commit would have created", made)
			}
			gone := backend.IfExists(backend.Entry{Key: r.key("never"), Rev: 1})
			s.refused("CompareAndSet and CreateEphemeral under a condition that does not hold", backend.ErrCondition, []backend.Condition{gone}, put, backend.CreateEphemeral(seat, nil))
			s.refused("CreateEphemeral before the CompareAndSet that creates its parent", backend.ErrNoParent, nil, backend.CreateEphemeral(seat, nil), put)
			parent := backend.Parent(put.Key)
			s.refused("CreateEphemeral of an entry that the CompareAndSet before it creates", backend.ErrExists, nil, put, backend.CreateEphemeral(parent, nil))
			s.refused("CompareAndSet of an entry that the CompareAndSet before it creates", backend.ErrConflict, nil, put, backend.CompareAndSet(parent, nil, 0))
			s.refused("Update of another incarnation of an entry that the CompareAndSet before it creates", backend.ErrNoEntry, nil, put, backend.Update(backend.Entry{Key: parent, Rev: 1}, nil))
			s.none("get of an ancestor that a refused commit would have created", made)

			out := s.commit(put, backend.CreateEphemeral(seat, []byte("x")), backend.Enqueue(queue, []byte("y")))
			r.FailIf(out[0].Rev == 0 || out[0].Rev != out[1].Rev || out[0].Rev != out[2].Rev, "the entries of one commit have no common revision: %+v", out)
			other.sees(out...)
			// The seat differs from its successor as any other does.
			s.guarded(base+" the seat", backend.IfExists(out[1]), true)
			s.delete(out[1])
			other.misses(seat)
			s.sees(other.create(seat, "x"))
			s.guarded(base+" the successor", backend.IfExists(out[1]), false)
		}
	}
}

func writeConflict(r *run) {
	s := r.session()
	record := s.put(r.key("record"), "x", 0)
	for name, child := range map[string]func(dir string) backend.Entry{
		"persistent": func(dir string) backend.Entry { return s.put(dir+"/child", "x", 0) },
		"exclusive":  func(dir string) backend.Entry { return s.create(dir+"/child", "x") },
		"enqueued":   func(dir string) backend.Entry { return s.enqueue(dir, "x") },
	} {
		e := child(s.dir(name))
		parent := s.get(r.key(name))
		for _, guards := range [][]backend.Condition{nil, {backend.IfExists(parent)}, {backend.IfUnchanged(parent)}, {backend.IfExists(e)}} {
			for _, ops := range [][]backend.Op{
				{backend.Delete(parent)},
				{backend.CompareAndSet(record.Key, []byte("no"), record.Version), backend.Delete(parent)},
				{backend.Delete(parent), backend.CompareAndSet(r.key("no"), nil, 0)},
				{backend.Delete(parent), backend.Delete(e)},
			} {
				s.refused(fmt.Sprintf("delete of an entry with a child that is %s", name), backend.ErrConflict, guards, ops...)
			}
		}
		// A child made by the commit itself counts, too.
		s.refused("delete of an entry whose child was created before it, in the same commit", backend.ErrConflict, nil,
			backend.CreateEphemeral(parent.Key+"/another", nil), backend.Delete(parent))
		for _, e := range []backend.Entry{record, parent, e} {
			s.has("after refused deletes", e)
		}
		s.none("get of an entry that a refused commit would have created", r.key("no"))
		s.commit(backend.Delete(e), backend.Delete(parent))
	}
	// If both are wrong, either error is right.
	never := backend.IfExists(backend.Entry{Key: r.key("never"), Rev: 1})
	_, err := s.Commit(r.ctx, []backend.Condition{never}, backend.CompareAndSet(record.Key, nil, record.Version+1))
	r.FailIf(!harness.IsAny(err, backend.ErrCondition, backend.ErrConflict),
		"CompareAndSet over another version, under a condition that does not hold: error is %v", harness.Text(err))
}

func writeTooLarge(r *run) {
	put := func(i, size int) backend.Op {
		return backend.CompareAndSet(fmt.Sprintf("/%d", i), make([]byte, size), 0)
	}
	if bytes := r.Service.MaxBytes; bytes > 0 {
		var parts, more []backend.Op
		for i := range 10 {
			parts = append(parts, put(i, bytes*9/100))
			more = append(more, put(i, bytes/10+1))
		}
		r.in("bytes", func() {
			writeLimit(r, bytes, [][]backend.Op{{put(0, bytes*9/10)}, parts}, [][]backend.Op{{put(0, bytes)}, more})
		})
	}
	if ops := r.Service.MaxOps; ops > 0 {
		var many []backend.Op
		for i := range 2 * ops {
			many = append(many, put(i, 0))
		}
		r.in("ops", func() {
			writeLimit(r, ops, [][]backend.Op{many[:max(1, ops*9/10)]}, [][]backend.Op{many[:ops+1], many})
		})
	}
	if r.cases == 0 {
		r.NotApplicable = fmt.Sprintf("no MaxBytes: %s; no MaxOps: %s", r.Service.Reason("MaxBytes"), r.Service.Reason("MaxOps"))
	}
}

// writeLimit tries commits within a limit and over it.
func writeLimit(r *run, limit int, within, over [][]backend.Op) {
	s := r.session()
	dir := s.dir("d")
	record := s.put(r.key("record"), "x", 0)
	held := s.enqueue(dir, "x")
	in := func(place string, ops []backend.Op) []backend.Op {
		var out []backend.Op
		for _, op := range ops {
			op.Key = place + op.Key
			out = append(out, op)
		}
		return out
	}
	for i, ops := range within {
		for _, e := range s.commit(in(s.dir(fmt.Sprint("within", i)), ops)...) {
			s.delete(e)
		}
	}
	for _, ops := range over {
		ops := append([]backend.Op{backend.CompareAndSet(record.Key, nil, record.Version), backend.Enqueue(dir, nil)}, in(r.key("over/it"), ops)...)
		_, err := s.Commit(r.ctx, []backend.Condition{backend.IfExists(held)}, ops...)
		r.Refused("commit over the limit", err, backend.ErrTooLarge)
		r.FailIf(!strings.Contains(err.Error(), fmt.Sprint(limit)), "the limit is %d, but the error does not say so: %q", limit, err)
	}
	s.has("after commits over the limit", record)
	s.none("get of an ancestor that a commit over the limit would have created", r.key("over"))
	s.lists(dir, held)
	s.lives()
	s.put(record.Key, "y", record.Version)
}

func writeUsedUp(r *run) {
	s := r.session()
	dir, elsewhere := s.dir("d"), s.dir("elsewhere")
	made := s.get(dir)
	s.delete(s.enqueue(dir, "x"))
	s.close()
	r.Must("use up "+dir, r.Service.UseUp(dir, 3))

	sessions := []sess{r.session(), r.session(), r.session()}
	var stand []backend.Entry
	for i := range 3 {
		stand = append(stand, sessions[2-i].enqueue(dir, "x"))
	}
	refused := func(when string) {
		for _, s := range sessions {
			s.refused("enqueue "+when, backend.ErrUsedUp, nil, backend.Enqueue(dir, []byte("late")))
			s.refused("create and enqueue "+when, backend.ErrUsedUp, nil, backend.CreateEphemeral(dir+"/seat", nil), backend.Enqueue(dir, nil))
			s.none("get of an entry that was to be created together with an enqueue "+when, dir+"/seat")
		}
		for _, s := range sessions {
			s.lists(dir, stand...)
		}
	}
	refused("when no sequence number is left")
	for i, e := range stand[1:] {
		sessions[0].comesAfter(e, stand[i])
	}
	for len(stand) > 0 {
		sessions[0].delete(stand[0])
		stand = stand[1:]
		refused("after some entries were deleted")
	}
	// Another directory has its own numbers, and so has the next one of the same name.
	sessions[1].lists(elsewhere, sessions[0].enqueue(elsewhere, "x"))
	sessions[0].delete(made)
	sessions[0].put(dir, "", 0)
	sessions[0].lists(dir, sessions[0].enqueue(dir, "x"))
}
