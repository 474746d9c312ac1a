package driver_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// Example is a whole backend: a service in a map, and a driver for it. It passes
// conformance.TestBackend.
func Example() {
	ctx := context.Background()
	s, err := (&process{toy: newToy()}).Open(ctx, backend.OpenOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close(ctx)
	_, err = s.Commit(ctx, nil, backend.CompareAndSet("/line", nil, 0), backend.Enqueue("/line", []byte("anna")))
	if err != nil {
		fmt.Println(err)
		return
	}
	made, err := s.Commit(ctx, nil, backend.Enqueue("/line", []byte("ben")))
	if err != nil {
		fmt.Println(err)
		return
	}
	before, err := s.Predecessor(ctx, made[0])
	fmt.Printf("%s is before %s: %v\n", before.Value, made[0].Value, err)
	_, err = s.Commit(ctx, nil, backend.CreateEphemeral("/nowhere/seat", nil))
	fmt.Println(err)
	// Output:
	// anna is before ben: <nil>
	// toy: commit /nowhere/seat: parent entry does not exist
}

// A toy is the smallest service that keeps the contract: entries in a map, under a mutex. Waiters look
// again after each change.
type toy struct {
	mu      sync.Mutex
	rev     uint64 // of the last commit
	entries map[string]record
	expiry  map[string]*time.Timer // by session
	changed driver.Signal
}

type record struct {
	backend.Entry
	queued bool // created by Enqueue, under a key that sorts by age
}

func newToy() *toy {
	return &toy{entries: make(map[string]record), expiry: make(map[string]*time.Timer)}
}

// at returns the entry under a key.
func (t *toy) at(key string) backend.Entry {
	e := t.entries[key].Entry
	e.Key = key
	return e
}

// end drops a session and its entries.
func (t *toy) end(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.expiry, id)
	maps.DeleteFunc(t.entries, func(_ string, e record) bool { return e.Session == id })
	t.rev++
	t.changed.Fire()
}

// A process is a Backend: one process's link to the toy.
type process struct {
	toy *toy
	cut bool // guarded by toy.mu
}

func (p *process) String() string { return "toy" }

func (p *process) Limits() backend.Limits {
	return backend.Limits{MinTTL: time.Second, MaxTTL: time.Hour, DefaultTTL: 10 * time.Second}
}

func (p *process) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	return driver.Open(ctx, p, o, p.open)
}

func (p *process) open(_ context.Context, ttl time.Duration) (*session, error) {
	t, sent := p.toy, time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.cut {
		return nil, backend.ErrUnavailable
	}
	t.rev++
	id := fmt.Sprintf("s%d", t.rev)
	t.expiry[id] = time.AfterFunc(ttl, func() { t.end(id) })
	s := &session{process: p}
	s.Init(driver.LifeOptions{End: s.end, Unconfirmed: errCut, Remove: driver.RemoveBy(s.Commit)})
	s.Grant(id, sent, ttl, ttl/10)
	s.Beat(ttl/10, func(context.Context) error { return s.arrives(func() { t.expiry[id].Reset(ttl) }) })
	return s, nil
}

// A session is a driver: the kit's Life, and eight methods.
type session struct {
	driver.Life
	*process
}

var errCut = errors.New("the link is cut")

// arrives runs do at the service, if the link is up and the session lives.
func (s *session) arrives(do func()) error {
	s.toy.mu.Lock()
	defer s.toy.mu.Unlock()
	switch {
	case s.cut:
		return errCut
	case s.toy.expiry[s.ID()] == nil:
		s.Lose(errors.New("expired"))
		return s.LostError()
	}
	do()
	return nil
}

// end ends the session at the service, if the link is up.
func (s *session) end(context.Context, error) {
	if s.arrives(func() { s.toy.expiry[s.ID()].Stop() }) != errCut {
		s.toy.end(s.ID())
		s.Confirm()
	}
}

// ask runs do at the service, again after each change until it is done. Out of touch, it waits.
func (s *session) ask(ctx context.Context, do func() (done bool)) error {
	for {
		if err := s.AwaitLive(ctx); err != nil {
			return err
		}
		done, changed := false, (<-chan struct{})(nil)
		if err := s.arrives(func() { done, changed = do(), s.toy.changed.Next() }); err != nil {
			s.Suspend(err)
			continue
		}
		if done {
			return nil
		}
		_ = s.Wait(ctx, changed) // the loop finds what ended it
	}
}

func (s *session) Get(ctx context.Context, key string) (e backend.Entry, err error) {
	err = s.ask(ctx, func() bool { e = s.toy.at(key); return true })
	if err == nil && !e.Exists() {
		err = backend.ErrNoEntry
	}
	return e, err
}

func (s *session) Survey(ctx context.Context, key string, _ func(backend.Entry) string) (e backend.Entry, strangers []string, err error) {
	err = s.ask(ctx, func() bool {
		e = s.toy.at(key)
		for other, o := range s.toy.entries {
			if backend.Parent(other) == key && o.Session != "" {
				strangers = append(strangers, other)
			}
		}
		return true
	})
	return e, strangers, err
}

func (s *session) Children(ctx context.Context, key string, most int) (keys []string, more bool, err error) {
	err = s.ask(ctx, func() bool {
		for other := range s.toy.entries {
			if backend.Parent(other) == key {
				keys = append(keys, other)
			}
		}
		return true
	})
	more = len(keys) > most
	return keys[:min(most, len(keys))], more, err
}

func (t *toy) list(dir string) backend.Listing {
	l := backend.Listing{Dir: dir, Rev: t.rev}
	for key, e := range t.entries {
		if e.queued && backend.Parent(key) == dir {
			l.Keys = append(l.Keys, key)
		}
	}
	slices.Sort(l.Keys)
	return l
}

func (s *session) List(ctx context.Context, dir string) (l backend.Listing, err error) {
	err = s.ask(ctx, func() bool { l = s.toy.list(dir); return true })
	return l, err
}

func (s *session) AwaitList(ctx context.Context, known backend.Listing) (l backend.Listing, err error) {
	err = s.ask(ctx, func() bool { l = s.toy.list(known.Dir); return !slices.Equal(l.Keys, known.Keys) })
	return l, err
}

func (s *session) Predecessor(ctx context.Context, e backend.Entry) (before backend.Entry, err error) {
	var own backend.Entry
	err = s.ask(ctx, func() bool {
		own = s.toy.at(e.Key)
		keys := s.toy.list(backend.Parent(e.Key)).Keys
		if i := slices.Index(keys, e.Key); i > 0 {
			before = s.toy.at(keys[i-1])
		}
		return true
	})
	if err == nil && own.Rev != e.Rev {
		err = backend.ErrNoEntry
	}
	return before, err
}

func (s *session) Await(ctx context.Context, known ...backend.Entry) (now []backend.Entry, err error) {
	err = s.ask(ctx, func() bool {
		now = nil
		for _, e := range known {
			now = append(now, s.toy.at(e.Key))
		}
		return !slices.EqualFunc(now, known, backend.Entry.Same)
	})
	return now, err
}

// Commit tries all ops on a copy of the entries, so that it does all or none.
func (s *session) Commit(ctx context.Context, conditions []backend.Condition, ops ...backend.Op) (made []backend.Entry, err error) {
	t, refused := s.toy, error(nil)
	err = s.ask(ctx, func() bool {
		next := toy{rev: t.rev + 1, entries: maps.Clone(t.entries)}
		if made, refused = next.commit(s.ID(), conditions, ops); refused == nil && len(ops) > 0 {
			t.rev, t.entries = next.rev, next.entries
			t.changed.Fire()
		}
		return true
	})
	return made, cmp.Or(err, refused)
}

func (t *toy) commit(session string, conditions []backend.Condition, ops []backend.Op) (made []backend.Entry, err error) {
	for _, c := range conditions {
		if !c.Holds(t.at(c.Entry.Key)) {
			return nil, backend.ErrCondition
		}
	}
	for i, op := range ops {
		e, err := t.do(session, i, op)
		if err != nil {
			return nil, err
		}
		made = append(made, e)
	}
	return made, nil
}

// do applies the i-th op of a commit.
func (t *toy) do(session string, i int, op backend.Op) (backend.Entry, error) {
	e, parent := t.at(op.Key), backend.Parent(op.Key)
	queued := op.Kind == backend.OpEnqueue
	if queued {
		parent = op.Key
		e = backend.Entry{Key: fmt.Sprintf("%s/n%016x-%03d", parent, t.rev, i)}
	}
	switch {
	case op.Ephemeral() && parent != "/" && !t.at(parent).Exists():
		return e, backend.ErrNoParent
	case op.Kind == backend.OpCreateEphemeral && e.Exists():
		return e, backend.ErrExists
	case op.Kind == backend.OpCompareAndSet && e.Version != op.Version:
		return e, backend.ErrConflict
	case (op.Kind == backend.OpUpdate || op.Kind == backend.OpDelete) && (!e.Exists() || e.Rev != op.Rev):
		return e, backend.ErrNoEntry
	case op.Kind == backend.OpDelete:
		for key := range t.entries {
			if strings.HasPrefix(key, op.Key+"/") {
				return e, backend.ErrConflict
			}
		}
		delete(t.entries, op.Key)
		return t.at(op.Key), nil
	case op.Ephemeral():
		e.Session = session
	}
	for ; parent != "/" && !t.at(parent).Exists(); parent = backend.Parent(parent) { // of a CompareAndSet
		t.entries[parent] = record{Entry: backend.Entry{Key: parent, Rev: t.rev, Version: 1}}
	}
	if t.at(parent).Session != "" { // an ephemeral entry is no directory
		return e, backend.ErrNoParent
	}
	e.Value, e.Version, e.Rev = op.Value, e.Version+1, cmp.Or(e.Rev, t.rev)
	t.entries[e.Key] = record{e, queued || t.entries[e.Key].queued}
	return e, nil
}
