package main

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/wait"
)

// TestBarrierBehind: a new session may begin on a server that is behind. It neither passes a barrier that
// stands, nor takes it for lifted.
func TestBarrierBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.New(memory.Options{})
		defer svc.Lag()() // at a moment at which there was none
		require.NoError(t, Barrier("/barrier").Set(t.Context(), open(t, svc)))
		waits := open(t, svc)
		waiting := begin(func() (struct{}, error) { return struct{}{}, Barrier("/barrier").Wait(t.Context(), waits) })
		isBlocked(t, svc, "who comes by a server that is behind", waiting.done)
		require.NoError(t, Barrier("/barrier").Lift(t.Context(), open(t, svc)))
		assert.False(t, svc.Entry("/barrier").Exists())
		waiting.wait(t)
	})
}

// lookalike puts a persistent entry with the name of one that ZooKeeper's backend enqueues, the oldest.
// It is no entry of the line.
func lookalike(t *testing.T, s *backend.Session, dir string) {
	t.Helper()
	require.NoError(t, makeDir(t.Context(), s, fmt.Sprintf("%s/e-%016x-%016x-%010d", dir, 1, 1, 0)))
}

// TestLinesAmongLookalikes: nobody waits for a stranger's entry, nor counts it.
func TestLinesAmongLookalikes(t *testing.T) {
	t.Run("shared", func(t *testing.T) {
		onAll(t, func(t *testing.T, b backend.Backend) {
			l := SharedLock{Dir: keyOf(t)}
			for _, dir := range []string{l.all(), l.writers()} {
				lookalike(t, open(t, b), dir)
			}
			s := open(t, b)
			begin(func() (*Hold, error) { return l.Read(t.Context(), s, "") }).wait(t)
			writer := begin(func() (*Hold, error) { return l.Write(t.Context(), open(t, b), "") })
			isBlocked(t, b, "the writer", writer.done)
			require.NoError(t, s.Close(t.Context()))
			writer.wait(t)
		})
	})
	t.Run("double", func(t *testing.T) {
		onAll(t, func(t *testing.T, b backend.Backend) {
			d := DoubleBarrier{Dir: keyOf(t), N: 2}
			lookalike(t, open(t, b), d.Dir+"/line")
			one := enter(t, d, open(t, b))
			isBlocked(t, b, "one alone", one.done)
			two := enter(t, d, open(t, b))
			in, in2 := one.wait(t), two.wait(t)
			left, left2 := leave(t, in), leave(t, in2)
			left.wait(t)
			left2.wait(t)
		})
	})
	t.Run("semaphore", func(t *testing.T) {
		onAll(t, func(t *testing.T, b backend.Backend) {
			m := Semaphore{Dir: keyOf(t), K: 1}
			s := open(t, b)
			_, err := write(t.Context(), s, backend.Entry{Key: m.Dir}, []byte("1"))
			require.NoError(t, err)
			lookalike(t, s, m.Dir)
			begin(func() (*Hold, error) { return m.Acquire(t.Context(), s, "") }).wait(t)
		})
	})
}

// TestCountOfNothing: what would end in a number given twice is refused.
func TestCountOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, memory.New(memory.Options{}))
		_, err := Count(t.Context(), s, "/other", 0)
		assert.Error(t, err)
		_, err = Count(t.Context(), s, "/other", 10)
		require.NoError(t, err)
		for _, n := range []uint64{0, math.MaxUint64, math.MaxUint64 - 9, math.MaxUint64 - 5} {
			_, err := Count(t.Context(), s, "/other", n)
			assert.Error(t, err, n)
		}
		c, err := Count(t.Context(), s, "/other", 1)
		require.NoError(t, err)
		assert.EqualValues(t, 11, c.First)
	})
}

// TestQueueAndStrangers: somebody has put something where the next item belongs, or deleted the numbers.
func TestQueueAndStrangers(t *testing.T) {
	for name, harm := range map[string]func(svc *memory.Service, q Queue){
		"item": func(svc *memory.Service, q Queue) {
			assert.NoError(t, svc.Put(q.item(3), []byte("stranger")))
			assert.NoError(t, svc.Put(q.item(4), []byte("stranger")))
		},
		"tail":      func(svc *memory.Service, q Queue) { svc.Delete(q.Dir + "/tail") },
		"head":      func(svc *memory.Service, q Queue) { svc.Delete(q.Dir + "/head") },
		"all items": func(svc *memory.Service, q Queue) { svc.Delete(q.Dir + "/items") },
		"all":       func(svc *memory.Service, q Queue) { svc.Delete(q.Dir) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				svc, q := memory.New(memory.Options{}), Queue{"/queue"}
				s := open(t, svc)
				for _, item := range []string{"a", "b", "c"} {
					_, err := q.Put(t.Context(), s, []byte(item))
					require.NoError(t, err)
				}
				for range 2 {
					c, err := q.Take(t.Context(), s)
					require.NoError(t, err)
					require.NoError(t, c.Finish(t.Context()))
				}
				waits, err := q.Take(t.Context(), s)
				require.NoError(t, err)
				require.NoError(t, waits.Release(t.Context()))
				harm(svc, q)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err = q.Put(ctx, s, []byte("new"))
				require.NoError(t, err)
				for {
					c, err := q.Take(ctx, s)
					require.NoError(t, err, "the new item is lost")
					require.NoError(t, c.Finish(ctx))
					if string(c.Item.Value) == "new" {
						break
					}
				}
			})
		})
	}
}

// TestPublishedAndWrittenOver: a value was published, and written over before that was known. To say that it was
// refused would have it published twice.
func TestPublishedAndWrittenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.New(memory.Options{})
		plain, other := open(t, svc), open(t, svc)
		s := plain.Around(backend.Layer{Call: func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
			err := next(ctx)
			if c.Kind == backend.CallCommit && err == nil && string(c.Ops[0].Value) == "6" { // the reply is lost
				_, err = Publish(ctx, other, svc.Entry("/config"), []byte("7")) // one more than 6
				assert.NoError(t, err)
				err = backend.ErrIndeterminate
			}
			return err
		}})
		was, err := Publish(t.Context(), s, backend.Entry{Key: "/config"}, []byte("5"))
		require.NoError(t, err)
		_, err = Publish(t.Context(), s, was, []byte("6"))
		assert.ErrorIs(t, err, backend.ErrIndeterminate)
		assert.False(t, refused(err), "%v", err)
		assert.Equal(t, "7", string(svc.Entry("/config").Value))
	})
}

// TestTwoPublishTheSame: two raise a number at once, and nobody can tell whose write it was. To tell both that they have
// published it would lose one.
func TestTwoPublishTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.New(memory.Options{})
		plain, other := open(t, svc), open(t, svc)
		was, err := Publish(t.Context(), plain, backend.Entry{Key: "/config"}, []byte("5"))
		require.NoError(t, err)
		lost := false
		s := plain.Around(backend.Layer{Call: func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
			if c.Kind != backend.CallCommit || lost {
				return next(ctx)
			}
			lost = true // the request is, and another writes meanwhile
			_, err := Publish(t.Context(), other, was, []byte("6"))
			assert.NoError(t, err)
			return backend.ErrIndeterminate
		}})
		_, err = Publish(t.Context(), s, was, []byte("6"))
		assert.ErrorIs(t, err, backend.ErrIndeterminate)
		assert.False(t, refused(err), "%v", err)
	})
}

// TestQueueDeletedWhileOneLooks: somebody deletes a queue, and it is filled again, between a consumer's look and its note
// of how far it has come. That is about items that are no more, and must not hide the new ones.
func TestQueueDeletedWhileOneLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, q := memory.New(memory.Options{}), Queue{"/queue"}
		plain, other := open(t, svc), open(t, svc)
		put := func(n int) {
			for range n {
				_, err := q.Put(t.Context(), other, nil)
				require.NoError(t, err)
			}
		}
		put(3)
		svc.Delete(q.Dir + "/items")
		filled := false
		s := plain.Around(backend.Layer{Call: func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
			if c.Kind == backend.CallCommit && c.Key == q.Dir+"/head" && !filled {
				filled = true
				svc.Delete(q.Dir)
				put(1)
			}
			return next(ctx)
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := q.Take(ctx, s)
		assert.NoError(t, err, "the new item is lost")
		assert.True(t, filled)
	})
}

// TestScannerIsCutOffInARound: it has found half dead by then, and takes none out.
func TestScannerIsCutOffInARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.New(memory.Options{})
		s := open(t, svc)
		for i := range 4 {
			register(t, s, "/names", "www", fmt.Sprintf("10.0.0.%d:80", i), &hosts{})
			synctest.Wait()
		}
		tried := 0
		scanning := open(t, svc)
		during(t, func(ctx context.Context) error {
			return Scan(ctx, scanning, "/names", time.Second, func(context.Context, netip.AddrPort) bool {
				tried++
				return tried <= 6 // the link breaks in the midst of the second round
			}, t.Logf)
		})
		before := svc.Dump()
		time.Sleep(time.Minute)
		assert.Equal(t, before, svc.Dump())
	})
}

// TestDoubleBarrierOfNobody is one for one.
func TestDoubleBarrierOfNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := enter(t, DoubleBarrier{Dir: "/double"}, open(t, memory.New(memory.Options{}))).wait(t)
		leave(t, in).wait(t)
	})
}

// TestDirectoryOfASession: on ZooKeeper nothing can stand in a session's entry. That is said, not tried for ever.
func TestDirectoryOfASession(t *testing.T) {
	onAll(t, func(t *testing.T, b backend.Backend) {
		s := open(t, b)
		_, err := SimpleLock(t.Context(), s, keyOf(t), "")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
		defer cancel()
		for _, name := range []string{"fair", "writer"} {
			h, err := exclusive[name](ctx, s, keyOf(t), "")
			if err == nil {
				assert.NoError(t, h.Release(ctx))
			} else {
				assert.ErrorIs(t, err, backend.ErrNoParent, name)
			}
		}
		assert.NoError(t, ctx.Err())
	})
}

// TestNumbersAreNotUsedUp: a directory on ZooKeeper takes so many entries in a line, and numbers go on.
func TestNumbersAreNotUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.New(memory.Options{})
		s := open(t, svc)
		before, err := Number(t.Context(), s, "/numbers")
		require.NoError(t, err)
		svc.UseUp("/numbers", 0)
		n, err := Number(t.Context(), s, "/numbers")
		require.NoError(t, err)
		assert.Greater(t, n, before)
	})
}
