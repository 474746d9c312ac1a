package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"github.com/elector-go/elector/backend"
)

// client starts a new process.
func (r *run) client() *Client {
	if c := r.first; c != nil {
		r.first = nil
		return c
	}
	return r.svc.Client(r.t)
}

// open opens a session in process c.
func (r *run) open(c *Client) sess {
	r.t.Helper()
	s, err := c.Backend.Open(r.ctx, backend.OpenOptions{TTL: r.svc.TTL})
	if err != nil {
		r.failf("open: %v", err)
	}
	out := sess{s, r}
	r.sessions = append(r.sessions, out)
	return out
}

// session opens a session in a new process.
func (r *run) session() sess {
	r.t.Helper()
	return r.open(r.client())
}

// key returns the key of this name in the rule's own place.
func (r *run) key(name string) string { return r.svc.Root + "/" + name }

// nothing checks that err is nil.
func (r *run) nothing(what string, err error) {
	r.t.Helper()
	if err != nil {
		r.failf("%s: %v", what, err)
	}
}

// refused checks that err is all of want.
func (r *run) refused(what string, err error, want ...error) {
	r.t.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			r.failf("%s: error is %v, want %q", what, text(err), w)
		}
	}
}

// isAny tells whether err is one of these.
func isAny(err error, of ...error) bool {
	return slices.ContainsFunc(of, func(target error) bool { return errors.Is(err, target) })
}

func text(err error) string {
	if err == nil {
		return "nil"
	}
	return fmt.Sprintf("%q", err)
}

// until waits for a condition that another process brings about.
func (r *run) until(what string, holds func() bool) {
	r.t.Helper()
	for !holds() {
		if r.ctx.Err() != nil {
			r.failf("%s: it never is", what)
		}
		time.Sleep(r.svc.TTL / 100)
	}
}

// settle lets what is on its way arrive: in a bubble until all goroutines are
// blocked, else for a moment. It never makes a right backend fail a rule.
func (r *run) settle() {
	if r.svc.Virtual {
		time.Sleep(r.svc.Slow)
		synctest.Wait()
		return
	}
	time.Sleep(50 * time.Millisecond)
}

// A task is a call on a goroutine of its own.
type task[T any] struct {
	r    *run
	what string
	done chan struct{}
	end  context.CancelCauseFunc
	v    T
	err  error
}

// start runs call on a goroutine of its own; what names it.
func start[T any](r *run, what string, call func(ctx context.Context) (T, error)) *task[T] {
	ctx, cancel := context.WithCancelCause(r.ctx)
	t := &task[T]{r: r, what: what, done: make(chan struct{}), end: cancel}
	r.tasks.Go(func() {
		defer close(t.done)
		t.v, t.err = call(ctx)
	})
	return t
}

// stop ends the call's context.
func (t *task[T]) stop() { t.end(nil) }

// result waits for the call to return.
func (t *task[T]) result() (T, error) {
	t.r.t.Helper()
	select {
	case <-t.done:
	case <-t.r.ctx.Done():
		t.r.failf("%s does not return", t.what)
	}
	return t.v, t.err
}

// value waits for the call to return without an error.
func (t *task[T]) value() T {
	t.r.t.Helper()
	v, err := t.result()
	t.r.nothing(t.what, err)
	return v
}

// blocked checks that the call has not returned.
func (t *task[T]) blocked(why string) {
	t.r.t.Helper()
	t.r.settle()
	select {
	case <-t.done:
		t.r.failf("%s returned (%v, %v), but %s", t.what, t.v, t.err, why)
	default:
	}
}

// A sess is a session whose calls have to succeed.
type sess struct {
	*backend.Session
	r *run
}

func (s sess) commit(ops ...backend.Op) []backend.Entry {
	s.r.t.Helper()
	out, err := s.Commit(s.r.ctx, nil, ops...)
	s.r.nothing(fmt.Sprintf("commit %v %s", ops[0].Kind, ops[0].Key), err)
	if len(out) != len(ops) {
		s.r.failf("commit of %d ops returned %d entries", len(ops), len(out))
	}
	return out
}

func (s sess) create(key, value string) backend.Entry {
	s.r.t.Helper()
	return s.commit(backend.CreateEphemeral(key, []byte(value)))[0]
}

func (s sess) enqueue(dir, value string) backend.Entry {
	s.r.t.Helper()
	return s.commit(backend.Enqueue(dir, []byte(value)))[0]
}

func (s sess) put(key, value string, version uint64) backend.Entry {
	s.r.t.Helper()
	return s.commit(backend.CompareAndSet(key, []byte(value), version))[0]
}

func (s sess) set(e backend.Entry, value string) backend.Entry {
	s.r.t.Helper()
	return s.commit(backend.Update(e, []byte(value)))[0]
}

func (s sess) delete(e backend.Entry) {
	s.r.t.Helper()
	s.commit(backend.Delete(e))
}

// dir makes a directory.
func (s sess) dir(name string) string {
	s.r.t.Helper()
	return s.put(s.r.key(name), "", 0).Key
}

func (s sess) get(key string) backend.Entry {
	s.r.t.Helper()
	e, err := s.Get(s.r.ctx, key)
	s.r.nothing("get "+key, err)
	return e
}

func (s sess) list(dir string) backend.Listing {
	s.r.t.Helper()
	l, err := s.List(s.r.ctx, dir)
	s.r.nothing("list "+dir, err)
	return l
}

func (s sess) predecessor(e backend.Entry) backend.Entry {
	s.r.t.Helper()
	p, err := s.Predecessor(s.r.ctx, e)
	s.r.nothing("predecessor of "+e.Key, err)
	return p
}

// sees waits until this session sees e, which another has written.
func (s sess) sees(e backend.Entry) {
	s.r.t.Helper()
	s.r.until(fmt.Sprintf("%+v is seen by another session", e), func() bool {
		have := s.peek(e.Key)
		return have.Same(e) && string(have.Value) == string(e.Value) && have.Session == e.Session
	})
}

// misses waits until this session sees nothing under key.
func (s sess) misses(key string) {
	s.r.t.Helper()
	s.r.until(key+" is gone for another session", func() bool { return !s.peek(key).Exists() })
}

// peek returns what is under key, if anything is.
func (s sess) peek(key string) backend.Entry {
	s.r.t.Helper()
	e, err := s.Get(s.r.ctx, key)
	if errors.Is(err, backend.ErrNoEntry) {
		return backend.Entry{}
	}
	s.r.nothing("get "+key, err)
	return e
}

// lists waits until this session lists exactly these entries in dir, in this order.
func (s sess) lists(dir string, want ...backend.Entry) {
	s.r.t.Helper()
	var have []string
	for {
		l, err := s.List(s.r.ctx, dir)
		if s.r.ctx.Err() != nil {
			s.r.failf("list %s is %q, want %q", dir, have, keys(want))
		}
		s.r.nothing("list "+dir, err)
		if have = l.Keys; slices.Equal(have, keys(want)) {
			return
		}
		time.Sleep(s.r.svc.TTL / 100)
	}
}

func keys(entries []backend.Entry) []string {
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.Key
	}
	return out
}

// await starts an Await.
func (s sess) await(known ...backend.Entry) *task[[]backend.Entry] {
	return start(s.r, fmt.Sprintf("await %q", keys(known)), func(ctx context.Context) ([]backend.Entry, error) {
		return s.Await(ctx, known...)
	})
}

// awaitList starts an AwaitList.
func (s sess) awaitList(known backend.Listing) *task[backend.Listing] {
	return start(s.r, "await list "+known.Dir, func(ctx context.Context) (backend.Listing, error) {
		return s.AwaitList(ctx, known)
	})
}

// one returns the result of an Await of one entry.
func one(t *task[[]backend.Entry]) backend.Entry {
	t.r.t.Helper()
	out := t.value()
	if len(out) != 1 {
		t.r.failf("%s returned %d entries, want 1", t.what, len(out))
	}
	return out[0]
}
