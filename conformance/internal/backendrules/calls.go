package backendrules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
)

// A sess is a session whose calls must succeed.
type sess struct {
	*backend.Session
	r *run
}

func (s sess) commit(ops ...backend.Op) []backend.Entry {
	out, err := s.Commit(s.r.ctx, nil, ops...)
	s.r.Must(fmt.Sprintf("commit %v %s", ops[0].Kind, ops[0].Key), err)
	s.r.FailIf(len(out) != len(ops), "commit of %d ops returned %d entries", len(ops), len(out))
	return out
}

func (s sess) create(key, value string) backend.Entry {
	return s.commit(backend.CreateEphemeral(key, []byte(value)))[0]
}

func (s sess) enqueue(dir, value string) backend.Entry {
	return s.commit(backend.Enqueue(dir, []byte(value)))[0]
}

func (s sess) put(key, value string, version uint64) backend.Entry {
	return s.commit(backend.CompareAndSet(key, []byte(value), version))[0]
}

func (s sess) set(e backend.Entry, value string) backend.Entry {
	return s.commit(backend.Update(e, []byte(value)))[0]
}

func (s sess) delete(all ...backend.Entry) {
	for _, e := range all {
		s.commit(backend.Delete(e))
	}
}

func (s sess) dir(name string) string {
	return s.put(s.r.key(name), "", 0).Key
}

func (s sess) get(key string) backend.Entry {
	e, err := s.Get(s.r.ctx, key)
	s.r.Must("get "+key, err)
	return e
}

func (s sess) list(dir string) backend.Listing {
	l, err := s.List(s.r.ctx, dir)
	s.r.Must("list "+dir, err)
	return l
}

func (s sess) predecessor(e backend.Entry) backend.Entry {
	p, err := s.Predecessor(s.r.ctx, e)
	s.r.Must("predecessor of "+e.Key, err)
	return p
}

// sees waits until this session sees entries that another has written.
func (s sess) sees(all ...backend.Entry) {
	for _, e := range all {
		s.r.Until(fmt.Sprintf("%+v is seen by another session", e), func() bool {
			have := s.peek(e.Key)
			return have.Same(e) && string(have.Value) == string(e.Value) && have.Session == e.Session
		})
	}
}

// misses waits until this session sees nothing under these keys.
func (s sess) misses(keys ...string) {
	for _, key := range keys {
		s.r.Until(key+" is gone for another session", func() bool { return !s.peek(key).Exists() })
	}
}

// peek returns the entry of key, or the zero Entry.
func (s sess) peek(key string) backend.Entry {
	e, err := s.Get(s.r.ctx, key)
	if errors.Is(err, backend.ErrNoEntry) {
		return backend.Entry{}
	}
	s.r.Must("get "+key, err)
	return e
}

// lists waits until this session lists exactly these entries in dir, in this order.
func (s sess) lists(dir string, want ...backend.Entry) {
	var have []string
	for {
		l, err := s.List(s.r.ctx, dir)
		s.r.FailIf(s.r.ctx.Err() != nil, "list %s is %q, want %q", dir, have, harness.Keys(want))
		s.r.Must("list "+dir, err)
		if have = l.Keys; slices.Equal(have, harness.Keys(want)) {
			return
		}
		time.Sleep(s.r.Service.TTL / 100)
	}
}

// has checks that the entry exists as given, value included.
func (s sess) has(what string, want backend.Entry) {
	got := s.get(want.Key)
	s.r.FailIf(!got.Same(want) || string(got.Value) != string(want.Value) || got.Session != want.Session, "%s: the entry is %+v, want %+v", what, got, want)
}

// none checks that there is no entry under key.
func (s sess) none(what, key string) {
	e, err := s.Get(s.r.ctx, key)
	s.r.Refused(what, err, backend.ErrNoEntry)
	s.r.FailIf(e.Exists(), "%s returned %+v", what, e)
}

// refused checks that a commit returns this error.
func (s sess) refused(what string, want error, guards []backend.Condition, ops ...backend.Op) {
	_, err := s.Commit(s.r.ctx, guards, ops...)
	s.r.Refused(what, err, want)
}

// discard discards an entry of this session.
func (s sess) discard(e backend.Entry) { s.r.Must("discard of "+e.Key, s.Discard(s.r.ctx, e)) }

func (s sess) close() {
	began := time.Now()
	s.r.Confirmed("close", began, s.Close(s.r.ctx))
}

// committing starts a commit without conditions.
func (s sess) committing(what string, ops ...backend.Op) *task[[]backend.Entry] {
	return start(s.r, what, func(ctx context.Context) ([]backend.Entry, error) { return s.Commit(ctx, nil, ops...) })
}

func (s sess) getting(what, key string) *task[backend.Entry] {
	return start(s.r, what, func(ctx context.Context) (backend.Entry, error) { return s.Get(ctx, key) })
}

// waits starts an Await of entries that do not change meanwhile, and waits until it blocks.
func (s sess) waits(known ...backend.Entry) *task[[]backend.Entry] {
	t := s.await(known...)
	t.blocked("nothing happened")
	return t
}

func (s sess) await(known ...backend.Entry) *task[[]backend.Entry] {
	return start(s.r, fmt.Sprintf("await %q", harness.Keys(known)), func(ctx context.Context) ([]backend.Entry, error) {
		return s.Await(ctx, known...)
	})
}

// waitsList starts an AwaitList of a listing that does not change meanwhile, and waits until it blocks.
func (s sess) waitsList(known backend.Listing) *task[backend.Listing] {
	t := s.awaitList(known)
	t.blocked("nothing happened")
	return t
}

func (s sess) awaitList(known backend.Listing) *task[backend.Listing] {
	return start(s.r, "await list "+known.Dir, func(ctx context.Context) (backend.Listing, error) {
		return s.AwaitList(ctx, known)
	})
}

// one returns the result of an Await of one entry.
func one(t *task[[]backend.Entry]) backend.Entry {
	out := t.value()
	t.r.FailIf(len(out) != 1, "%s returned %d entries, want 1", t.what, len(out))
	return out[0]
}

// isGone checks that an Await of one entry has returned that it is gone.
func isGone(t *task[[]backend.Entry]) {
	got := one(t)
	t.r.FailIf(got.Exists(), "%s returned %+v, but the entry is gone", t.what, got)
}

// became checks that an Await of one entry has returned its current state.
func became(t *task[[]backend.Entry], now backend.Entry) {
	got := one(t)
	t.r.FailIf(!got.Same(now), "%s returned %+v, but the entry is %+v", t.what, got, now)
}
