package backendrules

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"runtime"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/kit"
)

var lostRules = []rule{
	promise("lost-reply/refused", lostRefused,
		"A commit that was refused, and whose reply or request was lost, returns the refusal. It does not treat another session's write, or an earlier one of its own session, as its own.",
		"LoseReply", "LoseRequest"),
	promise("lost-reply/cancelled", lostCancelled,
		"If the context of a commit ends before its outcome is known, it returns ErrIndeterminate, and an ephemeral entry that it created is removed in the background.",
		"CutReply"),
	promise("lost-reply/session-lost", lostSession,
		"If the session is lost before the outcome of a commit is known, it returns ErrIndeterminate and ErrSessionLost, and an ephemeral entry that it created goes with the session.",
		"CutReply"),
	promise("lost-reply/denied", lostDenied,
		"If a commit was done, its reply was lost, and the service denies the session's requests from then on, it never returns a plain failure.",
		"CutReply", "Deny"),
	promise("lost-reply/once", lostOnce(func(c *kit.Client) func(backend.OpKind) { return c.LoseReply }),
		"A commit whose reply was lost is done once, and returns what it wrote, with any kind of op.",
		"LoseReply"),
	promise("lost-reply/crowd", lostCrowd,
		"When many enqueue at once, also in one session, some of them leave their places for new ones in one commit, and replies and requests are lost, each finds the entry before it, and nobody is passed over.",
		"LoseReply", "LoseRequest"),
	promise("lost-request/once", lostOnce(func(c *kit.Client) func(backend.OpKind) {
		n := 0
		return func(kind backend.OpKind) { // every second commit is lost twice
			c.LoseRequest(kind)
			if n++; n%2 == 0 {
				c.LoseRequest(kind)
			}
		}
	}),
		"A commit whose request was lost, once or twice, is done once, and returns what it wrote, with any kind of op.",
		"LoseRequest"),
}

// lostOnce tries each op, and commits of several ops, under a fault.
func lostOnce(of func(*kit.Client) func(backend.OpKind)) func(*run) {
	return func(r *run) {
		c := r.client()
		s, other, fault := r.open(c), r.session(), of(c)
		for kind := backend.OpCreateEphemeral; kind <= backend.OpDelete; kind++ {
			r.in(kind.String(), func() { lostOne(r, s, other, kind, fault) })
		}
		r.in("a CompareAndSet, an Enqueue and a Delete, with conditions", func() { lostAtomic(r, s, other, fault) })
		r.in("a CompareAndSet and a CreateEphemeral", func() { lostPutCreate(r, s, other, fault) })
		r.in("several CompareAndSets", func() { lostPuts(r, s, other, fault) })
	}
}

// lostOne tries an op of the kind, several times in one session.
func lostOne(r *run, s, other sess, kind backend.OpKind, fault func(backend.OpKind)) {
	dir, id := s.dir("d"), s.ID()
	for i := range 3 {
		old := s.enqueue(dir, "old")
		key := fmt.Sprintf("%s/seat%d", dir, i)
		op := map[backend.OpKind]backend.Op{
			backend.OpCreateEphemeral: backend.CreateEphemeral(key, []byte("new")),
			backend.OpEnqueue:         backend.Enqueue(dir, []byte("new")),
			backend.OpCompareAndSet:   backend.CompareAndSet(key, []byte("new"), 0),
			backend.OpUpdate:          backend.Update(old, []byte("new")),
			backend.OpDelete:          backend.Delete(old),
		}[kind]
		fault(kind)
		got := s.commit(op)[0]
		queue := []backend.Entry{old}
		switch kind {
		case backend.OpDelete:
			r.FailIf(got.Exists() || got.Key != old.Key, "it returned %+v", got)
			other.misses(old.Key)
			queue = nil
		case backend.OpUpdate:
			r.changed("update", old, got, "new")
		default:
			owner := id
			switch kind {
			case backend.OpCompareAndSet:
				owner = ""
			case backend.OpEnqueue:
				key = dir + "/" + path.Base(got.Key)
				queue = append(queue, got)
			}
			r.isNew(kind.String(), got, key, "new", owner)
			r.FailIf(got.Rev <= old.Rev, "it returned %+v, whose revision is not higher than that of %+v", got, old)
		}
		if got.Exists() {
			other.sees(got)
		}
		other.lists(dir, queue...)
		r.Settle()
		other.lists(dir, queue...)
		r.FailIf(s.State() == backend.Lost || s.ID() != id, "the session was %q, and is now %v with ID %q", id, s.State(), s.ID())
		for _, e := range queue {
			s.discard(e)
		}
		other.lists(dir)
	}
}

func lostAtomic(r *run, s, other sess, fault func(backend.OpKind)) {
	dir := s.dir("d")
	record := s.put(r.key("record"), "0", 0)
	for i := range 3 {
		held := s.enqueue(dir, "held")
		seat := s.create(fmt.Sprintf("%s/seat%d", dir, i), "x")
		fault([]backend.OpKind{backend.OpCompareAndSet, backend.OpEnqueue, backend.OpDelete}[i])
		out, err := s.Commit(r.ctx, []backend.Condition{backend.IfExists(held), backend.IfUnchanged(record)},
			backend.CompareAndSet(record.Key, fmt.Appendf(nil, "%d", i+1), record.Version),
			backend.Enqueue(dir, []byte("new")),
			backend.Delete(seat))
		r.Must("commit of several ops", err)
		r.FailIf(len(out) != 3 || out[0].Rev != record.Rev || out[0].Version == record.Version || !out[1].Exists() || out[2].Exists(), "it returned %+v", out)
		record = out[0]
		other.lists(dir, held, out[1])
		other.sees(record)
		other.misses(seat.Key)
		r.Settle()
		other.lists(dir, held, out[1])
		s.discard(held)
		s.discard(out[1])
	}
}

func lostPutCreate(r *run, s, other sess, fault func(backend.OpKind)) {
	seat := s.dir("d") + "/seat"
	epoch := backend.Entry{Key: r.key("d/epoch")}
	// The first of them also makes the epoch.
	for i, kind := range []backend.OpKind{backend.OpCompareAndSet, backend.OpCreateEphemeral, backend.OpCompareAndSet, backend.OpCreateEphemeral} {
		value := fmt.Sprint(i)
		fault(kind)
		out := s.commit(backend.CompareAndSet(epoch.Key, []byte(value), epoch.Version), backend.CreateEphemeral(seat, []byte(value)))
		put, made := out[0], out[1]
		if !epoch.Exists() {
			epoch.Rev = made.Rev // made by one commit
		}
		r.changed("CompareAndSet with a CreateEphemeral", epoch, put, value)
		r.isNew("CreateEphemeral with a CompareAndSet", made, seat, value, s.ID())
		for range 2 {
			other.sees(put, made)
			r.Settle() // nothing comes late
		}
		s.discard(made)
		other.misses(seat)
		epoch = put
	}
}

func lostPuts(r *run, s, other sess, fault func(backend.OpKind)) {
	known := []backend.Entry{s.put(r.key("a"), "0", 0), s.put(r.key("b/c"), "0", 0), {Key: r.key("b/d")}}
	for i := range 3 {
		var ops []backend.Op
		for _, e := range known {
			ops = append(ops, backend.CompareAndSet(e.Key, fmt.Appendf(nil, "%d of %s", i+1, e.Key), e.Version))
		}
		fault(backend.OpCompareAndSet)
		out := s.commit(ops...)
		for j, e := range out {
			if !known[j].Exists() {
				known[j].Rev = e.Rev
			}
			r.changed("CompareAndSet", known[j], e, string(ops[j].Value))
			other.sees(e)
			r.Settle()
			other.sees(e)
		}
		known = out
	}
}

func lostRefused(r *run) {
	c, s, other, dir := r.process((*run).open)
	theirs := other.create(dir+"/theirs", "x")
	s.sees(theirs)
	mine := s.create(dir+"/mine", "x")
	record := s.put(r.key("record"), "x", 0)
	gone := s.enqueue(dir, "x")
	s.delete(gone)
	for _, try := range []struct {
		what string
		op   backend.Op
		err  error
	}{
		{"CreateEphemeral of an entry that another session created", backend.CreateEphemeral(theirs.Key, []byte("x")), backend.ErrExists},
		{"CreateEphemeral of an entry that this session created before", backend.CreateEphemeral(mine.Key, []byte("x")), backend.ErrExists},
		{"CreateEphemeral without a parent", backend.CreateEphemeral(r.key("no/seat"), nil), backend.ErrNoParent},
		{"Enqueue without a directory", backend.Enqueue(r.key("no"), nil), backend.ErrNoParent},
		{"CompareAndSet over another version", backend.CompareAndSet(record.Key, []byte("y"), record.Version+7), backend.ErrConflict},
		{"Update of an entry that is gone", backend.Update(gone, []byte("y")), backend.ErrNoEntry},
		{"Delete of an entry that is gone", backend.Delete(gone), backend.ErrNoEntry},
	} {
		c.LoseReply(try.op.Kind)
		_, err := s.Commit(r.ctx, nil, try.op)
		r.Refused(try.what, err, try.err)
	}
	for _, lose := range []func(backend.OpKind){c.LoseReply, c.LoseRequest} {
		lose(backend.OpEnqueue)
		s.refused("Enqueue under a condition on an entry that is gone", backend.ErrCondition, []backend.Condition{backend.IfExists(gone)}, backend.Enqueue(dir, nil))
	}
	for _, e := range []backend.Entry{theirs, mine, record} {
		s.has("after refused commits", e)
	}
	s.lists(dir)
}

func lostCancelled(r *run) {
	c, s, other, dir := r.process((*run).open)
	keep := s.enqueue(dir, "keep")
	for _, op := range []backend.Op{backend.Enqueue(dir, []byte("x")), backend.CreateEphemeral(dir+"/seat", []byte("x"))} {
		commit := s.cutOff(c, other, op)
		// As the context of a leader in another session does.
		commit.end(fmt.Errorf("a term has ended: %w", backend.ErrSessionLost))
		_, err := commit.result()
		c.Resume()
		r.Refused("commit whose outcome is unknown", err, backend.ErrIndeterminate, context.Canceled)
		r.FailIf(errors.Is(err, backend.ErrSessionLost), "%v: but another session was lost, not this one", err)
		other.lists(dir, keep)
		other.misses(dir + "/seat")
		s.becomes(backend.Suspended, backend.Live, "after the link came back")
		// It is not done late, either.
		time.Sleep(r.Service.TTL / 4)
		other.lists(dir, keep)
		other.misses(dir + "/seat")
		// The same key can be created again.
		s.delete(s.create(dir+"/seat", "y"))
	}
	if r.Service.Virtual { // on a real service a deadline measures the machine
		c.CutReply(backend.OpEnqueue)
		ctx, cancel := context.WithTimeout(r.ctx, r.Service.TTL/4)
		defer cancel()
		_, err := s.Commit(ctx, nil, backend.Enqueue(dir, nil))
		r.Refused("commit whose deadline has passed", err, backend.ErrIndeterminate, context.DeadlineExceeded)
		time.Sleep(r.Service.TTL / 4)
		c.Resume()
		other.lists(dir, keep)
	}
}

func lostDenied(r *run) {
	c, s, other, dir := r.process((*run).open)
	for _, op := range []backend.Op{backend.CompareAndSet(dir+"/record", []byte("x"), 0), backend.Enqueue(dir, []byte("x"))} {
		commit := s.cutOff(c, other, op)
		release := sync.OnceFunc(c.Deny())
		defer release() // if the rule fails before
		c.Resume()
		r.Settle()
		release()
		_, _ = s.truth(op.Kind.String()+", then denied", commit)
	}
}

func lostSession(r *run) {
	c, s, other, dir := r.process((*run).brief)
	c.CutReply(backend.OpEnqueue)
	_, err := s.Commit(r.ctx, nil, backend.Enqueue(dir, []byte("x")))
	c.Resume()
	r.Refused("commit whose outcome is unknown", err, backend.ErrIndeterminate, backend.ErrSessionLost)
	other.lists(dir)
}

func lostCrowd(r *run) {
	const sessions, each, rounds = 3, 4, 10
	looks := r.session()
	dir := looks.dir("d")
	before := make(map[string]string) // the predecessor of each entry, by key
	ended := make(map[string]bool)    // entries that have left their places
	var mu sync.Mutex
	var all []*task[struct{}]
	for n := range sessions {
		c := r.client()
		s := r.open(c)
		s.sees(looks.get(dir))
		enter := func(ctx context.Context, last backend.Entry) (backend.Entry, error) {
			ops := []backend.Op{backend.Enqueue(dir, nil)}
			if last.Exists() {
				ops = append(ops, backend.Delete(last))
			}
			runtime.Gosched() // memory never blocks
			made, err := s.Commit(ctx, nil, ops...)
			if err != nil {
				return last, err
			}
			mu.Lock()
			ended[last.Key] = true
			mu.Unlock()
			p, err := s.Predecessor(ctx, made[0])
			mu.Lock()
			defer mu.Unlock()
			before[made[0].Key] = p.Key
			return made[0], err
		}
		for i := range each {
			rnd := rand.New(rand.NewPCG(uint64(n), uint64(i)))
			all = append(all, r.do("enter among others", func(ctx context.Context) error {
				for range rounds {
					switch rnd.IntN(5) {
					case 0:
						c.LoseReply(backend.OpEnqueue)
					case 1:
						c.LoseRequest(backend.OpEnqueue)
					}
					me, err := enter(ctx, backend.Entry{})
					if err == nil && rnd.IntN(2) == 0 {
						_, err = enter(ctx, me)
					}
					if err != nil {
						return err
					}
				}
				return nil
			}))
		}
	}
	for _, t := range all {
		t.value()
	}
	var have []string
	r.Until("all entries are listed", func() bool {
		have = looks.list(dir).Keys
		return len(have) == sessions*each*rounds
	})
	last := ""
	for _, key := range have {
		p := before[key]
		for p != "" && ended[p] {
			p = before[p]
		}
		r.FailIf(p != last, "the entry before %s is %q, but it found %q", key, last, p)
		last = key
	}
}
