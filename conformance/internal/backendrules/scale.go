package backendrules

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
)

// What is right once and for one must be right for many, for long, and each time.
var scaleRules = []rule{
	promise("scale/commit", scaleCommit,
		"A commit of a hundred ops does and returns the same as a hundred commits of one op, also with a value of 100 kB. The caller may reuse the value's bytes afterwards."),
	{
		Name: "scale/directory",
		Text: "In a directory of hundreds of entries, created with other writes in between, each entry is listed, in order, and its predecessor is the entry before it.",
		Long: "it makes hundreds of commits",
		Run:  scaleDirectory,
	}, {
		Name: "scale/again",
		Text: "A session that has lost its link many times works like one that never did: waits return, discarded entries are removed, and writes are done.",
		Need: []string{"Suspend"},
		Long: "its link is cut and comes back several times",
		Run:  scaleAgain,
	},
}

func scaleCommit(r *run) {
	s, other, dir := r.pair()
	n, half := 100, 100
	if most := r.Service.MaxOps; most > 0 {
		n, half = min(n, most*3/4), min(half, most/4) // the backend may need the rest: most ops have conditions
	}
	value := func(of string, i int) string { return fmt.Sprintf("%s %d", of, i) }
	var ops []backend.Op
	for i := range n {
		ops = append(ops, backend.CompareAndSet(fmt.Sprintf("%s/%d", dir, i), []byte(value("first", i)), 0))
	}
	made := s.commit(ops...)
	for i, e := range made {
		r.isNew(fmt.Sprintf("CompareAndSet %d of %d", i, n), e, ops[i].Key, value("first", i), "")
		ops[i] = backend.Update(e, []byte(value("second", i)))
	}
	other.sees(made...)
	var changed []backend.Entry
	for some := range slices.Chunk(ops, half) {
		changed = append(changed, s.commit(some...)...)
	}
	for i, e := range changed {
		r.changed(fmt.Sprintf("Update %d of %d", i, n), made[i], e, value("second", i))
		ops[i] = backend.Delete(e)
	}
	for some := range slices.Chunk(ops, half) {
		bad := slices.Clone(some)
		bad[len(bad)-1].Rev++
		s.refused("a commit whose last op names an entry that does not exist", backend.ErrNoEntry, nil, bad...)
	}
	other.sees(changed...)
	for some := range slices.Chunk(ops, half) {
		s.commit(some...)
	}
	other.misses(harness.Keys(changed)...)

	size := 100 << 10
	if most := r.Service.MaxBytes; most > 0 {
		size = min(size, most/2)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	e := s.commit(backend.Enqueue(dir, large))[0]
	want := bytes.Clone(large)
	clear(large) // it belongs to the caller again
	if e.Value = want; !bytes.Equal(s.get(e.Key).Value, want) {
		r.Failf("a value of %d bytes did not come back as it was written", size)
	}
	other.sees(e)
}

func scaleDirectory(r *run) {
	const n, apart = 300, 100
	s, other, dir := r.pair()
	writes := other.put(r.key("writes"), "x", 0)
	var all []backend.Entry
	for i := range n {
		all = append(all, []sess{other, s, s}[i%3].enqueue(dir, "x"))
		if i%(n/3) == 0 { // so that these are far apart in the order of all writes
			for range apart {
				writes = other.set(writes, "x")
			}
		}
	}
	for _, of := range []uint64{1, 256} {
		other.refused(fmt.Sprintf("CompareAndSet over the version that is lower by %d", of), backend.ErrConflict, nil, backend.CompareAndSet(writes.Key, nil, writes.Version-of))
	}
	s.lists(dir, all...)
	s.comesAfter(all[n-1], all[n-2])
	s.comesAfter(all[n/2], all[n/2-1])
	s.comesAfter(all[0], backend.Entry{})
	for some := range slices.Chunk(slices.Clone(all[1:n-1]), 40) { // all between the first and the last
		var ops []backend.Op
		for _, e := range some {
			ops = append(ops, backend.Delete(e))
		}
		s.commit(ops...)
	}
	s.comesAfter(all[n-1], all[0])
	s.lists(dir, all[0], all[n-1])
}

func scaleAgain(r *run) {
	const links, removals = 4, 7
	c, s, other, dir := r.process((*run).open)
	for n := range links {
		e := s.enqueue(dir, "x")
		waiting := s.waits(e)
		var leave []backend.Entry
		for i := range removals {
			leave = append(leave, s.create(fmt.Sprintf("%s/%d-%d", dir, n, i), "x"))
		}
		r.linkAgain(c, s)
		for _, left := range leave { // all of them are pending at once
			r.tasks.Go(func() { _ = s.Discard(r.ctx, left) })
		}
		s.put(r.key(fmt.Sprint("after", n)), "x", 0)
		other.sees(e)
		other.delete(e)
		isGone(waiting)
		other.misses(harness.Keys(leave)...)
	}
	s.lives()
}
