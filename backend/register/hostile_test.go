package register

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
)

// An odd store has requests of its own; nil: the process's.
type odd struct {
	*process
	read func(ctx context.Context) ([]byte, string, error)
	swap func(ctx context.Context, text []byte, tag string) (string, error)
}

func (s *odd) Read(ctx context.Context) ([]byte, string, error) {
	if s.read != nil {
		return s.read(ctx)
	}
	return s.process.Read(ctx)
}

func (s *odd) Swap(ctx context.Context, text []byte, tag string) (string, error) {
	if s.swap != nil {
		return s.swap(ctx, text, tag)
	}
	return s.process.Swap(ctx, text, tag)
}

// newOdd returns a process whose store is odd.
func newOdd(t *testing.T, o *object) *odd {
	s := &odd{process: &process{object: o, trip: time.Millisecond}}
	s.backend = must.Get(New(Config{Name: "odd", Store: s, MaxBytes: maxBytes, Poll: 100 * time.Millisecond}))(t)
	return s
}

// touch gives the object a new tag, and leaves its text: so do labels on an object of Kubernetes.
func (o *object) touch() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.swaps++
	o.changed.Fire()
}

// root makes a parent.
func root(t *testing.T, s *backend.Session) {
	t.Helper()
	must.Get(s.Commit(t.Context(), nil, backend.CompareAndSet("/a", nil, 0)))(t)
}

// Somebody changes what is around the document, or gives the object a new tag in another way.
func TestTouched(t *testing.T) {
	for _, notified := range []bool{true, false} {
		bubble(t, func(t *testing.T, o *object) {
			p := newProcess(o, notified)
			s := open(t, p)
			for range 10 {
				o.touch()
				time.Sleep(ttl / 3)
			}
			require.Equal(t, backend.Live, s.State())
			o.touch()
			root(t, s)
			o.touch()
			open(t, p)
		})
	}
}

// A notice may have a wrong tag.
func TestWrongTag(t *testing.T) {
	bubble(t, func(t *testing.T, o *object) {
		p := newProcess(o, true)
		s := open(t, p)
		for _, tag := range []string{"", "x"} {
			o.mu.Lock()
			d := o.document()
			o.mu.Unlock()
			d.Seq++
			text := must.Get(d.encode())(t)
			p.backend.link.notice(t.Context(), text, tag)
			time.Sleep(ttl)
			_ = s.State()
		}
		open(t, p)
	})
}

// An operator edits the document and does not count it.
func TestEditedByHand(t *testing.T) {
	bubble(t, func(t *testing.T, o *object) {
		p := newProcess(o, true)
		s := open(t, p)
		root(t, s)
		seat := must.Get(s.Commit(t.Context(), nil, backend.CreateEphemeral("/a/seat", nil)))(t)[0]
		o.mu.Lock()
		d := o.document()
		delete(d.Entries, "/a/seat")
		o.text = must.Get(d.encode())(t)
		o.swaps++
		o.changed.Fire()
		o.mu.Unlock()
		now := must.Get(s.Await(t.Context(), seat))(t)
		assert.False(t, now[0].Exists())
		time.Sleep(2 * ttl)
		assert.Equal(t, backend.Live, s.State())
	})
}

// A session whose record is gone is lost before anybody sees its entries gone.
func TestLostBeforeSeen(t *testing.T) {
	for range 30 {
		bubble(t, func(t *testing.T, o *object) {
			s := open(t, newProcess(o, true))
			root(t, s)
			seat := must.Get(s.Commit(t.Context(), nil, backend.CreateEphemeral("/a/seat", nil)))(t)[0]
			var all sync.WaitGroup
			for range 30 {
				all.Go(func() { assert.ErrorIs(t, must.Err(s.Await(t.Context(), seat)), backend.ErrSessionLost) })
			}
			time.Sleep(time.Second)
			_ = o.edit(func(d *document) error { d.drop(s.ID()); return nil })
			all.Wait()
		})
		if t.Failed() {
			return
		}
	}
}

// One slow reply does not make the process rest until its window has passed.
func TestSlowReply(t *testing.T) {
	bubble(t, func(t *testing.T, o *object) {
		p := newOdd(t, o)
		var slow atomic.Bool
		p.swap = func(ctx context.Context, text []byte, tag string) (string, error) {
			if slow.Swap(false) {
				time.Sleep(4 * time.Second)
			}
			return p.process.Swap(ctx, text, tag)
		}
		s := open(t, p.process)
		for range 30 {
			slow.Store(true)
			time.Sleep(2 * ttl)
			require.Equal(t, backend.Live, s.State())
		}
	})
}

// Commits that are refused write no heartbeats, and do not keep others from doing so.
func TestManyRefused(t *testing.T) {
	bubble(t, func(t *testing.T, o *object) {
		p := newProcess(o, true)
		p.trip = 10 * time.Millisecond
		s := open(t, p)
		root(t, s)
		must.Get(s.Commit(t.Context(), nil, backend.CreateEphemeral("/a/seat", nil)))(t)
		var all sync.WaitGroup
		var failed atomic.Bool
		for range 3000 {
			all.Go(func() {
				if _, err := s.Commit(t.Context(), nil, backend.CreateEphemeral("/a/seat", nil)); !errors.Is(err, backend.ErrExists) && failed.CompareAndSwap(false, true) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		assert.Equal(t, backend.Live, s.State())
	})
}

// An object that is full takes heartbeats, sessions and what makes it smaller.
func TestFull(t *testing.T) {
	bubble(t, func(t *testing.T, o *object) {
		const maxBytes = 20 << 10
		p := newProcess(o, true)
		p.backend.cfg.MaxBytes = maxBytes
		s := open(t, p)
		full := must.Get(s.Commit(t.Context(), nil, backend.CompareAndSet("/a", make([]byte, (maxBytes-1000)/4*3), 0)))(t)[0]
		var err error
		for i := 0; err == nil; i++ {
			_, err = s.Commit(t.Context(), nil, backend.CompareAndSet(fmt.Sprint("/", i), nil, 0))
		}
		require.ErrorIs(t, err, backend.ErrTooLarge)
		o.mu.Lock()
		pad := maxBytes - len(o.text)
		o.mu.Unlock()
		for n := pad; n >= 0 && err != nil; n-- { // to the last byte
			_, err = s.Commit(t.Context(), nil, backend.CompareAndSet("/1", make([]byte, n), 1))
		}
		until := time.Now().Add(20 * ttl)
		for time.Now().Before(until) {
			require.Equal(t, backend.Live, s.State())
			time.Sleep(ttl / 10)
		}
		other := open(t, p)
		must.Get(other.Commit(t.Context(), nil, backend.Delete(full)))(t)
	})
}

// Records of sessions whose Open got no reply do not add up.
func TestOpensWithoutReply(t *testing.T) {
	bubble(t, func(t *testing.T, o *object) {
		p := newOdd(t, o)
		p.swap = func(ctx context.Context, text []byte, tag string) (string, error) {
			_, _ = p.process.Swap(ctx, text, tag)
			return "", errCut
		}
		for range 500 {
			_, err := p.backend.Open(t.Context(), backend.OpenOptions{TTL: MinTTL})
			require.ErrorIs(t, err, backend.ErrUnavailable)
			time.Sleep(100 * time.Millisecond)
		}
		assert.Less(t, len(o.look().Sessions), 50)
	})
}

// A session whose Open was answered after its window leaves nothing behind.
func TestOpenedTooLate(t *testing.T) {
	for range 300 {
		bubble(t, func(t *testing.T, o *object) {
			p := newOdd(t, o)
			var late atomic.Bool
			p.read = func(context.Context) ([]byte, string, error) {
				if late.Load() {
					return nil, "", backend.ErrDenied
				}
				return o.text, o.tag(), nil
			}
			p.swap = func(_ context.Context, text []byte, tag string) (string, error) {
				defer late.Store(true)
				time.Sleep(MinTTL - 100*time.Millisecond)
				return o.swap(text, tag)
			}
			s := must.Get(p.backend.Open(t.Context(), backend.OpenOptions{TTL: MinTTL}))(t)
			_ = s.Close(t.Context())
			l := &p.backend.link
			l.mu.Lock()
			defer l.mu.Unlock()
			if assert.Empty(t, l.sessions) {
				return
			}
			l.stop()
		})
		if t.Failed() {
			return
		}
	}
}

// An operator removes a session's record, and leaves its entries.
func TestOrphan(t *testing.T) {
	bubble(t, func(t *testing.T, o *object) {
		dead, s := open(t, newProcess(o, true)), open(t, newProcess(o, true))
		root(t, s)
		seat := must.Get(dead.Commit(t.Context(), nil, backend.CreateEphemeral("/a/seat", nil)))(t)[0]
		_ = o.edit(func(d *document) error { delete(d.Sessions, dead.ID()); return nil })
		ctx, cancel := context.WithTimeout(t.Context(), ttl)
		defer cancel()
		now := must.Get(s.Await(ctx, seat))(t)
		assert.False(t, now[0].Exists())
	})
}

// What nobody of this library has written crashes nobody, and is no entry if it has no revision or version.
func TestOddDocuments(t *testing.T) {
	const huge = "18446744073709551615"
	for text, want := range map[string]string{
		`{"elector":-1}`:                              "no document",
		`{"elector":1,"seq":1e400}`:                   "no document",
		`{"elector":1,"sessions":{"x":{"ttl":1e30}}}`: "no document",
		`{"elector":1}`:                               "",
		`{"elector":1,"seq":` + huge + `}`:            "no document",
		`{"elector":1,"rev":` + huge + `}`:            "no document",
		`{"elector":1,"sessions":{"x":{}, "y":{"ttl":-1,"beat":` + huge + `}, "":{"ttl":9223372036854775807}}}`:                                                             "",
		`{"elector":1,"entries":{"/a":{"rev":0,"version":5}}}`:                                                                                                              "",
		`{"elector":1,"entries":{"/a":{"rev":5,"version":0}}}`:                                                                                                              "",
		`{"elector":1,"entries":{"":{"rev":1,"version":1,"queued":true},"a":{"rev":2,"version":1,"session":""},"//":{"rev":3,"version":1},"/b/c/d":{"rev":4,"version":1}}}`: "",
	} {
		t.Run(text, func(t *testing.T) {
			bubble(t, func(t *testing.T, o *object) {
				_ = must.Get(o.swap([]byte(text), ""))(t)
				p := newProcess(o, true)
				s, err := p.backend.Open(t.Context(), backend.OpenOptions{TTL: ttl})
				if want != "" {
					require.ErrorContains(t, err, want)
					assert.Equal(t, text, string(o.text))
					return
				}
				require.NoError(t, err)
				defer func() { _ = s.Close(context.Background()) }()
				swaps, _ := o.counts()
				time.Sleep(3 * ttl)
				now, _ := o.counts()
				assert.Less(t, now-swaps, 30, "it spins")
				if s.State() == backend.Lost { // numbers that end
					s = open(t, p)
				}
				made := must.Get(s.Commit(t.Context(), nil, backend.CompareAndSet("/a", nil, 0)))(t)[0]
				assert.Equal(t, uint64(1), made.Version)
				seat := must.Get(s.Commit(t.Context(), nil, backend.CreateEphemeral("/a/seat", nil)))(t)[0]
				assert.Greater(t, seat.Rev, made.Rev)
				must.Get(s.Commit(t.Context(), nil, backend.Enqueue("/a", nil)))(t)
				_, _, err = s.Children(t.Context(), "/", 10)
				require.NoError(t, err)
			})
		})
	}
}

// A swap may be repeated on its way, and the caller gets the second reply: the object has moved.
func TestMovedThoughDone(t *testing.T) {
	bubble(t, func(t *testing.T, o *object) {
		p := newOdd(t, o)
		var twice atomic.Bool
		p.swap = func(ctx context.Context, text []byte, tag string) (string, error) {
			if twice.Swap(false) {
				_, _ = p.process.Swap(ctx, text, tag)
			}
			return p.process.Swap(ctx, text, tag)
		}
		twice.Store(true)
		s := open(t, p.process)
		assert.Equal(t, uint64(2), o.look().Sessions[s.ID()].Beat, "others may have seen the first one long ago")
		for _, op := range []backend.Op{
			backend.CompareAndSet("/a", nil, 0), backend.CompareAndSet("/a", []byte("x"), 1),
			backend.CreateEphemeral("/a/seat", nil), backend.Enqueue("/a", nil),
		} {
			twice.Store(true)
			must.Get(s.Commit(t.Context(), nil, op))(t)
		}
		assert.Len(t, o.look().Entries, 3)
	})
}

// Calls end with their contexts, however the store answers.
func TestOpenEnds(t *testing.T) {
	bubble(t, func(t *testing.T, o *object) {
		p := newOdd(t, o)
		calls := 0
		p.read = func(context.Context) ([]byte, string, error) { return o.text, o.tag(), nil }
		p.swap = func(_ context.Context, text []byte, tag string) (string, error) {
			if calls++; calls > 1000 {
				panic("it spins")
			}
			return "", ErrMoved
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, must.Err(p.backend.Open(ctx, backend.OpenOptions{})), context.DeadlineExceeded)
	})
}

// A request that is never answered blocks neither Open nor, for long, those who wait.
func TestNoAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, o *object) {
		p := newOdd(t, o)
		var dead atomic.Bool
		dead.Store(true)
		p.read = func(ctx context.Context) ([]byte, string, error) {
			if dead.Swap(false) {
				<-ctx.Done()
				return nil, "", ctx.Err()
			}
			return p.process.Read(ctx)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.ErrorIs(t, must.Err(p.backend.Open(ctx, backend.OpenOptions{})), backend.ErrUnavailable)

		s := must.Get(p.backend.Open(ctx, backend.OpenOptions{TTL: MaxTTL}))(t)
		defer func() { _ = s.Close(context.Background()) }()
		other := open(t, newProcess(o, true))
		root(t, other)
		a := must.Get(s.Get(ctx, "/a"))(t)
		for range 3 {
			woken := make(chan backend.Entry)
			go func() {
				now, err := s.Await(ctx, a)
				if assert.NoError(t, err) {
					woken <- now[0]
				}
			}()
			time.Sleep(time.Second)
			dead.Store(true)
			time.Sleep(time.Second)
			began := time.Now()
			must.Get(other.Commit(t.Context(), nil, backend.Update(a, nil)))(t)
			a = <-woken
			assert.Less(t, time.Since(began), 10*time.Second)
		}
	})
}

// A process near the store that writes all the time does not keep one far away from it from living.
func TestHotWriterNear(t *testing.T) {
	bubble(t, func(t *testing.T, o *object) {
		far := newProcess(o, true)
		far.trip = 40 * time.Millisecond
		other := open(t, far)
		hot := open(t, newProcess(o, true))
		made := must.Get(hot.Commit(t.Context(), nil, backend.CompareAndSet("/a", nil, 0)))(t)[0]
		for began := time.Now(); time.Since(began) < 10*ttl; {
			made = must.Get(hot.Commit(t.Context(), nil, backend.Update(made, nil)))(t)[0]
			require.Equal(t, backend.Live, other.State())
		}
	})
}

// A removal is done only if the object is still as the remover has known it.
func TestRemovalTooLate(t *testing.T) {
	bubble(t, func(t *testing.T, o *object) {
		p, q := newProcess(o, true), newOdd(t, o)
		owner := open(t, p)
		p.breaks(errCut)
		var late atomic.Bool
		q.swap = func(ctx context.Context, text []byte, tag string) (string, error) {
			if !strings.Contains(string(text), owner.ID()) && !late.Swap(true) {
				_ = o.edit(func(d *document) error { // a heartbeat that was on its way
					r := d.Sessions[owner.ID()]
					r.Beat++
					d.Sessions[owner.ID()] = r
					return nil
				})
			}
			return q.process.Swap(ctx, text, tag)
		}
		open(t, q.process)
		time.Sleep(ttl * 3 / 2)
		assert.True(t, late.Load())
		assert.Contains(t, o.look().Sessions, owner.ID())
		time.Sleep(ttl)
		assert.NotContains(t, o.look().Sessions, owner.ID())
	})
}

// The window counts from when a swap was sent first: the copy that is done may be the first one.
func TestWindowCountsFromFirst(t *testing.T) {
	bubble(t, func(t *testing.T, o *object) {
		p := newOdd(t, o)
		var first atomic.Pointer[time.Time]
		var armed, done atomic.Bool
		p.swap = func(ctx context.Context, text []byte, tag string) (string, error) {
			now := time.Now()
			switch {
			case !armed.Load():
				time.Sleep(time.Second) // the reply is slow
			case first.CompareAndSwap(nil, &now):
				return "", errCut
			case now.Sub(*first.Load()) < 3*time.Second:
				return "", errCut
			case !done.Swap(true):
				_, _ = p.process.Swap(ctx, text, tag)
			}
			return p.process.Swap(ctx, text, tag)
		}
		began := time.Now()
		s := open(t, p.process)
		assert.Less(t, s.Deadline().Sub(began), ttl-ttl/8+time.Second/2)
		before := s.Deadline()
		armed.Store(true)
		for !done.Load() {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		assert.True(t, s.Deadline().After(before))
		assert.False(t, s.Deadline().After(first.Load().Add(ttl-ttl/8)))
	})
}

// A heartbeat is known from the reply that shows it, not from the request: it may have been sent in between. After
// the timeout, and no sooner, its session is silent.
func TestSightingCountsFromReply(t *testing.T) {
	bubble(t, func(t *testing.T, o *object) {
		s, q := open(t, newProcess(o, true)), newOdd(t, o)
		q.read = func(ctx context.Context) ([]byte, string, error) {
			time.Sleep(3 * time.Second)
			return q.process.Read(ctx)
		}
		l := &q.backend.link
		snap, err := l.read(t.Context())
		require.NoError(t, err)
		first := l.beats[s.ID()].first
		assert.Less(t, time.Since(first), time.Second)
		time.Sleep(time.Until(first.Add(ttl - 1)))
		assert.Empty(t, l.silent(snap))
		time.Sleep(time.Nanosecond)
		assert.Equal(t, []string{s.ID()}, l.silent(snap))
	})
}
