package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/wait"
)

// A lockFunc takes a lock for a session.
type lockFunc func(ctx context.Context, s *backend.Session, key, name string) (*Hold, error)

// exclusive are all that one holds at a time.
var exclusive = map[string]lockFunc{
	"simple": SimpleLock,
	"fair":   FairLock,
	"writer": func(ctx context.Context, s *backend.Session, key, name string) (*Hold, error) {
		return SharedLock{Dir: key}.Write(ctx, s, name)
	},
	"writer, herd": func(ctx context.Context, s *backend.Session, key, name string) (*Hold, error) {
		return SharedLock{Dir: key, Herd: true}.Write(ctx, s, name)
	},
}

// A taken is what has come of taking something, in the background.
type taken[T any] struct {
	got  T
	err  error
	done chan struct{}
}

func begin[T any](f func() (T, error)) *taken[T] {
	r := &taken[T]{done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.got, r.err = f()
	}()
	return r
}

func (r *taken[T]) wait(t *testing.T) T {
	t.Helper()
	select {
	case <-r.done:
	case <-time.After(wait.Patience):
		require.Fail(t, "it does not end")
	}
	require.NoError(t, r.err)
	return r.got
}

// TestLocks: three sessions, of which one after the other holds the lock; the second crashes.
func TestLocks(t *testing.T) {
	t.Parallel()
	for name, lock := range exclusive {
		t.Run(name, func(t *testing.T) {
			onAll(t, func(t *testing.T, b backend.Backend) {
				key := keyOf(t)
				first, second, third := open(t, b), open(t, b), open(t, b)
				one, err := lock(t.Context(), first, key, "1")
				require.NoError(t, err)
				two := begin(func() (*Hold, error) { return lock(t.Context(), second, key, "2") })
				isBlocked(t, b, "the second", two.done)
				require.NoError(t, one.Release(t.Context()))
				assert.ErrorIs(t, context.Cause(one), context.Canceled)
				held := two.wait(t)
				assert.Greater(t, held.Token(), one.Token())

				three := begin(func() (*Hold, error) { return lock(t.Context(), third, key, "3") })
				isBlocked(t, b, "the third", three.done)
				require.NoError(t, second.Close(t.Context()))
				<-held.Done()
				assert.ErrorIs(t, context.Cause(held), backend.ErrSessionLost)
				last := three.wait(t)
				assert.Greater(t, last.Token(), held.Token())
				assert.NoError(t, last.Err())
				_, err = third.Commit(t.Context(), held.Conditions())
				assert.ErrorIs(t, err, backend.ErrCondition, "what an old holder writes is refused")
				require.NoError(t, last.Release(t.Context()))
			})
		})
	}
}

// inBubble runs a test of each kind of lock on memory.
func inBubble(t *testing.T, f func(t *testing.T, svc *memory.Service, lock lockFunc)) {
	for name, lock := range exclusive {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				svc := memory.New(memory.Options{})
				s := open(t, svc)
				require.NoError(t, makeDir(t.Context(), s, "/dir"))
				f(t, svc, lock)
			})
		})
	}
}

// TestLockEndsBeforeTheNext: a holder out of touch learns of it before the service gives the lock away.
func TestLockEndsBeforeTheNext(t *testing.T) {
	inBubble(t, func(t *testing.T, svc *memory.Service, lock lockFunc) {
		client := svc.Client("cut off")
		held, err := lock(t.Context(), open(t, client), "/dir/lock", "1")
		require.NoError(t, err)
		next := begin(func() (*Hold, error) { return lock(t.Context(), open(t, svc), "/dir/lock", "2") })
		synctest.Wait()
		client.Suspend()
		<-held.Done()
		ended := time.Now()
		assert.ErrorIs(t, context.Cause(held), backend.ErrSessionLost)
		isBlocked(t, svc, "the next", next.done)
		next.wait(t)
		assert.Greater(t, time.Since(ended), time.Duration(0))
	})
}

// TestLockWithLostReplies: whatever becomes of the first write, the lock is held once, by one entry.
func TestLockWithLostReplies(t *testing.T) {
	for name, fault := range map[string]func(c *memory.Client){
		"reply lost":    func(c *memory.Client) { c.LoseReply(nil) },
		"request lost":  func(c *memory.Client) { c.LoseRequest(nil) },
		"reply delayed": func(c *memory.Client) { c.DelayReply(nil, time.Second) },
		"cut off for a second": func(c *memory.Client) {
			c.CutReply(nil)
			time.AfterFunc(time.Second, c.Resume)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, svc *memory.Service, lock lockFunc) {
				client := svc.Client("faulty")
				s := open(t, client)
				fault(client)
				held, err := lock(t.Context(), s, "/dir/lock", "1")
				require.NoError(t, err)
				next := begin(func() (*Hold, error) { return lock(t.Context(), open(t, svc), "/dir/lock", "2") })
				isBlocked(t, svc, "the next", next.done)
				require.NoError(t, held.Release(t.Context()))
				next.wait(t)
			})
		})
	}
}

// TestLockGivenUp: who gives up waiting leaves nothing, though it was out of touch at that moment.
func TestLockGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, svc *memory.Service, lock lockFunc) {
		held, err := lock(t.Context(), open(t, svc), "/dir/lock", "1")
		require.NoError(t, err)
		client := svc.Client("gives up")
		s := open(t, client)
		ctx, giveUp := context.WithCancel(t.Context())
		two := begin(func() (*Hold, error) { return lock(ctx, s, "/dir/lock", "2") })
		three := begin(func() (*Hold, error) { return lock(t.Context(), open(t, svc), "/dir/lock", "3") })
		synctest.Wait()
		client.Suspend()
		giveUp()
		time.Sleep(2 * time.Second)
		client.Resume()
		<-two.done
		assert.ErrorIs(t, two.err, context.Canceled)
		require.NoError(t, held.Release(t.Context()))
		three.wait(t)
		assert.Equal(t, backend.Live, s.State())
	})
}

// TestLockTaken: an operator removes entries: of the holder, which learns of it, and of one that waits,
// which takes its place at the end.
func TestLockTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, svc *memory.Service, lock lockFunc) {
		held, err := lock(t.Context(), open(t, svc), "/dir/lock", "1")
		require.NoError(t, err)
		waits := open(t, svc)
		two := begin(func() (*Hold, error) { return lock(t.Context(), waits, "/dir/lock", "2") })
		synctest.Wait()
		for _, dir := range []string{"/dir/lock", "/dir/lock/all"} {
			for _, e := range svc.Entries(dir) {
				if e.Session == waits.ID() {
					svc.Delete(e.Key)
				}
			}
		}
		isBlocked(t, svc, "the second", two.done)
		svc.Delete(held.entries[0].Key)
		<-held.Done()
		assert.ErrorIs(t, context.Cause(held), errTaken)
		require.NoError(t, held.Release(t.Context()))
		two.wait(t)
	})
}

// TestLocksAtRandom: sessions take, hold and release a lock, are cut off, lose replies, give up and
// are replaced. Never are two contexts of the lock live at once.
func TestLocksAtRandom(t *testing.T) {
	for seed := range uint64(10) {
		inBubble(t, func(t *testing.T, svc *memory.Service, lock lockFunc) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			var mu sync.Mutex
			var holder *Hold
			var taken, lost atomic.Int32
			last := uint64(0)
			var all sync.WaitGroup
			for i := range uint64(5) {
				all.Go(func() {
					r := rand.New(rand.NewPCG(seed, i))
					ms := func(n int) time.Duration { return time.Duration(r.IntN(n)+1) * time.Millisecond }
					for ctx.Err() == nil {
						client := svc.Client(fmt.Sprint(i))
						s, err := client.Open(ctx, backend.OpenOptions{TTL: 2 * time.Second})
						if err != nil {
							continue
						}
						fault := time.AfterFunc(ms(20_000), client.Suspend)
						for ctx.Err() == nil && s.State() != backend.Lost {
							if r.IntN(4) == 0 {
								client.LoseReply(nil)
							}
							trying, giveUp := context.WithCancel(ctx)
							patience := time.AfterFunc(ms(3000), giveUp)
							h, err := lock(trying, s, "/dir/lock", "")
							patience.Stop()
							if err == nil {
								taken.Add(1)
								mu.Lock()
								assert.True(t, holder == nil || holder.Err() != nil, "two hold it")
								assert.Greater(t, h.Token(), last)
								holder, last = h, h.Token()
								mu.Unlock()
								most := 500
								if r.IntN(10) == 0 {
									most = 5000 // longer than a session without a heartbeat
								}
								if sleep(h, ms(most)) != nil && errors.Is(context.Cause(h), backend.ErrSessionLost) {
									lost.Add(1)
								}
								_ = h.Release(ctx)
							}
							giveUp()
						}
						fault.Stop()
						_ = s.Close(context.WithoutCancel(ctx))
					}
				})
			}
			all.Wait()
			assert.Greater(t, taken.Load(), int32(100))
			assert.Greater(t, lost.Load(), int32(0))
		})
	}
}

// TestFairLockIsInOrder: in order of arrival, and to join or give up wakes at most the next.
func TestFairLockIsInOrder(t *testing.T) {
	for name, lock := range map[string]lockFunc{"fair": FairLock, "writer": exclusive["writer"]} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				svc := memory.New(memory.Options{})
				var order []int
				var all sync.WaitGroup
				for i := range 10 {
					s := open(t, svc)
					all.Go(func() {
						h, err := lock(t.Context(), s, "/lock", "")
						if assert.NoError(t, err) {
							order = append(order, i) // the lock guards it
							time.Sleep(time.Second)
							assert.NoError(t, h.Release(t.Context()))
						}
					})
					synctest.Wait()
				}
				all.Wait()
				assert.IsIncreasing(t, order)
			})
		})
	}
}
