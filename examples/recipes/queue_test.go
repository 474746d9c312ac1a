package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
)

func TestQueue(t *testing.T) {
	onAll(t, func(t *testing.T, b backend.Backend) {
		ctx, q := t.Context(), Queue{keyOf(t)}
		producer, consumer, another := open(t, b), open(t, b), open(t, b)
		early := begin(func() (*Claim, error) { return q.Take(ctx, consumer) })
		isBlocked(t, b, "a consumer of an empty queue", early.done)
		for i, item := range []string{"a", "b", "c"} {
			n, err := q.Put(ctx, producer, []byte(item))
			require.NoError(t, err)
			assert.EqualValues(t, i, n)
		}
		require.NoError(t, producer.Close(ctx), "items outlive who put them")
		first := early.wait(t)
		assert.Equal(t, "a", string(first.Item.Value))
		second, err := q.Take(ctx, another)
		require.NoError(t, err)
		assert.Equal(t, "b", string(second.Item.Value))
		require.NoError(t, second.Finish(ctx))

		require.NoError(t, consumer.Close(ctx)) // crashes between taking and finishing
		<-first.Done()
		again, err := q.Take(ctx, another)
		require.NoError(t, err)
		assert.Equal(t, "a", string(again.Item.Value), "it is taken again")
		assert.Equal(t, first.Number, again.Number)
		assert.Greater(t, again.Token(), first.Token(), "by which a store knows the late write of the first")
		require.NoError(t, again.Finish(ctx, backend.CompareAndSet(q.Dir+"/result", []byte("a"), 0)))

		last, err := q.Take(ctx, another)
		require.NoError(t, err)
		assert.Equal(t, "c", string(last.Item.Value))
		require.NoError(t, last.Finish(ctx))
		empty := begin(func() (*Claim, error) { return q.Take(ctx, another) })
		isBlocked(t, b, "a consumer of what has been emptied", empty.done)
	})
}

// TestQueueFinishIsRefused: somebody has removed the claim, and another has done the work.
func TestQueueFinishIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, q := memory.New(memory.Options{}), Queue{"/queue"}
		s := open(t, svc)
		_, err := q.Put(t.Context(), s, []byte("a"))
		require.NoError(t, err)
		late, err := q.Take(t.Context(), s)
		require.NoError(t, err)
		svc.Delete(q.claim(0))
		<-late.Done()
		assert.ErrorIs(t, context.Cause(late), errTaken)
		c, err := q.Take(t.Context(), open(t, svc))
		require.NoError(t, err)
		effect := backend.CompareAndSet("/effect", nil, 0)
		assert.ErrorIs(t, late.Finish(t.Context(), effect), backend.ErrCondition)
		assert.False(t, svc.Entry("/effect").Exists())
		require.NoError(t, c.Finish(t.Context(), effect))
		assert.True(t, svc.Entry("/effect").Exists())
		assert.Empty(t, append(svc.Entries("/queue/items"), svc.Entries("/queue/claims")...))
	})
}

// TestQueueWithALongItem: it is worked on while a thousand after it are finished. To take the next one costs no
// more than before, and so it is where somebody has written nonsense over the tail.
func TestQueueWithALongItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, q, calls := memory.New(memory.Options{}), Queue{"/queue"}, 0
		plain := open(t, svc)
		s := plain.Around(backend.Layer{Call: func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
			if c.Kind == backend.CallGet || c.Kind == backend.CallChildren {
				if calls++; calls > 50 {
					return errors.New("too many reads")
				}
			}
			return next(ctx)
		}})
		take := func() *Claim {
			calls = 0
			c, err := q.Take(t.Context(), s)
			require.NoError(t, err)
			return c
		}
		for range 1001 {
			_, err := q.Put(t.Context(), plain, nil)
			require.NoError(t, err)
		}
		long := take()
		for n := range uint64(1000) {
			c := take()
			assert.Equal(t, n+1, c.Number)
			require.NoError(t, c.Finish(t.Context()))
		}
		require.NoError(t, svc.Put("/queue/tail", []byte("1000000000000")))
		require.NoError(t, long.Release(t.Context()))
		long = take()
		assert.Zero(t, long.Number)
		calls = 0
		next := begin(func() (*Claim, error) { return q.Take(t.Context(), s) })
		isBlocked(t, svc, "a consumer of nothing", next.done)
		_, err := q.Put(t.Context(), plain, []byte("new"))
		require.NoError(t, err)
		assert.Equal(t, "new", string(next.wait(t).Item.Value))
	})
}

// TestPassOver: to the next item, or to the end. What is no number is a stranger's.
func TestPassOver(t *testing.T) {
	onAll(t, func(t *testing.T, b backend.Backend) {
		s, dir := open(t, b), keyOf(t)+"/items"
		passes := func(n, end, want uint64) {
			t.Helper()
			got, err := passOver(t.Context(), s, dir, n, end)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		}
		passes(0, 100, 99)
		for _, name := range []string{"", "/0", "/5", "/50", "/x", "/-7", "/70/8"} {
			_, err := s.Commit(t.Context(), nil, backend.CompareAndSet(dir+name, nil, 0))
			require.NoError(t, err)
		}
		passes(0, 100, 4)
		passes(5, 100, 49)
		passes(5, 20, 19)
		passes(70, 1e12, 1e12-1)
	})
}

// TestQueueAtRandom: producers lose replies, consumers crash. Each item that was put is finished once, and
// an effect in the commit of Finish is done once. Items are first taken in order.
func TestQueueAtRandom(t *testing.T) {
	for seed := range 20 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			svc, q := memory.New(memory.Options{DefaultTTL: time.Second}), Queue{"/queue"}
			const producers, each = 3, 20
			var all sync.WaitGroup
			for i := range producers {
				client := svc.Client("producer")
				s := open(t, client)
				all.Go(func() {
					for j := range each {
						if (j+seed)%3 == 0 {
							client.LoseReply(nil)
						}
						_, err := q.Put(ctx, s, fmt.Appendf(nil, "%d/%d", i, j))
						assert.NoError(t, err)
						time.Sleep(10 * time.Millisecond)
					}
				})
			}
			var mu sync.Mutex
			begun, finished := make(map[uint64][]uint64), make(map[string]int)
			var consumers sync.WaitGroup
			for i := range 4 {
				consumers.Go(func() {
					for round := 0; ctx.Err() == nil; round++ {
						client := svc.Client("consumer")
						s, err := client.Open(ctx, backend.OpenOptions{})
						if err != nil {
							return
						}
						for k := 0; ctx.Err() == nil && s.State() != backend.Lost; k++ {
							c, err := q.Take(ctx, s)
							if err != nil {
								break
							}
							mu.Lock()
							begun[c.Number] = append(begun[c.Number], c.Token())
							mu.Unlock()
							if round < 4 && (i+k+seed)%5 == 4 {
								client.Suspend() // crashes between taking and finishing
							} else if (i+k)%3 == 0 {
								client.LoseReply(nil)
							}
							if sleep(c, 15*time.Millisecond) != nil {
								_ = c.Release(ctx)
								continue
							}
							err = c.Finish(ctx, backend.CompareAndSet(fmt.Sprint("/effects/", c.Number), nil, 0))
							if err == nil {
								mu.Lock()
								finished[string(c.Item.Value)]++
								mu.Unlock()
							} else {
								assert.True(t, errors.Is(err, backend.ErrSessionLost), err)
							}
						}
						_ = s.Close(context.WithoutCancel(ctx))
					}
				})
			}
			all.Wait()
			time.Sleep(20 * time.Minute)
			cancel()
			consumers.Wait()
			assert.Len(t, finished, producers*each)
			for item, n := range finished {
				assert.Equal(t, 1, n, item)
			}
			assert.Len(t, svc.Entries("/effects"), producers*each)
			assert.Empty(t, append(svc.Entries("/queue/items"), svc.Entries("/queue/claims")...))
			twice, last := 0, uint64(0)
			for n := range uint64(producers * each) {
				if len(begun[n]) > 1 {
					twice++
				}
				if assert.NotEmpty(t, begun[n]) {
					first := slices.Min(begun[n])
					assert.Greater(t, first, last, "item %d was taken before the one before it", n)
					last = first
				}
			}
			assert.Positive(t, twice, "some work is done twice")
		})
	}
}
