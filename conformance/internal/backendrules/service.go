package backendrules

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
	"github.com/elector-go/elector/conformance/kit"
)

var serviceRules = []rule{
	promise("service/restart", serviceRestart,
		"Reads, writes and waits survive a restart of the service within the window: the session and its entries stay the same, and no change is missed.",
		"Stop"),
	promise("service/down", serviceDown,
		"While the service is down, Open returns ErrUnavailable and does not hang. Afterwards it works again.",
		"Stop"),
	promise("service/member-killed", serviceMemberKilled,
		"While a member of an ensemble is down, no session is lost: those of that member go to others. Waits wait, writes are done, and no change is missed.",
		"StopMember"),
	promise("service/no-quorum", serviceNoQuorum,
		"While one member of an ensemble is left, a session there is lost at the end of its window, and Open returns ErrUnavailable. Afterwards it works again, and the session's entries are gone.",
		"StopMember"),
	promise("service/member-frozen", serviceMemberFrozen,
		"While a member of an ensemble is frozen, the waits of a Live session return less than twice its timeout after a change.",
		"PauseMember"),
	promise("service/member-cut-off", serviceMemberCutOff,
		"If the member of a session is cut off from the others, the session's window ends before its entries go, and no commit that the others do not see is reported to it as done.",
		"CutOffMember"),
	promise("service/nothing-left", serviceNothingLeft,
		"Commits and sessions store nothing in the service except the entries that they are asked to create. When those are gone, nothing is left. What a session stores for itself does not grow with the commits that it gives up.",
		"Stored"),
	promise("errors/context", errorsContext,
		"A call whose context has ended returns the context's error, and a call with a deadline returns at the deadline."),
	promise("errors/unanswered", errorsUnanswered,
		"A call that is not answered ends with its context, and so do Discard and Close, which then returns an error. The session continues, and removes what a commit that was given up leaves.",
		"HoldRequests"),
	promise("errors/wrapped", errorsWrapped,
		"An error names the backend and the key, and contains the text of its sentinel once."),
	promise("many/sessions", manySessions,
		"Many sessions at once do not disturb each other: closing one leaves the entries of the process's other sessions alone."),
	promise("many/close", manyClose,
		"Close during calls of all kinds ends each of them, and leaves nothing behind."),
	promise("many/goroutines", manyGoroutines,
		"No goroutine of the backend outlives the Close of its sessions."),
}

func serviceRestart(r *run) {
	s, other, dir := r.pair()
	for range 2 { // it may stop in another way
		s.restarts(other, dir)
	}
}

// restarts restarts the service under calls of both sessions.
func (s sess) restarts(other sess, dir string) {
	r := s.r
	e, f := s.enqueue(dir, "x"), other.enqueue(dir, "y")
	s.sees(f)
	waiting, listing := s.await(e, f), s.awaitList(s.list(dir))
	waiting.blocked("nothing happened")
	r.Must("stop the service", r.Service.Stop())
	const down = "the service was down"
	read, otherRead := s.getting("get while "+down, e.Key), other.getting("get while "+down, f.Key)
	write := s.committing("enqueue while "+down, backend.Enqueue(dir, []byte("late")))
	read.blocked(down)
	otherRead.blocked(down)
	write.blocked(down)
	waiting.blocked(down)
	if r.Service.Virtual {
		time.Sleep(r.Service.TTL / 4)
	}
	r.Must("start the service", r.Service.Start())
	for read, want := range map[*task[backend.Entry]]backend.Entry{read: e, otherRead: f} {
		got := read.value()
		r.FailIf(!got.Same(want), "the entry was %+v and is %+v after the restart", want, got)
	}
	late := write.value()[0]
	other.lists(dir, e, f, late)
	other.discard(f)
	now := waiting.value()
	r.FailIf(len(now) != 2 || !now[0].Same(e) || now[1].Exists(), "await of an entry and one that was deleted after the restart returned %+v", now)
	listing.value()
	// Revisions continue to rise.
	g := s.enqueue(dir, "z")
	r.FailIf(g.Rev <= f.Rev, "a new entry has revision %d after the restart, and one had %d before it", g.Rev, f.Rev)
	s.delete(e, late, g)
}

func serviceNothingLeft(r *run) {
	c := r.client()
	s := r.open(c)
	dir := s.dir("d")
	s.comeAndGo(dir) // after this a session may keep what it reuses
	before := r.Stored()
	const rounds, sessions = 20, 5
	for range rounds {
		s.comeAndGo(dir)
	}
	r.NoMore(before, rounds, "commits that removed what they had made")
	for range sessions {
		s := r.open(c)
		s.comeAndGo(dir)
		s.close()
	}
	r.NoMore(before, sessions, "sessions that have ended")
	const givenUp = 300
	for i := range givenUp {
		ctx, cancel := context.WithTimeout(r.ctx, rand.N(3*time.Millisecond))
		made, err := s.Commit(ctx, nil, backend.Enqueue(dir, nil))
		cancel()
		if err == nil {
			s.discard(made[0])
		} else if !harness.IsAny(err, context.DeadlineExceeded) {
			r.Failf("enqueue with a deadline: %v", err)
		}
		if i%20 == 0 { // so that few of them are pending at once
			s.lists(dir)
		}
	}
	s.lists(dir)
	if keys := r.Stored().Keys; keys > before.Keys+givenUp/4 {
		r.Failf("after %d commits, most of which were given up, %d keys are stored, and there were %d before", givenUp, keys, before.Keys)
	}
}

// comeAndGo makes entries of all kinds, by commits of all kinds, and removes them.
func (s sess) comeAndGo(dir string) {
	entry, seat, record := s.enqueue(dir, "x"), s.create(dir+"/seat", "x"), s.put(dir+"/record", "x", 0)
	guards := []backend.Condition{backend.IfExists(entry), backend.IfUnchanged(seat)}
	made, err := s.Commit(s.r.ctx, guards, backend.Update(seat, []byte("y")), backend.CompareAndSet(record.Key, []byte("y"), record.Version))
	s.r.Must("commit under conditions", err)
	s.refused("commit under a condition that does not hold", backend.ErrCondition, guards, backend.Enqueue(dir, nil))
	s.refused("CreateEphemeral of an entry that exists", backend.ErrExists, nil, backend.CreateEphemeral(seat.Key, nil))
	_, err = s.Commit(s.r.ctx, guards[:1])
	s.r.Must("commit without ops", err)
	s.commit(backend.Delete(made[0]), backend.Delete(made[1]))
	s.discard(entry)
}

func serviceDown(r *run) {
	c := r.client()
	r.open(c).close()
	r.Must("stop the service", r.Service.Stop())
	opening := start(r, "open while the service is down", func(ctx context.Context) (*backend.Session, error) {
		return c.Backend.Open(ctx, backend.OpenOptions{TTL: r.Lasting()})
	})
	_, err := opening.result()
	r.Must("start the service", r.Service.Start())
	r.Refused("open while the service was down", err, backend.ErrUnavailable)
	r.opens(c).dir("d")
}

// calls returns one call of each kind, on an entry that does not change, and on its directory.
func (s sess) calls(e backend.Entry, known backend.Listing) map[string]func(ctx context.Context) error {
	dir, put := known.Dir, backend.CompareAndSet(s.r.key("never"), nil, 0)
	return map[string]func(ctx context.Context) error{
		"get":         func(ctx context.Context) error { _, err := s.Get(ctx, e.Key); return err },
		"survey":      func(ctx context.Context) error { _, _, err := s.Survey(ctx, e.Key, nil); return err },
		"children":    func(ctx context.Context) error { _, _, err := s.Children(ctx, dir, 10); return err },
		"list":        func(ctx context.Context) error { _, err := s.List(ctx, dir); return err },
		"predecessor": func(ctx context.Context) error { _, err := s.Predecessor(ctx, e); return err },
		"await":       func(ctx context.Context) error { _, err := s.Await(ctx, e); return err },
		"await list":  func(ctx context.Context) error { _, err := s.AwaitList(ctx, known); return err },
		"commit":      func(ctx context.Context) error { _, err := s.Commit(ctx, nil, put); return err },
		"await state": func(ctx context.Context) error { _, err := s.awaitEnd(ctx); return err },
	}
}

func errorsContext(r *run) {
	s := r.session()
	e := s.enqueue(s.dir("d"), "x")
	calls := s.calls(e, s.list(backend.Parent(e.Key)))
	ended, cancel := context.WithCancel(r.ctx)
	cancel()
	for name, call := range calls {
		r.Refused(name+" with an ended context", call(ended), context.Canceled)
	}
	s.none("get of an entry that a commit with an ended context would have created", r.key("never"))
	for _, name := range []string{"await", "await list", "await state"} {
		ctx, cancel := context.WithTimeout(r.ctx, r.Service.TTL/10)
		r.Refused(name+" with a deadline", calls[name](ctx), context.DeadlineExceeded)
		cancel()
	}
}

func errorsUnanswered(r *run) {
	c, s, other, dir := r.process((*run).open)
	left, kept := s.enqueue(dir, "left"), s.enqueue(dir, "kept")
	other.lists(dir, left, kept)
	release := sync.OnceFunc(c.HoldRequests())
	defer func() { release() }() // if the rule fails before
	var all []*task[struct{}]
	ask := func(what string, call func(ctx context.Context) error) { all = append(all, r.do(what, call)) }
	for range 40 { // more than a client may have room for
		ask("get", func(ctx context.Context) error { _, err := s.Get(ctx, kept.Key); return err })
	}
	ask("await", func(ctx context.Context) error { _, err := s.Await(ctx, backend.Unknown(dir)); return err })
	ask("enqueue", func(ctx context.Context) error {
		_, err := s.Commit(ctx, nil, backend.Enqueue(dir, []byte("late")))
		return err
	})
	ask("discard", func(ctx context.Context) error { return s.Discard(ctx, left) })
	r.Settle()
	for _, t := range all {
		t.stop()
	}
	for _, t := range all {
		t.fails(t.what+" that is not answered, with a context that ended", context.Canceled)
	}
	r.FailIf(s.State() == backend.Lost, "the session was lost before its calls returned")
	release()
	other.lists(dir, kept)
	s.lists(dir, kept)

	release = sync.OnceFunc(c.HoldRequests())
	for i := range 2 { // the second call knows no more
		ctx, cancel := context.WithTimeout(r.ctx, r.Service.TTL/50)
		err := s.Close(ctx)
		cancel()
		r.FailIf(err == nil, "close %d returned nil, as if the service had confirmed, but it was not asked", i+1)
	}
	r.FailIf(!time.Now().Before(s.Deadline()), "close has waited for the end of the window")
}

func errorsWrapped(r *run) {
	c := r.client()
	s := r.open(c)
	seat := s.create(s.dir("d")+"/seat", "x")
	never := backend.Entry{Key: r.key("never"), Rev: 1}
	_, get := s.Get(r.ctx, never.Key)
	_, predecessor := s.Predecessor(r.ctx, never)
	commit := func(op backend.Op, guards ...backend.Condition) error {
		_, err := s.Commit(r.ctx, guards, op)
		return err
	}
	for _, try := range []struct {
		what      string
		err, want error
		key       string
	}{
		{"get", get, backend.ErrNoEntry, never.Key},
		{"predecessor", predecessor, backend.ErrNoEntry, never.Key},
		{"CreateEphemeral", commit(backend.CreateEphemeral(seat.Key, nil)), backend.ErrExists, seat.Key},
		{"Enqueue", commit(backend.Enqueue(never.Key, nil)), backend.ErrNoParent, never.Key},
		{"CompareAndSet", commit(backend.CompareAndSet(seat.Key, nil, 99)), backend.ErrConflict, seat.Key},
		{"Update", commit(backend.Update(never, nil)), backend.ErrNoEntry, never.Key},
		{"a commit under a condition", commit(backend.CompareAndSet(seat.Key+"2", nil, 0), backend.IfExists(never)), backend.ErrCondition, ""}, // names the guard or the op
	} {
		r.Refused(try.what, try.err, try.want)
		msg := try.err.Error()
		r.FailIf(!strings.Contains(msg, c.Backend.String()), "the error of %s does not name the backend %q: %q", try.what, c.Backend, msg)
		r.FailIf(!strings.Contains(msg, try.key), "the error of %s does not name %q: %q", try.what, try.key, msg)
		r.FailIf(strings.Count(msg, try.want.Error()) > 1, "the error of %s contains its sentinel twice: %q", try.what, msg)
	}
}

func manySessions(r *run) {
	clients := []*kit.Client{r.client(), r.client(), r.client()}
	n := r.times(30, 300)
	first := r.session()
	dir := first.dir("d")
	var queue []backend.Entry
	var all []sess
	for i := range n {
		s := r.open(clients[i%len(clients)])
		all = append(all, s)
		s.sees(first.get(dir))
		queue = append(queue, s.enqueue(dir, fmt.Sprint(i)))
	}
	first.lists(dir, queue...)
	// Each waits for the one before; then they close in order.
	var waiting []*task[[]backend.Entry]
	for i, s := range all[1:] {
		s.comesAfter(queue[i+1], queue[i])
		waiting = append(waiting, s.await(queue[i+1], queue[i]))
	}
	for i, w := range waiting {
		all[i].close()
		now := w.value()
		r.FailIf(len(now) != 2 || !now[0].Exists() || now[1].Exists(), "session %d, whose predecessor is gone, sees %+v", i+1, now)
	}
	all[n-1].close()
	first.lists(dir)
}

func manyClose(r *run) {
	other := r.session()
	dir := other.dir("d")
	for range 5 {
		s := r.session()
		s.sees(other.get(dir))
		calls := s.calls(s.enqueue(dir, "x"), s.list(dir))
		for i := range 4 {
			calls[fmt.Sprint("enqueue ", i)] = func(ctx context.Context) error { _, err := s.Commit(ctx, nil, backend.Enqueue(dir, nil)); return err }
		}
		// Fake time stands still while calls run, so the number of calls says when they are in full
		// swing.
		var done atomic.Int64
		swing := make(chan struct{})
		var all []*task[struct{}]
		for name, call := range calls {
			all = append(all, r.do(name+" until close", func(ctx context.Context) error {
				for {
					err := call(ctx)
					if done.Add(1) == 50 {
						close(swing)
					}
					switch {
					case errors.Is(err, backend.ErrSessionLost), name == "await state" && err == nil:
						return nil
					case errors.Is(err, backend.ErrConflict), err == nil && ctx.Err() == nil:
						continue
					}
					return fmt.Errorf("it ended with another error: %w", err)
				}
			}))
		}
		select {
		case <-swing:
		case <-r.ctx.Done():
			r.Failf("only %d calls have returned in all this time", done.Load())
		}
		for range 2 {
			all = append(all, r.do("close", s.Close))
		}
		for _, t := range all {
			t.value()
		}
		other.lists(dir)
	}
}

func manyGoroutines(r *run) {
	c := r.client()
	// What the backend keeps for the process does not belong to the session.
	r.open(c).close()
	r.Settle()
	of := reflect.TypeOf(c.Backend)
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	before := r.backendStacks(of.PkgPath())
	var all []sess
	for i := range 5 {
		s := r.open(c)
		all = append(all, s)
		dir := s.dir(fmt.Sprintf("d%d", i))
		e := s.enqueue(dir, "x")
		s.waits(e)
		s.waitsList(s.list(dir))
		start(r, "await state after live", s.awaitEnd).blocked("nothing happened")
	}
	for _, s := range all {
		s.close()
	}
	for pause := r.Service.TTL / 100; ; time.Sleep(pause) {
		left := r.backendStacks(of.PkgPath())
		if len(left) <= len(before) {
			return
		}
		if r.ctx.Err() != nil {
			r.Failf("%d goroutines are left, and there were %d before:\n%s", len(left), len(before), strings.Join(slices.Compact(left), "\n\n"))
		}
		if r.Service.Virtual { // time passes at once there, and readings take long
			pause = min(2*pause, r.Service.TTL)
		}
	}
}

// backendStacks returns the stacks of the goroutines that were started for the rule and run code of the
// package or of package backend. It leaves out tests and test servers, which may live as long as the
// process.
func (r *run) backendStacks(pkg string) []string {
	shared := reflect.TypeFor[backend.Entry]().PkgPath()
	return slices.DeleteFunc(r.Goroutines(), func(stack string) bool {
		of := strings.Contains(stack, pkg+".") || strings.Contains(stack, shared+".")
		return !of || strings.Contains(stack, "_test.")
	})
}
