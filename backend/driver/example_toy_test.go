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
	made, err := s.Commit(ctx, nil, backend.CompareAndSet("/line", nil, 0), backend.Enqueue("/line", []byte("anna")), backend.Enqueue("/line", []byte("ben")))
	if err != nil {
		fmt.Println(err)
		return
	}
	before, err := s.Predecessor(ctx, made[2])
	fmt.Printf("%s is before %s: %v\n", before.Value, made[2].Value, err)
	_, err = s.Commit(ctx, nil, backend.CreateEphemeral("/nowhere/seat", nil))
	fmt.Println(err)
	// Output:
	// anna is before ben: <nil>
	// toy: commit /nowhere/seat: parent entry does not exist
}

// A toy is the smallest service that keeps the contract: entries in a map, under a mutex. Whoever
// waits looks again after each change.
type toy struct {
	mu      sync.Mutex
	rev     uint64 // of the last commit
	entries map[string]backend.Entry
	queued  map[string]bool        // keys that Enqueue has made, which sort by age
	expiry  map[string]*time.Timer // by session
	changed chan struct{}          // closed and replaced at each change
}

func newToy() *toy {
	return &toy{
		entries: make(map[string]backend.Entry), queued: make(map[string]bool),
		expiry: make(map[string]*time.Timer), changed: make(chan struct{}),
	}
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

// Open begins a session, whose heartbeats are a goroutine.
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
	s := &session{p: p, toy: t}
	s.Init(driver.LifeOptions{End: s.end, Unconfirmed: errCut, Remove: s.remove})
	s.Mu.Lock()
	s.Grant(id, sent, ttl, ttl/10)
	s.Mu.Unlock()
	s.Run(s.beat)
	return s, nil
}

var errCut = errors.New("the link is cut")

// end drops a session and its entries.
func (t *toy) end(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if timer := t.expiry[id]; timer != nil {
		timer.Stop()
	}
	delete(t.expiry, id)
	t.rev++
	for key, e := range t.entries {
		if e.Session == id {
			t.remove(key)
		}
	}
	t.tell()
}

// tell wakes all who wait. The caller holds mu.
func (t *toy) tell() {
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *toy) remove(key string) {
	delete(t.entries, key)
	delete(t.queued, key)
}

// A session is a driver: the kit's Life, and seven methods.
type session struct {
	driver.Life
	p   *process
	toy *toy
}

func (s *session) beat() {
	for s.Ctx.Err() == nil {
		select {
		case <-time.After(s.TTL() / 10):
		case <-s.Ctx.Done():
			return
		}
		sent := time.Now()
		if s.arrives(func() { s.toy.expiry[s.ID()].Reset(s.TTL()) }) {
			s.Extend(sent)
			s.Resume()
		}
	}
}

// arrives runs do at the service, if the link is there and the session lives.
func (s *session) arrives(do func()) bool {
	s.toy.mu.Lock()
	defer s.toy.mu.Unlock()
	switch {
	case s.p.cut:
		s.Suspend(errCut)
	case s.toy.expiry[s.ID()] == nil:
		s.Lose(errors.New("expired"))
	default:
		do()
		return true
	}
	return false
}

// end is of use where the link is there.
func (s *session) end(context.Context, error) {
	s.toy.mu.Lock()
	cut := s.p.cut
	s.toy.mu.Unlock()
	if !cut {
		s.toy.end(s.ID())
		s.Confirm()
	}
}

// ask runs do at the service, again after each change until it is done. Out of touch it waits.
func (s *session) ask(ctx context.Context, do func() (done bool)) error {
	for {
		if err := s.AwaitLive(ctx); err != nil {
			return err
		}
		var done bool
		var changed chan struct{}
		if !s.arrives(func() { done, changed = do(), s.toy.changed }) {
			continue
		}
		if done {
			return nil
		}
		if err := s.Wait(ctx, changed); err != nil {
			return err
		}
	}
}

func (s *session) Get(ctx context.Context, key string) (e backend.Entry, err error) {
	err = s.ask(ctx, func() bool { e = s.toy.entries[key]; return true })
	if err == nil && !e.Exists() {
		err = backend.ErrNoEntry
	}
	return e, err
}

func (s *session) Survey(ctx context.Context, key string, _ func(backend.Entry) string) (e backend.Entry, strangers []string, err error) {
	err = s.ask(ctx, func() bool {
		e = s.toy.entries[key]
		for other, o := range s.toy.entries {
			if backend.Parent(other) == key && o.Session != "" {
				strangers = append(strangers, other)
			}
		}
		return true
	})
	e.Key = key
	return e, strangers, err
}

func (t *toy) list(dir string) backend.Listing {
	l := backend.Listing{Dir: dir, Rev: t.rev}
	for key := range t.queued {
		if backend.Parent(key) == dir {
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
		own = s.toy.entries[e.Key]
		keys := s.toy.list(backend.Parent(e.Key)).Keys
		if at := slices.Index(keys, e.Key); at > 0 {
			before = s.toy.entries[keys[at-1]]
		}
		return true
	})
	if err == nil && own.Rev != e.Rev {
		err = backend.ErrNoEntry
	}
	return before, err
}

func (s *session) Await(ctx context.Context, known ...backend.Entry) (now []backend.Entry, err error) {
	err = s.ask(ctx, func() (differs bool) {
		now = nil
		for _, e := range known {
			have := s.toy.entries[e.Key]
			have.Key = e.Key
			now, differs = append(now, have), differs || !have.Same(e)
		}
		return differs
	})
	return now, err
}

func (s *session) remove(ctx context.Context, e backend.Entry) error {
	_, err := s.Commit(ctx, nil, backend.Delete(e))
	if errors.Is(err, backend.ErrNoEntry) {
		return nil
	}
	return err
}

// Commit tries all ops on a copy of what there is, so that none or all are done.
func (s *session) Commit(ctx context.Context, guards []backend.Condition, ops ...backend.Op) (made []backend.Entry, err error) {
	t, refused := s.toy, error(nil)
	err = s.ask(ctx, func() bool {
		next := toy{rev: t.rev + 1, entries: maps.Clone(t.entries), queued: maps.Clone(t.queued)}
		if made, refused = next.commit(s.ID(), guards, ops); refused == nil && len(ops) > 0 {
			t.rev, t.entries, t.queued = next.rev, next.entries, next.queued
			t.tell()
		}
		return true
	})
	return made, cmp.Or(err, refused)
}

func (t *toy) commit(session string, guards []backend.Condition, ops []backend.Op) (made []backend.Entry, err error) {
	for _, g := range guards {
		if have := t.entries[g.Entry.Key]; have.Rev != g.Entry.Rev || !have.Exists() || g.Exact && have.Version != g.Entry.Version {
			return nil, backend.ErrCondition
		}
	}
	for i, op := range ops {
		e := t.entries[op.Key]
		switch op.Kind {
		case backend.OpCreateEphemeral, backend.OpEnqueue:
			parent := backend.Parent(op.Key)
			if op.Kind == backend.OpEnqueue {
				parent = op.Key
			}
			if parent != "/" && !t.entries[parent].Exists() {
				return nil, backend.ErrNoParent
			}
			if op.Kind == backend.OpEnqueue {
				op.Key = fmt.Sprintf("%s/n%016x-%03d", parent, t.rev, i)
				t.queued[op.Key] = true
			} else if e.Exists() {
				return nil, backend.ErrExists
			}
			e = backend.Entry{Key: op.Key, Rev: t.rev, Session: session}
		case backend.OpCompareAndSet:
			if e.Version != op.Version {
				return nil, backend.ErrConflict
			}
			for parent := backend.Parent(op.Key); parent != "/"; parent = backend.Parent(parent) {
				if !t.entries[parent].Exists() {
					t.entries[parent] = backend.Entry{Key: parent, Rev: t.rev, Version: 1}
				}
			}
			e.Key, e.Rev = op.Key, cmp.Or(e.Rev, t.rev)
		case backend.OpUpdate, backend.OpDelete:
			if !e.Exists() || e.Rev != op.Rev {
				return nil, backend.ErrNoEntry
			}
		}
		e.Value = op.Value
		e.Version++
		if op.Kind == backend.OpDelete {
			for key := range t.entries {
				if strings.HasPrefix(key, op.Key+"/") {
					return nil, backend.ErrConflict
				}
			}
			t.remove(op.Key)
			e = backend.Entry{Key: op.Key}
		} else {
			t.entries[op.Key] = e
		}
		made = append(made, e)
	}
	return made, nil
}
