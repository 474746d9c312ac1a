package memory

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
)

// queue enqueues n sessions of c in /d, and makes each except the first wait for its own entry and the one
// before, on a goroutine of its caller's.
func queue(tb testing.TB, svc *Service, n int) (sessions []*backend.Session, entries []backend.Entry, woken <-chan int, wait func()) {
	ctx := context.Background()
	require.NoError(tb, svc.Put("/d", nil))
	c := svc.Client("a")
	out := make(chan int, n)
	var waiting sync.WaitGroup
	for i := range n {
		s := must.Get(c.Open(ctx, backend.OpenOptions{}))(tb)
		made := must.Get(s.Commit(ctx, nil, backend.Enqueue("/d", nil)))(tb)
		sessions, entries = append(sessions, s), append(entries, made[0])
		if i == 0 {
			continue
		}
		before := must.Get(s.Predecessor(ctx, made[0]))(tb)
		waiting.Go(func() {
			if _, err := s.Await(ctx, made[0], before); err == nil {
				out <- i
			}
		})
	}
	return sessions, entries, out, waiting.Wait
}

func TestTenThousandWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		svc := New(Options{})
		before := runtime.NumGoroutine()
		sessions, entries, woken, wait := queue(t, svc, n)
		synctest.Wait()
		require.LessOrEqual(t, runtime.NumGoroutine()-before, n-1, "a waiting candidate costs its caller's goroutine and no other")
		require.Equal(t, 2*(n-1), svc.Stats().Watches)
		time.Sleep(time.Hour)
		require.Zero(t, svc.Stats().Wakeups, "nothing happened")

		// A handover wakes one waiter, anywhere in the queue.
		for i, gone := range []int{0, n / 2, n - 2} {
			require.NoError(t, sessions[gone].Close(t.Context()))
			require.Equal(t, gone+1, <-woken)
			synctest.Wait()
			require.EqualValues(t, i+1, svc.Stats().Wakeups)
		}
		require.Equal(t, entries[n/2-1].Key, must.Get(sessions[n/2+1].Predecessor(t.Context(), entries[n/2+1]))(t).Key)
		for _, s := range sessions {
			require.NoError(t, s.Close(t.Context()))
		}
		wait()
		stats := svc.Stats()
		require.Equal(t, []int{0, 0, 1}, []int{stats.Sessions, stats.Watches, stats.Entries})
		require.Len(t, svc.nodes, 1, "keys that nobody waits for are forgotten")
	})
}

// BenchmarkQueue fills and empties a queue, and reports the heap that a waiting candidate costs: session,
// entry and blocked call, without its goroutine's stack.
func BenchmarkQueue(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var heap float64
			for b.Loop() {
				var m0, m1 runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m0)
				svc := New(Options{})
				sessions, _, _, wait := queue(b, svc, n)
				for svc.Stats().Watches < 2*(n-1) {
					runtime.Gosched()
				}
				runtime.GC()
				runtime.ReadMemStats(&m1)
				heap = float64(m1.HeapAlloc-m0.HeapAlloc) / float64(n)
				for _, s := range sessions {
					require.NoError(b, s.Close(context.Background()))
				}
				wait()
			}
			b.ReportMetric(heap, "heap-B/candidate")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/candidate")
		})
	}
}

// Sessions that list a directory share one list of its keys until the next change; earlier listings stay as
// they were.
func TestListingsShareTheirKeys(t *testing.T) {
	svc := New(Options{})
	sessions, entries, _, wait := queue(t, svc, 3)
	list := func(i int) backend.Listing { return must.Get(sessions[i].List(t.Context(), "/d"))(t) }
	first, second := list(0), list(1)
	require.Equal(t, []string{entries[0].Key, entries[1].Key, entries[2].Key}, first.Keys)
	require.Same(t, &first.Keys[0], &second.Keys[0])
	require.Equal(t, 3, cap(first.Keys), "an append must not write to what others hold")

	require.NoError(t, sessions[1].Close(t.Context()))
	after := list(2)
	require.Equal(t, []string{entries[0].Key, entries[2].Key}, after.Keys)
	require.Equal(t, []string{entries[0].Key, entries[1].Key, entries[2].Key}, first.Keys)
	made := must.Get(sessions[0].Commit(t.Context(), nil, backend.Enqueue("/d", nil)))(t)
	require.Equal(t, []string{entries[0].Key, entries[2].Key, made[0].Key}, list(2).Keys)
	for _, s := range sessions {
		require.NoError(t, s.Close(t.Context()))
	}
	wait()
	s := must.Get(svc.Open(t.Context(), backend.OpenOptions{}))(t)
	require.Empty(t, must.Get(s.List(t.Context(), "/d"))(t).Keys)
}
