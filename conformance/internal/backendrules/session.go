package backendrules

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/elector-go/elector/backend"
)

var sessionRules = []rule{
	promise("session/open", sessionOpen,
		"A new session is live, and has an ID that no other session has and a timeout. The backend's limits are consistent."),
	promise("session/deadline", sessionDeadline,
		"While the session is in touch, its deadline is ahead of now by no more than the timeout. It moves forward and never back, and it carries a monotonic clock reading."),
	promise("session/expired", sessionExpired,
		"When the service ends a session, it is lost for good, its entries are gone, and blocked and later calls return ErrSessionLost. The process can open a new session, which inherits nothing from it.",
		"Expire"),
	promise("session/close", sessionClose,
		"Close removes the session's entries at once, ends blocked calls with ErrSessionLost, and can be called again. AwaitState reports the loss with a nil error, as it does any state that differs from the given one."),
	promise("session/close-commit", sessionCloseCommit,
		"A commit that runs during Close reports its outcome: if it returns an error that is not ErrIndeterminate, nothing was written."),
}

func sessionOpen(r *run) {
	c := r.client()
	l := c.Backend.Limits()
	r.FailIf(l.MinTTL <= 0 || l.DefaultTTL < l.MinTTL || l.MaxTTL < l.DefaultTTL, "limits are %+v", l)
	r.FailIf(c.Backend.String() == "", "the backend has no name")
	a, b := r.open(c), r.session()
	for _, s := range []sess{a, b} {
		s.lives()
		r.FailIf(s.ID() == "" || s.TTL() <= 0, "new session %q has a timeout of %v", s.ID(), s.TTL())
	}
	r.FailIf(a.ID() == b.ID(), "the sessions of two processes have the same ID %q", a.ID())
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	s, err := r.client().Backend.Open(ctx, backend.OpenOptions{TTL: r.Lasting()})
	if err == nil {
		_ = s.Close(r.ctx) // it should not exist; the check below reports it
	}
	r.Refused("open with an ended context", err, context.Canceled)
	// The timeout in the options is a wish, and may be missing.
	s, err = r.client().Backend.Open(r.ctx, backend.OpenOptions{})
	r.Must("open with the default timeout", err)
	sess{s, r}.close()
}

// lives fails the rule unless the session is live. On a real service it may be suspended for a moment, if
// a heartbeat is late.
func (s sess) lives() {
	state := s.State()
	for ; state == backend.Suspended && !s.r.Service.Virtual; state = s.awaitState(state).value() {
	}
	s.r.FailIf(state != backend.Live, "session %s is %v", s.ID(), state)
}

func sessionDeadline(r *run) {
	s := r.brief(r.client())
	first := s.Deadline()
	// In a bubble times carry no monotonic reading.
	monotonic := " m="
	r.FailIf(strings.Contains(time.Now().String(), monotonic) && !strings.Contains(first.String(), monotonic), "deadline %v carries no monotonic reading", first)
	last := first
	for range 80 {
		time.Sleep(s.TTL() / 40)
		d := s.Deadline()
		now := time.Now()
		r.FailIf(d.Before(last), "deadline went back by %v", last.Sub(d))
		r.FailIf(d.After(now.Add(s.TTL())), "deadline is %v ahead, but the timeout is %v", d.Sub(now), s.TTL())
		r.FailIf(s.State() != backend.Live && r.Service.Virtual, "session is %v though nothing happened to it", s.State())
		last = d
	}
	r.FailIf(!last.After(first), "deadline did not move for %v", 2*s.TTL())
}

func (s sess) awaitState(prev backend.State) *task[backend.State] {
	return start(s.r, fmt.Sprintf("await state after %v", prev), func(ctx context.Context) (backend.State, error) {
		return s.AwaitState(ctx, prev)
	})
}

// becomes checks what AwaitState returns for a previous state.
func (s sess) becomes(prev, want backend.State, when string) {
	got := s.awaitState(prev).value()
	s.r.FailIf(got != want, "%s the session is %v, want %v", when, got, want)
}

func (s sess) is(want backend.State, when string) {
	got := s.State()
	s.r.FailIf(got != want, "%s the session is %v, want %v", when, got, want)
}

// awaitEnd is AwaitState until the session is lost. On a real service it may be suspended for a moment
// before that.
func (s sess) awaitEnd(ctx context.Context) (backend.State, error) {
	for prev := backend.Live; ; {
		state, err := s.AwaitState(ctx, prev)
		if err != nil || state == backend.Lost || state == prev || s.r.Service.Virtual {
			return state, err
		}
		prev = state
	}
}

func sessionExpired(r *run) {
	c := r.client()
	s := r.open(c)
	x, state := s.ending(), s.awaitState(backend.Live)
	c.Expire()
	if got := state.value(); got != backend.Lost && got != backend.Suspended {
		r.Failf("await state of an expired session returned %v", got)
	}
	x.ended()
	deadline := s.Deadline()
	next := r.open(c)
	r.FailIf(next.ID() == s.ID(), "the new session has the old one's ID %q", s.ID())
	f := next.enqueue(x.dir, "y")
	next.lists(x.dir, f)
	time.Sleep(2 * r.Service.TTL)
	if got := s.Deadline(); !got.Equal(deadline) {
		r.Failf("the lost session's deadline moved by %v", got.Sub(deadline))
	}
	s.over(x.entries[0])
	next.lists(x.dir, f)
}

// An ending is a session that is about to end, with its pending waits, and another one that waits for its
// entries to go.
type ending struct {
	s, other   sess
	dir        string
	entries    []backend.Entry
	gone       []*task[[]backend.Entry] // the other's
	own, aside *task[[]backend.Entry]   // of an entry, and of one that does not change when those go
	list       *task[backend.Listing]
	began      time.Time
}

func (s sess) ending() *ending {
	x := &ending{s: s, other: s.r.session(), dir: s.dir("ending")}
	x.entries = []backend.Entry{s.enqueue(x.dir, "x"), s.create(x.dir+"/seat", "x")}
	for _, e := range x.entries {
		x.other.sees(e)
		x.gone = append(x.gone, x.other.waits(e))
	}
	never := s.r.key("never")
	x.own, x.aside, x.list = s.waits(x.entries[0]), s.waits(backend.Entry{Key: never}), s.waitsList(s.list(never))
	x.began = time.Now()
	return x
}

// left checks that the other sees the entries go.
func (x *ending) left() {
	for _, t := range x.gone {
		isGone(t)
	}
}

// ended checks that the session is over, and that each call reports it.
func (x *ending) ended() {
	x.own.fails("blocked await of an entry of the session's own", backend.ErrSessionLost)
	x.aside.fails("blocked await of another entry", backend.ErrSessionLost)
	x.list.fails("blocked await list", backend.ErrSessionLost)
	x.s.over(x.entries[0])
	x.left()
}

// over checks that every call reports that the session is lost. e is an entry that it had.
func (s sess) over(e backend.Entry) {
	s.is(backend.Lost, "at its end")
	calls := s.calls(e, backend.Listing{Dir: backend.Parent(e.Key)})
	delete(calls, "await state") // it reports the loss without an error
	calls["discard"] = func(ctx context.Context) error { return s.Discard(ctx, e) }
	calls["discard with an ended context"] = func(ctx context.Context) error { // there is nothing to do: the entry goes with the session
		ended, cancel := context.WithCancel(ctx)
		cancel()
		return s.Discard(ended, e)
	}
	for name, call := range calls {
		s.r.Refused(name+" in a lost session", call(s.r.ctx), backend.ErrSessionLost)
	}
}

// ends waits until the session is lost.
func (s sess) ends() {
	s.r.Until("the session is lost", func() bool { return s.State() == backend.Lost })
}

func sessionClose(r *run) {
	s := r.session()
	s.becomes(backend.Suspended, backend.Live, "await state after suspended says that")
	lost := start(r, "await state after live", s.awaitEnd)
	lost.blocked("the session was live all the time")
	watcher, dir := r.session(), s.dir("many")
	var gone []*task[[]backend.Entry] // more at once than a client may have room for
	for range 40 {
		e := s.enqueue(dir, "x")
		watcher.sees(e)
		gone = append(gone, watcher.await(e))
	}
	x := s.ending()
	s.close()
	x.ended()
	s.soon("close", x.began)
	for _, t := range gone {
		isGone(t)
	}
	got := lost.value()
	r.FailIf(got != backend.Lost, "await state of a closed session returned %v", got)
	for _, prev := range []backend.State{backend.Live, backend.Suspended, backend.Lost} {
		s.becomes(prev, backend.Lost, "after close")
	}
	r.Must("close again", s.Close(r.ctx))
}

func sessionCloseCommit(r *run) {
	c, other := r.client(), r.session()
	stay := r.open(c) // keeps the session alive, which may be shared
	parent := stay.dir("d")
	for i := range 12 {
		s, key := r.open(c), fmt.Sprintf("%s/%d", parent, i)
		commit := s.committing("commit", backend.CompareAndSet(key, nil, 0))
		for range i {
			runtime.Gosched()
		}
		s.close()
		switch _, err := commit.result(); {
		case err == nil:
			_, err := other.Get(r.ctx, key)
			r.Must("get of an entry that a commit during close has written", err)
		case !errors.Is(err, backend.ErrSessionLost):
			r.Failf("a commit during close returned %v", err)
		case !errors.Is(err, backend.ErrIndeterminate):
			other.misses(key)
		}
	}
	stay.lives()
}
