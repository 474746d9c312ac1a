package backendrules

import (
	"fmt"
	"slices"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
	"github.com/elector-go/elector/conformance/kit"
)

// doubtRules are about commits whose reply was lost and that are hard to tell from others' writes.
var doubtRules = []rule{
	promise("lost-reply/deleted", doubtDeleted,
		"If a commit was done, its reply was lost, and somebody has since deleted its entry, it returns ErrIndeterminate or is done once more. It never returns a plain failure.",
		"Delete", "CutReply"),
	promise("lost-reply/overwritten", doubtOverwritten,
		"If a commit of several CompareAndSets was done, its reply was lost, and others have since overwritten one of the entries, it never returns a plain failure, and it is not done again.",
		"CutReply"),
	promise("lost-reply/not-mine", doubtNotMine,
		"A commit that was refused, and whose reply was lost, never succeeds because another session has made the same commit.",
		"LoseReply"),
	promise("lost-reply/race", doubtRace,
		"When sessions commit the same CompareAndSet and CreateEphemeral at once, and replies and requests are lost, the session whose commit was done gets nil or ErrIndeterminate, and no other session gets nil.",
		"LoseRequest", "LoseReply"),
}

// cutOff starts a commit whose reply is lost, and waits until it is done.
func (s sess) cutOff(c *kit.Client, by sess, ops ...backend.Op) *task[[]backend.Entry] {
	was := s.at(ops[0].Key)
	s.r.Until("both sessions see the same", func() bool { return by.at(ops[0].Key) == was })
	c.CutReply(ops[0].Kind)
	commit := s.committing(fmt.Sprintf("%v with a lost reply", ops[0].Kind), ops...)
	s.r.Until("the commit is done", func() bool { return by.at(ops[0].Key) != was })
	commit.blocked("its outcome is not known yet")
	return commit
}

// at describes key: its entry and what is enqueued in it.
func (s sess) at(key string) string {
	e, err := s.Get(s.r.ctx, key)
	return fmt.Sprint(e.Rev, e.Version, err != nil, s.list(key).Keys)
}

// truth checks the result of a commit that was done and whose reply was lost: either it cannot know, or
// it returns what it made, which exists if it is ephemeral.
func (s sess) truth(what string, commit *task[[]backend.Entry]) (made []backend.Entry, err error) {
	made, err = commit.result()
	if err != nil {
		s.r.Refused(what, err, backend.ErrIndeterminate)
		for _, plain := range []error{backend.ErrConflict, backend.ErrExists, backend.ErrCondition, backend.ErrNoEntry, backend.ErrNoParent} {
			s.r.FailIf(harness.IsAny(err, plain), "%s: the error is %q, which says that nothing was written: %q", what, plain, err)
		}
		return nil, err
	}
	for _, e := range made {
		if got, err := s.Get(s.r.ctx, e.Key); e.Session != "" && (err != nil || !got.Same(e)) {
			s.r.Failf("%s: it returned %+v, but the entry is %+v", what, e, got)
		}
	}
	return made, nil
}

func doubtDeleted(r *run) {
	c, s, other, dir := r.process((*run).open)
	epoch, seat := s.put(r.key("epoch"), "0", 0), dir+"/seat"
	claim := func(e backend.Entry, value string) []backend.Op {
		return []backend.Op{backend.CompareAndSet(e.Key, []byte(value), e.Version), backend.CreateEphemeral(seat, []byte(value))}
	}
	one := func(op backend.Op) func() []backend.Op { return func() []backend.Op { return []backend.Op{op} } }
	half := func() []backend.Op {
		return []backend.Op{backend.CreateEphemeral(seat, nil), backend.Enqueue(dir, nil)}
	}
	remove := func(key string) { r.Must("delete", r.Service.Delete(key)) }
	for what, try := range map[string]struct {
		ops       func() []backend.Op
		meanwhile func()
	}{
		"CreateEphemeral": {one(backend.CreateEphemeral(seat, []byte("x"))), func() { remove(seat) }},
		"CreateEphemeral of a key that is then taken": {one(backend.CreateEphemeral(seat, []byte("x"))), func() { remove(seat); other.create(seat, "x") }},
		"Enqueue":       {one(backend.Enqueue(dir, []byte("x"))), func() { remove(other.list(dir).Keys[0]) }},
		"CompareAndSet": {one(backend.CompareAndSet(r.key("p"), []byte("x"), 0)), func() { remove(r.key("p")) }},
		"CompareAndSet of a key that is then taken":        {one(backend.CompareAndSet(r.key("p"), []byte("x"), 0)), func() { remove(r.key("p")); other.put(r.key("p"), "y", 0) }},
		"CompareAndSet and CreateEphemeral":                {func() []backend.Op { return claim(s.get(epoch.Key), "x") }, func() { remove(seat) }},
		"CompareAndSet and CreateEphemeral in a directory": {func() []backend.Op { return claim(s.get(epoch.Key), "y") }, func() { remove(dir) }},
		"CreateEphemeral and Enqueue":                      {half, func() { remove(seat) }},
		"Enqueue and CreateEphemeral":                      {half, func() { remove(other.list(dir).Keys[0]) }},
		"CompareAndSet, Enqueue and CreateEphemeral": {func() []backend.Op {
			ops := claim(s.get(epoch.Key), "z")
			return []backend.Op{ops[0], backend.Enqueue(dir, nil), ops[1]}
		}, func() { remove(seat) }},
		"CompareAndSet of a new key, and CreateEphemeral": {func() []backend.Op { return claim(backend.Entry{Key: r.key("new")}, "x") }, func() { remove(r.key("new")) }},
	} {
		ops := try.ops()
		commit := s.cutOff(c, other, ops...)
		try.meanwhile()
		c.Resume()
		made, err := s.truth(what+", deleted since", commit)
		if err == nil {
			s.lists(dir, slices.DeleteFunc(made, func(e backend.Entry) bool { return backend.Parent(e.Key) != dir || e.Key == seat })...)
		} else {
			// What it has left goes.
			r.Until("nothing is left of the "+what, func() bool {
				e, err := s.Get(r.ctx, seat)
				return (err != nil || e.Session != s.ID()) && len(s.list(dir).Keys) == 0
			})
		}
		if e := ops[0]; e.Key == epoch.Key {
			got := other.get(e.Key)
			r.FailIf(!follows(got.Version, e.Version), "%s: the CompareAndSet over version %d led to version %d", what, e.Version, got.Version)
		}
		for _, key := range []string{dir, r.key("p"), r.key("new")} {
			remove(key)
			s.misses(key)
			other.misses(key)
		}
		other.sees(s.get(s.dir("d")))
	}
}

func doubtOverwritten(r *run) {
	c := r.client()
	s, other := r.open(c), r.session()
	a, b := s.put(r.key("a"), "0", 0), s.put(r.key("b"), "0", 0)
	for i := range 6 {
		known := []backend.Entry{a, b}[:1+i%2] // b, if written, shows that the commit was done
		var ops []backend.Op
		for _, e := range known {
			ops = append(ops, backend.CompareAndSet(e.Key, fmt.Appendf(nil, "%s%d", e.Key, i), e.Version))
		}
		commit := s.cutOff(c, other, ops...)
		theirs := other.get(a.Key)
		for j := range i/2 + 1 {
			theirs = other.put(a.Key, fmt.Sprint("theirs", j), theirs.Version)
		}
		c.Resume()
		what := fmt.Sprintf("%d CompareAndSets, one of them overwritten %d times since", len(ops), i/2+1)
		made, _ := s.truth(what, commit)
		for j, e := range made {
			r.changed(what, known[j], e, string(ops[j].Value))
		}
		s.sees(theirs)
		a = theirs
		if len(ops) > 1 {
			got := s.get(b.Key)
			r.changed(what, b, got, string(ops[1].Value))
			b = got
		}
	}
}

func doubtNotMine(r *run) {
	c := r.client()
	s, other := r.open(c), r.session()
	seat := s.dir("d") + "/seat"
	notAllMine(r, c, s, other)
	epoch := s.put(r.key("epoch"), "0", 0)
	for i := range 4 {
		value := []byte(fmt.Sprint(i))
		ops := []backend.Op{backend.CompareAndSet(epoch.Key, value, epoch.Version), backend.CreateEphemeral(seat, value)}
		other.sees(epoch)
		theirs := other.commit(ops...)
		if i%2 == 0 {
			s.sees(theirs[1])
		}
		c.LoseReply(ops[i/2].Kind)
		if made, err := s.Commit(r.ctx, nil, ops...); !harness.IsAny(err, backend.ErrConflict, backend.ErrExists, backend.ErrIndeterminate) {
			r.Failf("a commit that another session had made before returned (%+v, %v)", made, harness.Text(err))
		}
		r.Settle()
		s.sees(theirs...)
		epoch = theirs[0]
		other.delete(theirs[1])
		s.misses(seat)
	}
}

// notAllMine tries a commit of which another session has already written one half.
func notAllMine(r *run, c *kit.Client, s, other sess) {
	both := s.commit(backend.CompareAndSet(r.key("shared"), []byte("0"), 0), backend.CompareAndSet(r.key("mine"), []byte("0"), 0))
	value := []byte("1")
	other.sees(both[0])
	theirs := other.commit(backend.CompareAndSet(both[0].Key, value, both[0].Version))[0]
	c.LoseReply(backend.OpCompareAndSet)
	made, err := s.Commit(r.ctx, nil, backend.CompareAndSet(both[0].Key, value, both[0].Version), backend.CompareAndSet(both[1].Key, value, both[1].Version))
	r.FailIf(!harness.IsAny(err, backend.ErrConflict, backend.ErrIndeterminate),
		"a commit whose first half another session had made before returned (%+v, %v)", made, harness.Text(err))
	r.Settle()
	s.sees(theirs, both[1])
}

func doubtRace(r *run) {
	clients := []*kit.Client{r.client(), r.client(), r.client()}
	var all []sess
	for _, c := range clients {
		all = append(all, r.open(c))
	}
	seat := all[0].dir("d") + "/seat"
	epoch := all[0].put(r.key("epoch"), "0", 0)
	for i := range 9 {
		// Each combination of faults, except for their order.
		for j, c := range clients {
			switch (i/(1+2*j) + j) % 3 {
			case 0:
				c.LoseReply(backend.OpCompareAndSet)
			case 1:
				c.LoseRequest(backend.OpCompareAndSet)
			}
		}
		value := fmt.Append(nil, i)
		var tasks []*task[[]backend.Entry]
		for _, s := range all {
			s.sees(epoch)
		}
		for _, s := range all {
			tasks = append(tasks, s.committing("CompareAndSet and CreateEphemeral", backend.CompareAndSet(epoch.Key, value, epoch.Version), backend.CreateEphemeral(seat, value)))
		}
		var made []backend.Entry
		unknown := false
		for j, t := range tasks {
			out, err := t.result()
			switch {
			case err == nil && made != nil:
				r.Failf("two sessions succeeded: %+v, %+v", made, out)
			case err == nil:
				made = out
				if out[1].Session != all[j].ID() || !follows(out[0].Version, epoch.Version) {
					r.Failf("CompareAndSet over %+v and CreateEphemeral by session %s returned %+v", epoch, all[j].ID(), out)
				}
			case harness.IsAny(err, backend.ErrIndeterminate):
				unknown = true
			case !harness.IsAny(err, backend.ErrConflict, backend.ErrExists):
				r.Failf("CompareAndSet and CreateEphemeral: error is %v", harness.Text(err))
			}
		}
		r.FailIf(made == nil && !unknown, "none of the commits succeeded, and none returned ErrIndeterminate")
		if made != nil {
			epoch = made[0]
			for _, s := range all {
				s.sees(epoch, made[1])
			}
			all[i%3].delete(made[1])
		} else if epoch = all[0].get(epoch.Key); string(epoch.Value) != string(value) {
			r.Failf("none of the commits succeeded, and the entry is %+v", epoch)
		}
		for _, s := range all {
			s.misses(seat)
		}
	}
}

// follows reports whether now can be the version after a write over old: 1 is the first, and later ones
// need not be the next number.
func follows(now, old uint64) bool {
	if old == 0 {
		return now == 1
	}
	return now > old
}
