package backendrules

import (
	"fmt"
	"strings"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
)

var commitRules = []rule{
	promise("write/compare-and-set-parent", writePutParent,
		"The ancestors that a CompareAndSet makes stand for the ops after it, in the same commit; of a commit that is refused not even they are left."),
	promise("write/conflict", writeConflict,
		"Delete of an entry that has children is ErrConflict, whatever its guards, and nothing is written."),
	promise("write/too-large", writeTooLarge,
		"A commit within the limits of bytes and ops is done; one that is over one is ErrTooLarge, which names the limit, nothing is written, and the session lives on."),
	promise("write/used-up", writeUsedUp,
		"Where a directory has no number left Enqueue is ErrUsedUp, whoever asks and however often, and leaves nothing; the entries there keep their order.",
		"UseUp"),
}

func writePutParent(r *run) {
	s, other := r.session(), r.session()
	taken := s.create(s.dir("d")+"/seat", "x")
	for _, top := range []string{"epoch", "epoch/a", "epoch/a/b"} {
		// The seat is made in the CompareAndSet's parent, and in the topmost ancestor that it makes.
		for i, dir := range []string{top, strings.Split(top, "/")[0]} {
			base := strings.ReplaceAll(top, "/", "-") + fmt.Sprint(i) + "-"
			put := backend.CompareAndSet(r.key(base+top+"/epoch"), []byte("1"), 0)
			seat, queue := r.key(base+dir+"/seat"), r.key(base+dir)
			made := r.key(base + "epoch") // the topmost

			for what, ops := range map[string][]backend.Op{
				"a seat that is taken": {put, backend.CreateEphemeral(taken.Key, nil)},
				"another directory":    {put, backend.CreateEphemeral(queue+"/no/seat", nil)},
				"a put over nothing":   {put, backend.CreateEphemeral(seat, nil), backend.CompareAndSet(taken.Key+"x", nil, 3)},
			} {
				if _, err := s.Commit(r.ctx, nil, ops...); err == nil {
					r.Failf("a put and %s were committed", what)
				}
				s.none("get of an ancestor that a refused commit would have made", made)
			}
			gone := backend.IfExists(backend.Entry{Key: r.key("never"), Rev: 1})
			s.refused("put and create with a guard that does not hold", backend.ErrCondition, []backend.Condition{gone}, put, backend.CreateEphemeral(seat, nil))
			s.refused("create before the put that makes its parent", backend.ErrNoParent, nil, backend.CreateEphemeral(seat, nil), put)
			parent := backend.Parent(put.Key)
			s.refused("create of what the put before it makes", backend.ErrExists, nil, put, backend.CreateEphemeral(parent, nil))
			s.refused("put of what the put before it makes", backend.ErrConflict, nil, put, backend.CompareAndSet(parent, nil, 0))
			s.refused("update of nothing where the put before it makes something", backend.ErrNoEntry, nil, put, backend.Update(backend.Entry{Key: parent, Rev: 1}, nil))
			s.none("get of an ancestor that a refused commit would have made", made)

			out := s.commit(put, backend.CreateEphemeral(seat, []byte("x")), backend.Enqueue(queue, []byte("y")))
			r.FailIf(out[0].Rev == 0 || out[0].Rev != out[1].Rev || out[0].Rev != out[2].Rev, "one commit made %+v", out)
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
		s.refused("delete of an entry whose child was made before it, in the same commit", backend.ErrConflict, nil,
			backend.CreateEphemeral(parent.Key+"/another", nil), backend.Delete(parent))
		for _, e := range []backend.Entry{record, parent, e} {
			s.has("after refused deletes", e)
		}
		s.none("get of what a refused commit would have made", r.key("no"))
		s.commit(backend.Delete(e), backend.Delete(parent))
	}
	// If both are wrong, either error is right.
	never := backend.IfExists(backend.Entry{Key: r.key("never"), Rev: 1})
	_, err := s.Commit(r.ctx, []backend.Condition{never}, backend.CompareAndSet(record.Key, nil, record.Version+1))
	r.FailIf(!harness.IsAny(err, backend.ErrCondition, backend.ErrConflict),
		"put over another version with a guard that does not hold: error is %v", harness.Text(err))
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
		r.FailIf(!strings.Contains(err.Error(), fmt.Sprint(limit)), "the limit is %d, and the error does not say so: %q", limit, err)
	}
	s.has("after commits over the limit", record)
	s.none("get of an ancestor of what a commit over the limit would have made", r.key("over"))
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
			s.none("get of what was to be created with an enqueue "+when, dir+"/seat")
		}
		for _, s := range sessions {
			s.lists(dir, stand...)
		}
	}
	refused("past the end of the numbers")
	for i, e := range stand[1:] {
		sessions[0].comesAfter(e, stand[i])
	}
	for len(stand) > 0 {
		sessions[0].delete(stand[0])
		stand = stand[1:]
		refused("after some have gone")
	}
	// Another directory has its own numbers, and so has the next one of the same name.
	sessions[1].lists(elsewhere, sessions[0].enqueue(elsewhere, "x"))
	sessions[0].delete(made)
	sessions[0].put(dir, "", 0)
	sessions[0].lists(dir, sessions[0].enqueue(dir, "x"))
}
