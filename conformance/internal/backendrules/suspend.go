package backendrules

import (
	"context"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
)

var suspendRules = []rule{
	promise("session/states", sessionStates,
		"A session that is out of touch is Suspended, and it is Live again when it is back in time.",
		"Suspend"),
	promise("session/suspended-briefly", sessionSuspendedBriefly,
		"A session that is out of touch for less than its window continues as the same session, with its entries. Calls block meanwhile and then return, and no change is missed.",
		"Suspend"),
	promise("session/suspended-too-long", sessionSuspendedTooLong,
		"A session that is out of touch is lost by itself at its deadline, before the service removes its entries. Coming back does not revive it.",
		"Suspend"),
	promise("session/suspended-calls", sessionSuspendedCalls,
		"A call that blocks because the session is suspended ends with its context, and with ErrSessionLost when the session is lost. A write that was not sent is not done later.",
		"Suspend"),
	promise("session/slow-replies", sessionSlowReplies,
		"The window counts from the sending of a heartbeat, not from its reply, however late the reply is.",
		"SlowReplies"),
	promise("session/late-requests", sessionLateRequests,
		"A commit that creates an ephemeral entry, or has a condition on an entry of its session, is not applied if it arrives after the session's end.",
		"HoldRequests"),
	promise("session/close-cut", sessionCloseCut,
		"If the link was cut before Close, Close continues until the link is back. Then the service confirms it, and the entries are gone at once.",
		"Suspend"),
	promise("session/close-suspended", sessionCloseSuspended,
		"Close of a suspended session makes it lost at once, and returns when its context ends at the latest. The service removes the entries in time.",
		"Suspend"),
}

func sessionStates(r *run) {
	c := r.client()
	s, beside := r.open(c), r.open(c)
	s.awaitState(backend.Live).blocked("the session was live all the time")
	for range 2 {
		r.linkAgain(c, s)
		r.Until("the process's other session is live again, too", func() bool { return beside.State() == backend.Live })
	}
}

func sessionSuspendedBriefly(r *run) {
	c, s, other, dir := r.process((*run).open)
	id := s.ID()
	e := s.enqueue(dir, "x")
	flag := s.put(r.key("flag"), "0", 0)
	other.sees(flag)
	waiting, listing := s.waits(flag), s.waitsList(s.list(dir))
	c.Suspend()
	changed := other.set(flag, "1")
	f := other.enqueue(dir, "y")
	read := s.getting("get while suspended", flag.Key)
	write := s.committing("commit while suspended", backend.CompareAndSet(r.key("late"), []byte("1"), 0))
	read.blocked("the link was cut")
	write.blocked("the link was cut")
	waiting.blocked("the link was cut")
	listing.blocked("the link was cut")
	time.Sleep(r.Service.TTL / 4)
	c.Resume()
	got := read.value()
	r.FailIf(!got.Same(changed), "get returned %+v, want %+v", got, changed)
	became(waiting, changed)
	listing.value()
	write.value()
	r.FailIf(s.ID() != id, "the session's ID was %q and is %q", id, s.ID())
	r.Until("the session is live again", func() bool { return s.State() == backend.Live })
	s.has("after the link came back", e)
	// Not only for the moment: the service really keeps it.
	time.Sleep(s.TTL() * 5 / 4)
	other.lists(dir, e, f)
	s.lists(dir, e, f)
}

func sessionSuspendedTooLong(r *run) {
	c, s, other, dir := r.process((*run).brief)
	e := s.enqueue(dir, "x")
	other.sees(e)
	gone := other.waits(e)
	c.Suspend()
	isGone(gone)
	seen, deadline, state := time.Now(), s.Deadline(), s.State()
	r.FailIf(seen.Before(deadline), "the service removed the entry %v before the deadline", deadline.Sub(seen))
	r.FailIf(state != backend.Lost, "the service has removed the entry, but the session is %v", state)
	c.Resume()
	time.Sleep(r.Service.TTL)
	s.over(e)
	again := s.Deadline()
	r.FailIf(!again.Equal(deadline), "the lost session's deadline moved by %v", again.Sub(deadline))
}

func sessionSuspendedCalls(r *run) {
	c, s, other, dir := r.process((*run).brief)
	e := s.enqueue(dir, "x")
	c.Suspend()
	read := s.getting("get while suspended", e.Key)
	read.blocked("the link was cut")
	read.stop()
	read.fails("get with a context that ended", context.Canceled)
	_ = s.inVain("late")
	read = s.getting("get while suspended", e.Key)
	wait := s.await(e)
	read.fails("get that blocked until the window passed", backend.ErrSessionLost)
	now, deadline := time.Now(), s.Deadline()
	r.FailIf(now.Before(deadline), "the session was lost %v before the deadline", deadline.Sub(now))
	wait.fails("await that blocked until the window passed", backend.ErrSessionLost)
	c.Resume()
	other.misses(e.Key, r.key("late"))

	// It is not done when the link comes back in time, either.
	c = r.client()
	s = r.open(c)
	c.Suspend()
	err := s.inVain("later")
	c.Resume()
	if harness.IsAny(err, backend.ErrIndeterminate) {
		return // it was sent
	}
	r.Settle()
	if _, err := s.Commit(r.ctx, nil, backend.CompareAndSet(r.key("after"), nil, 0)); !harness.IsAny(err, backend.ErrSessionLost) {
		r.Must("commit after the link came back", err)
	}
	other.misses(r.key("later"))
}

// inVain makes a suspended session put a key, until the context ends.
func (s sess) inVain(name string) error {
	write := s.committing("commit while suspended", backend.CompareAndSet(s.r.key(name), nil, 0))
	write.blocked("the link was cut")
	write.stop()
	_, err := write.result()
	s.r.Refused("commit with a context that ended", err, context.Canceled)
	return err
}

func sessionSlowReplies(r *run) {
	c := r.client()
	began := time.Now()
	s := r.open(c)
	// The time from the sending of a heartbeat to its deadline: the timeout less the margin.
	most := s.Deadline().Sub(began)
	late := r.Service.TTL / 40
	c.SlowReplies(late)
	for i := range 2 {
		before := s.Deadline()
		for !s.Deadline().After(before) {
			r.FailIf(s.State() == backend.Lost || r.ctx.Err() != nil, "the session is %v, though only its replies were slow", s.State())
			time.Sleep(late / 20)
		}
		// Its reply was late by at least this much; but the reply to the first may have been sent before
		// SlowReplies.
		if window := time.Until(s.Deadline()); i > 0 && window > most-late {
			r.Failf("the deadline is %v after the reply to a heartbeat, which took at least %v; it was at most %v after the first heartbeat was sent", window, late, most)
		}
	}
	// The window of a new session counts from its request, too.
	slow := r.Service.TTL / 4
	c.SlowReplies(slow)
	opened := r.brief(c)
	if window := time.Until(opened.Deadline()); window > opened.TTL()-slow {
		r.Failf("the deadline of a new session is %v after the reply, which took at least %v, and its timeout is %v", window, slow, opened.TTL())
	}
	c.SlowReplies(0)
	r.Until("the session is live, as only its replies were slow", func() bool { return s.State() == backend.Live })
}

func sessionLateRequests(r *run) {
	c, s, other, dir := r.process((*run).brief)
	own, record := s.enqueue(dir, "x"), s.put(dir+"/record", "x", 0)
	other.sees(own, record)
	release := sync.OnceFunc(c.HoldRequests())
	defer release() // if the rule fails before
	for _, op := range []backend.Op{
		backend.CreateEphemeral(dir+"/seat", nil), backend.Enqueue(dir, nil), backend.CompareAndSet(dir+"/new", nil, 0),
		backend.Update(record, []byte("y")), backend.Delete(record),
	} {
		var guards []backend.Condition
		if !op.Ephemeral() {
			guards = append(guards, backend.IfExists(own))
		}
		start(r, "commit whose request is held", func(ctx context.Context) ([]backend.Entry, error) { return s.Commit(ctx, guards, op) })
	}
	other.misses(own.Key)
	s.is(backend.Lost, "the service has removed the entry, and")
	release()
	time.Sleep(r.Service.TTL / 2) // so that held requests are done
	other.lists(dir)
	other.has("after late commits of a session that has ended", record)
	for _, name := range []string{"/seat", "/new"} {
		other.none("get of an entry whose creation arrived after the session's end", dir+name)
	}
}

func sessionCloseCut(r *run) {
	c, s, other, dir := r.process((*run).open)
	e := s.enqueue(dir, "x")
	other.sees(e)
	c.Suspend()
	s.becomes(backend.Live, backend.Suspended, "after the link was cut")
	closing := r.do("close while the link is cut", s.Close)
	s.becomes(backend.Suspended, backend.Lost, "it is closed, and")
	began := time.Now()
	time.Sleep(min(r.Service.TTL/20, 300*time.Millisecond))
	c.Resume()
	back := time.Now()
	_, err := closing.result()
	confirmed := r.Confirmed("close while the link is cut", back, err)
	other.misses(e.Key)
	if confirmed && back.Sub(began) < time.Second { // Close tries only for some seconds
		s.soon("the link was back", back)
	}
}

func sessionCloseSuspended(r *run) {
	c, s, other, dir := r.process((*run).brief)
	e := s.enqueue(dir, "x")
	other.sees(e)
	gone := other.await(e)
	c.Suspend()
	closing := func() *task[struct{}] {
		return r.do("close while suspended", func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, r.Service.TTL/4)
			defer cancel()
			return s.Close(ctx)
		})
	}
	first := closing()
	got := s.awaitState(backend.Live).value()
	r.FailIf(got != backend.Lost && got != backend.Suspended, "await state of a session that is being closed returned %v", got)
	for i, t := range []*task[struct{}]{first, closing()} {
		if _, err := t.result(); err == nil {
			r.Failf("close %d returned nil, as if the service had confirmed, but the link was cut", i+1)
		}
	}
	s.is(backend.Lost, "after close")
	isGone(gone)
	c.Resume()
}
