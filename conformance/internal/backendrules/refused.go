package backendrules

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/kit"
)

var refusedRules = []rule{
	promise("session/throttled", sessionThrottled,
		"A request that the service rejects for now is sent again after a while: calls return what they would have returned, a commit is done once, and the session continues.",
		"Throttle"),
	promise("session/denied", sessionDenied,
		"A call that the credentials do not allow returns ErrDenied and is not done, and the session continues. When they allow it again, it works. A Discard that was denied continues by itself.",
		"Deny"),
}

// throttledMost is how many requests one call and the heartbeats may make in a second.
const throttledMost = 30

func sessionThrottled(r *run) {
	c := r.client()
	q := ask(r, c)
	waiting := q.s.waits(q.held)
	for _, call := range append(q.calls, q.drop) {
		release := c.Throttle()
		throttled := r.do(call.what+" while throttled", call.make)
		throttled.blocked("the service rejects all requests")
		release()
		throttled.value()
	}
	waiting.value()
	q.done()
	release := c.Throttle()
	call := q.s.getting("get while throttled", q.record.Key)
	began := time.Now()
	time.Sleep(min(r.Service.TTL/8, time.Second))
	asked, took := release(), time.Since(began)
	most := throttledMost * (1 + int(took/time.Second))
	r.FailIf(asked > most, "the session sent %d requests in %v, all of which were rejected; at most %d are allowed", asked, took, most)
	call.value()
	r.Until("the session is live", func() bool { return q.s.State() == backend.Live })
	time.Sleep(q.s.TTL())
	q.goesOn()
}

func sessionDenied(r *run) {
	c := r.client()
	q := ask(r, c)
	denied := func(calls ...call) {
		started := make([]*task[struct{}], len(calls)) // in parallel: some services are retried for a while
		for i, call := range calls {
			started[i] = r.do(call.what+" while denied", call.make)
		}
		for i, call := range calls {
			if _, err := started[i].result(); !errors.Is(err, backend.ErrDenied) {
				r.Failf("%s while denied: %v, want ErrDenied", call.what, err)
			}
		}
	}
	release := c.Deny()
	denied(q.calls...)
	time.Sleep(q.s.TTL())
	q.other.sees(q.held, q.gone, q.record)
	n := len(q.other.list(q.dir).Keys)
	r.FailIf(n != 2, "the directory has %d entries; it had two before all requests were denied", n)
	release()
	for _, call := range q.calls {
		r.do(call.what+" when it is allowed again", call.make).value()
	}
	release = c.Deny()
	denied(q.drop)
	release()
	r.Until("the discarded entry is gone", func() bool { return !slices.Contains(q.other.list(q.dir).Keys, q.held.Key) })
	q.done()
	q.goesOn()
}

// A call is a session's call, ready to be made.
type call struct {
	what string
	make func(context.Context) error
}

// questions are one call of each kind that a session can make.
type questions struct {
	r                  *run
	s, other           sess // other is in another process
	dir                string
	held, gone, record backend.Entry
	calls              []call // each is done once
	drop               call   // of held, to be done last
}

func ask(r *run, c *kit.Client) *questions {
	s := r.open(c)
	q := &questions{r: r, s: s, other: r.session(), dir: s.dir("d")}
	q.held, q.gone = s.enqueue(q.dir, "held"), s.enqueue(q.dir, "gone")
	q.record = s.put(r.key("record"), "0", 0)
	add := func(what string, do func(context.Context) error) {
		q.calls = append(q.calls, call{what, do})
	}
	commit := func(what string, guards []backend.Condition, ops ...backend.Op) {
		add(what, func(ctx context.Context) error { _, err := s.Commit(ctx, guards, ops...); return err })
	}
	guard := []backend.Condition{backend.IfExists(q.held)}
	commit("CreateEphemeral", nil, backend.CreateEphemeral(q.dir+"/seat", nil))
	commit("Enqueue", nil, backend.Enqueue(q.dir, []byte("new")))
	commit("CompareAndSet", nil, backend.CompareAndSet(r.key("new"), nil, 0))
	commit("Update", nil, backend.Update(q.held, []byte("set")))
	commit("Delete", nil, backend.Delete(q.gone))
	commit("a commit of several ops", guard, backend.CompareAndSet(q.record.Key, []byte("1"), q.record.Version), backend.Enqueue(q.dir, []byte("last")))
	commit("a commit without ops", guard)
	add("get", func(ctx context.Context) error { _, err := s.Get(ctx, q.held.Key); return err })
	add("survey", func(ctx context.Context) error {
		_, _, err := s.Survey(ctx, q.dir, func(backend.Entry) string { return "" })
		return err
	})
	add("children", func(ctx context.Context) error { _, _, err := s.Children(ctx, q.dir, 10); return err })
	add("list", func(ctx context.Context) error { _, err := s.List(ctx, q.dir); return err })
	add("predecessor", func(ctx context.Context) error { _, err := s.Predecessor(ctx, q.held); return err })
	add("await", func(ctx context.Context) error { _, err := s.Await(ctx, backend.Unknown(q.record.Key)); return err })
	add("await list", func(ctx context.Context) error { _, err := s.AwaitList(ctx, backend.Listing{Dir: q.dir}); return err })
	add("discard", func(ctx context.Context) error { return s.Discard(ctx, q.held) })
	last := len(q.calls) - 1
	q.calls, q.drop = q.calls[:last:last], q.calls[last]
	return q
}

// done checks that each call was done once.
func (q *questions) done() {
	q.r.Until("each call was done once, and the entries that they created exist", func() bool {
		var values []string
		for _, key := range q.other.list(q.dir).Keys {
			values = append(values, string(q.other.peek(key).Value))
		}
		return slices.Equal(values, []string{"new", "last"})
	})
}

// goesOn checks that the session is not over, and still reads.
func (q *questions) goesOn() {
	q.other.sees(q.s.get(q.r.key("new")))
	state := q.s.State()
	q.r.FailIf(state == backend.Lost, "the session is %v", state)
}
