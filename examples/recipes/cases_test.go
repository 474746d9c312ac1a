package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

// TestWakeUps counts the wake-ups of a line: each release wakes one, or as many as there are permits, for any
// number that wait. And nobody waits while there is room: each holds for little more than a second.
func TestWakeUps(t *testing.T) {
	const n = 30
	for _, line := range []struct {
		name  string
		wakes int // at most, for each release
		turns int // one after the other
		take  func(ctx context.Context, s *backend.Session, i int) (*Hold, error)
	}{
		{"fair lock", 1, n, func(ctx context.Context, s *backend.Session, _ int) (*Hold, error) {
			return FairLock(ctx, s, "/lock", "")
		}},
		{"shared lock", 1, n / 10 * 2, func(ctx context.Context, s *backend.Session, i int) (*Hold, error) {
			if i%10 == 0 {
				return SharedLock{"/lock"}.Write(ctx, s, "")
			}
			return SharedLock{"/lock"}.Read(ctx, s, "")
		}},
		{"semaphore", 4, n / 3, func(ctx context.Context, s *backend.Session, _ int) (*Hold, error) {
			return Semaphore{"/lock", 3}.Acquire(ctx, s, "")
		}},
	} {
		t.Run(line.name, func(t *testing.T) {
			onMemory(t, func(t *testing.T, svc *memory.Service, _ *backend.Session) {
				m := meter.New(svc, nil)
				var all sync.WaitGroup
				for i := range n {
					s := open(t, m)
					all.Go(func() {
						h := must.Get(line.take(t.Context(), s, i))(t)
						time.Sleep(time.Second + time.Duration(i)*time.Millisecond) // one goes after the other
						assert.NoError(t, h.Release(t.Context()))
					})
					synctest.Wait()
				}
				before, start := m.Counts(), time.Now()
				all.Wait()
				assert.Less(t, time.Since(start), time.Duration(line.turns+1)*time.Second)
				woken := m.Counts().Sub(before).WakeUps
				assert.Positive(t, woken)
				assert.LessOrEqual(t, woken, line.wakes*n)
			})
		})
	}
}

// TestDoubleBarrierAfterAllCrashed: nobody of a round is left to end it. One that waits for the next does. A
// barrier for 0 is one for 1.
func TestDoubleBarrierAfterAllCrashed(t *testing.T) {
	onMemory(t, func(t *testing.T, svc *memory.Service, s *backend.Session) {
		d := DoubleBarrier{Dir: "/double"}
		must.Get(d.Enter(t.Context(), s, ""))(t)
		next := begin(func() (*Inside, error) { return d.Enter(t.Context(), open(t, svc), "") })
		next.blocks(t, "one of the next round")
		require.NoError(t, s.Close(t.Context()))
		require.NoError(t, next.wait(t).Leave(t.Context()))
	})
}

// TestTwoPublishTheSame: two raise a number at once, and nobody can tell whose write it was. Reporting
// success to both would lose one.
func TestTwoPublishTheSame(t *testing.T) {
	onMemory(t, func(t *testing.T, svc *memory.Service, s *backend.Session) {
		was := must.Get(Publish(t.Context(), s, backend.Entry{Key: "/config"}, []byte("5")))(t)
		lost := false
		_, err := Publish(t.Context(), around(s, func(_ *backend.Call, next func() error) error {
			if lost {
				return next()
			}
			lost = true // the request is lost, and another writes meanwhile
			must.Get(Publish(t.Context(), open(t, svc), was, []byte("6")))(t)
			return backend.ErrIndeterminate
		}), was, []byte("6"))
		assert.ErrorIs(t, err, backend.ErrIndeterminate)
		assert.False(t, refused(err), "%v", err)
	})
}

// TestBehind: a new session may begin on a server that is behind. Still, it sees what was there at the call.
func TestBehind(t *testing.T) {
	onMemory(t, func(t *testing.T, svc *memory.Service, s *backend.Session) {
		published := must.Get(Publish(t.Context(), s, backend.Entry{Key: "/config"}, []byte("old")))(t)
		svc.Lag() // when there was no barrier, and no name
		require.NoError(t, Barrier("/barrier").Set(t.Context(), s))
		published = must.Get(Publish(t.Context(), s, published, []byte("new")))(t)
		during(t, func(ctx context.Context) error { return Register(ctx, s, "/names", Address{"www", www}, alive) })
		synctest.Wait()

		behind := open(t, svc)
		waiting := begin(func() (any, error) { return nil, Barrier("/barrier").Wait(t.Context(), behind) })
		waiting.blocks(t, "one that comes by a server that is behind")
		require.NoError(t, Barrier("/barrier").Lift(t.Context(), open(t, svc)))
		waiting.wait(t)
		assert.False(t, svc.Entry("/barrier").Exists())
		var r Resolver
		watching := open(t, svc)
		during(t, func(ctx context.Context) error { return r.Watch(ctx, watching, "/names") })
		during(t, func(ctx context.Context) error {
			return Subscribe(ctx, svc, "/config", func(e backend.Entry) { assert.Equal(t, published, e) })
		})
		synctest.Wait()
		addrs, _ := r.Lookup("www")
		assert.Len(t, addrs, 1)
	})
}

// TestLookalikes: a stranger's persistent entry has a name like an entry enqueued by ZooKeeper's backend, the
// oldest. It is not part of the line: nobody waits for it, or counts it.
func TestLookalikes(t *testing.T) {
	onServers(t, func(t *testing.T, b backend.Backend, key string) {
		s := open(t, b)
		ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
		defer cancel()
		m, l, d := Semaphore{key + "/permits", 1}, SharedLock{key}, DoubleBarrier{key, 2}
		must.Get(write(ctx, s, backend.Entry{Key: m.Dir}, []byte("1")))(t)
		for _, line := range []string{m.Dir, l.all(), l.writers(), key + "/line", key + "/workers"} {
			require.NoError(t, makeDir(ctx, s, fmt.Sprintf("%s/e-%016x-%016x-%010d", line, 1, 1, 0)))
		}
		_, workers, err := Members(ctx, s, key)
		require.NoError(t, err)
		assert.Empty(t, workers)
		must.Get(m.Acquire(ctx, s, ""))(t)
		require.NoError(t, must.Get(l.Read(ctx, s, ""))(t).Release(ctx))
		must.Get(l.Write(ctx, s, ""))(t)
		one := begin(func() (*Inside, error) { return d.Enter(ctx, s, "") })
		two := must.Get(d.Enter(ctx, open(t, b), ""))(t)
		in := one.wait(t)
		assert.NoError(t, errors.Join(in.Err(), two.Err(), two.Release(ctx), in.Leave(ctx)))
	})
}

// TestDirectoryOfASession: on ZooKeeper a session's entry has no children. That is an error, not retried.
func TestDirectoryOfASession(t *testing.T) {
	onServers(t, func(t *testing.T, b backend.Backend, key string) {
		s := open(t, b)
		must.Get(SimpleLock(t.Context(), s, key, ""))(t)
		_, err := FairLock(t.Context(), s, key, "")
		_, err2 := SharedLock{key}.Write(t.Context(), s, "")
		for _, err := range []error{err, err2} {
			if err != nil {
				assert.ErrorIs(t, err, backend.ErrNoParent)
			}
		}
	})
}

// TestNumbersAreNotUsedUp: a directory on ZooKeeper takes a limited number of entries in a line; numbers continue.
func TestNumbersAreNotUsedUp(t *testing.T) {
	onMemory(t, func(t *testing.T, svc *memory.Service, s *backend.Session) {
		n := must.Get(Number(t.Context(), s, "/numbers"))(t)
		svc.UseUp("/numbers", 0)
		assert.Greater(t, must.Get(Number(t.Context(), s, "/numbers"))(t), n)
	})
}

// TestCount: a count is dense, and refuses what would return a number twice. If somebody deletes it, another
// era begins. It leaves other data alone.
func TestCount(t *testing.T) {
	onMemory(t, func(t *testing.T, svc *memory.Service, s *backend.Session) {
		first := must.Get(Count(t.Context(), s, "/count", 10))(t)
		assert.EqualValues(t, 1, first.First)
		for _, n := range []uint64{0, math.MaxUint64, math.MaxUint64 - 9, math.MaxUint64 - 5} {
			_, err := Count(t.Context(), s, "/count", n)
			assert.Error(t, err, n)
		}
		next := must.Get(Count(t.Context(), s, "/count", 1))(t)
		assert.Equal(t, Serial{Era: first.Era, First: 11}, next)
		svc.Delete("/count")
		other := must.Get(Count(t.Context(), s, "/count", 1))(t)
		assert.Greater(t, other.Era, first.Era)
		assert.EqualValues(t, 1, other.First)
		for _, foreign := range []string{"", "42", "{}", `{"Last":"many"}`} {
			require.NoError(t, svc.Put("/count", []byte(foreign)))
			_, err := Count(t.Context(), s, "/count", 1)
			assert.ErrorContains(t, err, "no count", foreign)
			assert.Equal(t, foreign, string(svc.Entry("/count").Value))
		}
	})
}

// TestSemaphoreAndStrangers: all must agree on K, and on nothing that a stranger has left.
func TestSemaphoreAndStrangers(t *testing.T) {
	onMemory(t, func(t *testing.T, svc *memory.Service, s *backend.Session) {
		require.NoError(t, svc.Put("/pool/notes", []byte("above it there is no limit")))
		require.NoError(t, svc.Put("/other", []byte("a cache of pictures")))
		must.Get(Semaphore{"/two", 2}.Acquire(t.Context(), s, ""))(t)
		for says, m := range map[string]Semaphore{
			`others have agreed on ""`:                    {"/pool", 1},
			`others have agreed on "a cache of pictures"`: {"/other", 1},
			`K is 3 here, and others have agreed on "2"`:  {"/two", 3},
			"K is 0: there has to be one permit at least": {"/two", 0},
		} {
			_, err := m.Acquire(t.Context(), s, "")
			assert.ErrorContains(t, err, says)
		}
	})
}

// TestQueueInOrder: items are taken in the order in which they were put, and outlive the session that put
// them. An item of a consumer that crashes is taken again, with a higher token.
func TestQueueInOrder(t *testing.T) {
	onMemory(t, func(t *testing.T, svc *memory.Service, s *backend.Session) {
		q, producer := Queue{"/queue"}, open(t, svc)
		early := begin(func() (*Claim, error) { return q.Take(t.Context(), s) })
		early.blocks(t, "a consumer of an empty queue")
		for i, item := range []string{"a", "b", "c"} {
			assert.EqualValues(t, i, must.Get(q.Put(t.Context(), producer, []byte(item)))(t))
		}
		require.NoError(t, producer.Close(t.Context()))
		first, another := early.wait(t), open(t, svc)
		for _, item := range []string{"b", "c"} {
			c := must.Get(q.Take(t.Context(), another))(t)
			assert.Equal(t, item, string(c.Item.Value))
			require.NoError(t, c.Finish(t.Context()))
		}
		waits := begin(func() (*Claim, error) { return q.Take(t.Context(), another) })
		waits.blocks(t, "a consumer while the last item is in work")
		require.NoError(t, s.Close(t.Context()))
		again := waits.wait(t)
		assert.Equal(t, first.Item, again.Item)
		assert.Greater(t, again.Token(), first.Token())
		require.NoError(t, again.Finish(t.Context()))
		begin(func() (*Claim, error) { return q.Take(t.Context(), another) }).blocks(t, "a consumer of what has been emptied")
	})
}

// TestQueueFinishIsRefused: somebody has removed the claim, and another does the work. The first has no effect.
func TestQueueFinishIsRefused(t *testing.T) {
	onMemory(t, func(t *testing.T, svc *memory.Service, s *backend.Session) {
		q, effect := Queue{"/queue"}, backend.CompareAndSet("/effect", nil, 0)
		must.Get(q.Put(t.Context(), s, nil))(t)
		late := must.Get(q.Take(t.Context(), s))(t)
		svc.Delete(q.claim(0))
		<-late.Done()
		assert.ErrorIs(t, context.Cause(late), errTaken)
		c := must.Get(q.Take(t.Context(), open(t, svc)))(t)
		assert.ErrorIs(t, late.Finish(t.Context(), effect), backend.ErrCondition)
		assert.Empty(t, svc.Entries("/effect"))
		require.NoError(t, c.Finish(t.Context(), effect))
	})
}

// TestQueueWithALongItem: one item is in work while a thousand after it are finished. Taking the next one
// costs no more than before, even after somebody has written nonsense over the tail.
func TestQueueWithALongItem(t *testing.T) {
	onMemory(t, func(t *testing.T, svc *memory.Service, plain *backend.Session) {
		q, calls := Queue{"/queue"}, 0
		s := around(plain, func(c *backend.Call, next func() error) error {
			if c.Waits() {
				return next()
			}
			if calls++; calls > 20 {
				return errors.New("too many calls")
			}
			return next()
		})
		take := func(want uint64) *Claim {
			calls = 0
			c := must.Get(q.Take(t.Context(), s))(t)
			assert.Equal(t, want, c.Number)
			return c
		}
		for range 1001 {
			must.Get(q.Put(t.Context(), plain, nil))(t)
		}
		long := take(0)
		for n := range uint64(1000) {
			require.NoError(t, take(n+1).Finish(t.Context()))
		}
		require.NoError(t, svc.Put("/queue/tail", []byte("1000000000000")))
		require.NoError(t, long.Release(t.Context()))
		take(0)
		calls = 0
		next := begin(func() (*Claim, error) { return q.Take(t.Context(), s) })
		next.blocks(t, "a consumer of nothing")
		must.Get(q.Put(t.Context(), plain, []byte("new")))(t)
		assert.Equal(t, "new", string(next.wait(t).Item.Value))
	})
}

// TestPassOver: it passes to the next item, or to the end. A name that is no number is a stranger's.
func TestPassOver(t *testing.T) {
	onServers(t, func(t *testing.T, b backend.Backend, key string) {
		s, dir := open(t, b), key+"/items"
		passes := func(n, end, want uint64) {
			t.Helper()
			assert.Equal(t, want, must.Get(passOver(t.Context(), s, dir, n, end))(t))
		}
		passes(0, 100, 99)
		for _, name := range []string{"", "/0", "/5", "/50", "/x", "/-7", "/70/8"} {
			must.Get(s.Commit(t.Context(), nil, backend.CompareAndSet(dir+name, nil, 0)))(t)
		}
		passes(0, 100, 4)
		passes(5, 100, 49)
		passes(5, 20, 19)
		passes(70, 1e12, 1e12-1)
	})
}
