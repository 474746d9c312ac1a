package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
)

func TestBarrier(t *testing.T) {
	onAll(t, func(t *testing.T, b backend.Backend) {
		ctx, barrier := t.Context(), Barrier(keyOf(t)+"/barrier")
		operator, waits, late := open(t, b), open(t, b), open(t, b)
		require.NoError(t, barrier.Wait(ctx, waits), "there is none yet")
		require.NoError(t, barrier.Set(ctx, operator))
		require.NoError(t, barrier.Set(ctx, operator))
		waiting := begin(func() (struct{}, error) { return struct{}{}, barrier.Wait(ctx, waits) })
		isBlocked(t, b, "who comes to the barrier", waiting.done)
		require.NoError(t, operator.Close(ctx))
		isBlocked(t, b, "who waits for somebody that has gone", waiting.done)
		require.NoError(t, barrier.Lift(ctx, late))
		waiting.wait(t)
		require.NoError(t, barrier.Wait(ctx, late))
		require.NoError(t, barrier.Lift(ctx, late))
	})
}

func enter(t *testing.T, d DoubleBarrier, s *backend.Session) *taken[*Inside] {
	return begin(func() (*Inside, error) { return d.Enter(t.Context(), s, "") })
}

func leave(t *testing.T, i *Inside) *taken[struct{}] {
	return begin(func() (struct{}, error) { return struct{}{}, i.Leave(t.Context()) })
}

func TestDoubleBarrier(t *testing.T) {
	onAll(t, func(t *testing.T, b backend.Backend) {
		d := DoubleBarrier{Dir: keyOf(t), N: 3}
		first, second, third, fourth := open(t, b), open(t, b), open(t, b), open(t, b)
		one := enter(t, d, first)
		isBlocked(t, b, "one", one.done)
		two := enter(t, d, second)
		isBlocked(t, b, "two", two.done)
		three := enter(t, d, third)
		in, in2, in3 := one.wait(t), two.wait(t), three.wait(t)
		next := enter(t, d, fourth)
		isBlocked(t, b, "who is one too many", next.done)

		left := leave(t, in)
		isBlocked(t, b, "one that goes before the others", left.done)
		left2 := leave(t, in2)
		isBlocked(t, b, "two that go before the third", left.done)
		isBlocked(t, b, "two that go before the third", left2.done)
		require.NoError(t, third.Close(t.Context())) // crashes
		<-in3.Done()
		left.wait(t)
		left2.wait(t)

		isBlocked(t, b, "the first of the next round", next.done)
		again, again2 := enter(t, d, first), enter(t, d, second)
		ins := []*Inside{next.wait(t), again.wait(t), again2.wait(t)}
		var all []*taken[struct{}]
		for _, i := range ins {
			all = append(all, leave(t, i))
		}
		for _, l := range all {
			l.wait(t)
		}
	})
}

// TestDoubleBarrierCrashes: one enters and crashes, before all are there. It counts for as long as its
// session does, and no longer.
func TestDoubleBarrierCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, d := memory.New(memory.Options{}), DoubleBarrier{Dir: "/double", N: 2}
		client := svc.Client("crashes")
		crashes := open(t, client)
		gone := enter(t, d, crashes)
		synctest.Wait()
		client.Suspend()
		time.Sleep(time.Minute)
		<-gone.done
		assert.ErrorIs(t, gone.err, backend.ErrSessionLost)
		one := enter(t, d, open(t, svc))
		isBlocked(t, svc, "one alone", one.done)
		two := enter(t, d, open(t, svc))
		one.wait(t)
		two.wait(t)
	})
}

// TestDoubleBarrierAfterAllCrashed: nobody of a round is left to end it. One that waits for the next does.
func TestDoubleBarrierAfterAllCrashed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, d := memory.New(memory.Options{}), DoubleBarrier{Dir: "/double", N: 2}
		client := svc.Client("crashes")
		gone, gone2 := enter(t, d, open(t, client)), enter(t, d, open(t, client))
		gone.wait(t)
		gone2.wait(t)
		one, two := enter(t, d, open(t, svc)), enter(t, d, open(t, svc))
		isBlocked(t, svc, "one of the next round", one.done)
		client.Suspend()
		one.wait(t)
		two.wait(t)
	})
}

// TestDoubleBarrierGivenUp: who gives up does not count, and who was removed comes again.
func TestDoubleBarrierGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, d := memory.New(memory.Options{}), DoubleBarrier{Dir: "/double", N: 2}
		ctx, giveUp := context.WithCancel(t.Context())
		gone := begin(func() (*Inside, error) { return d.Enter(ctx, open(t, svc), "") })
		synctest.Wait()
		giveUp()
		<-gone.done
		assert.ErrorIs(t, gone.err, context.Canceled)
		one := enter(t, d, open(t, svc))
		isBlocked(t, svc, "one alone", one.done)
		svc.Delete(svc.Entries("/double/line")[0].Key)
		isBlocked(t, svc, "one that was removed", one.done)
		assert.Len(t, svc.Entries("/double/line"), 1)
		enter(t, d, open(t, svc)).wait(t)
		one.wait(t)
	})
}

// TestDoubleBarrierIsDecidedAtOnce: one goes after all were counted, and before that is written.
func TestDoubleBarrierIsDecidedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := DoubleBarrier{Dir: "/double", N: 2}
		var svc *memory.Service
		removed := false
		svc = memory.New(memory.Options{Intercept: func(step memory.Step) {
			if step.Kind == memory.StepCommit && !removed && len(step.Ops) > 0 && step.Ops[0].Key == d.ready() {
				removed = true
				svc.Delete(svc.Entries("/double/line")[0].Key)
			}
		}})
		one := enter(t, d, open(t, svc)) // is removed, and enters again
		synctest.Wait()
		two := enter(t, d, open(t, svc))
		in, in2 := one.wait(t), two.wait(t)
		synctest.Wait()
		assert.True(t, removed)
		assert.Equal(t, in.ready, in2.ready)
		assert.NoError(t, in.Err())
		assert.NoError(t, in2.Err())
	})
}

// TestDoubleBarriersAtRandom: more sessions than N go through many rounds; some crash, some lose replies.
// Whoever is inside belongs to one round, of N at most; and who goes on leaves nobody of its round inside.
func TestDoubleBarriersAtRandom(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			svc, d := memory.New(memory.Options{DefaultTTL: time.Second}), DoubleBarrier{Dir: "/double", N: 3}
			var mu sync.Mutex
			inside := make(map[*Inside]bool) // with a live context
			rounds := make(map[uint64]int)
			var all sync.WaitGroup
			for i := range uint64(5) {
				all.Go(func() {
					r := rand.New(rand.NewPCG(seed, i))
					for ctx.Err() == nil {
						client := svc.Client("")
						s, err := client.Open(ctx, backend.OpenOptions{})
						if err != nil {
							return
						}
						fault := time.AfterFunc(time.Duration(r.IntN(20_000))*time.Millisecond, client.Suspend)
						for ctx.Err() == nil && s.State() != backend.Lost {
							if r.IntN(3) == 0 {
								client.LoseReply(nil)
							}
							in, err := d.Enter(ctx, s, "")
							if err != nil {
								continue
							}
							mu.Lock()
							rounds[in.ready.Rev]++
							inside[in] = true
							for o := range inside {
								assert.True(t, o.Err() != nil || o.ready.Rev == in.ready.Rev, "two rounds at once")
							}
							mu.Unlock()
							_ = sleep(in, time.Duration(r.IntN(100))*time.Millisecond)
							mu.Lock()
							delete(inside, in)
							mu.Unlock()
							if in.Leave(ctx) == nil {
								mu.Lock()
								for o := range inside {
									assert.True(t, o.Err() != nil || o.ready.Rev != in.ready.Rev, "one is still inside")
								}
								mu.Unlock()
							}
						}
						fault.Stop()
						_ = s.Close(context.WithoutCancel(ctx))
					}
				})
			}
			all.Wait()
			assert.Greater(t, len(rounds), 100)
			full := 0
			for _, n := range rounds {
				assert.LessOrEqual(t, n, d.N)
				if n == d.N {
					full++
				}
			}
			assert.Greater(t, full, len(rounds)/2)
		})
	}
}
