package main

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

func TestNumbersAreUniqueAndRise(t *testing.T) {
	onAll(t, func(t *testing.T, b backend.Backend) {
		var mu sync.Mutex
		var all []uint64
		var group sync.WaitGroup
		for range 3 {
			s := open(t, b)
			group.Go(func() {
				last := uint64(0)
				for range 5 {
					mu.Lock() // all numbers returned before the call
					before := append([]uint64{last}, all...)
					mu.Unlock()
					n, err := Number(t.Context(), s, keyOf(t))
					if !assert.NoError(t, err) {
						return
					}
					assert.Greater(t, n, slices.Max(before))
					mu.Lock()
					all, last = append(all, n), n
					mu.Unlock()
				}
			})
		}
		group.Wait()
		slices.Sort(all)
		assert.Len(t, slices.Compact(all), 15)
	})
}

func TestCountIsDense(t *testing.T) {
	onAll(t, func(t *testing.T, b backend.Backend) {
		var mu sync.Mutex
		var all []uint64
		eras := make(map[uint64]bool)
		var group sync.WaitGroup
		for range 3 {
			s := open(t, b)
			group.Go(func() {
				for range 4 {
					c, err := Count(t.Context(), s, keyOf(t), 2)
					if !assert.NoError(t, err) {
						return
					}
					mu.Lock()
					all = append(all, c.First, c.First+1)
					eras[c.Era] = true
					mu.Unlock()
				}
			})
		}
		group.Wait()
		slices.Sort(all)
		var want []uint64
		for i := range uint64(24) {
			want = append(want, i+1)
		}
		assert.Equal(t, want, all)
		assert.Len(t, eras, 1)
	})
}

// TestCountOfAnotherEra holds that serials are not repeated where somebody deletes the count, not even
// by a caller that read before that and writes after.
func TestCountOfAnotherEra(t *testing.T) {
	onAll(t, func(t *testing.T, b backend.Backend) {
		s := open(t, b)
		first, err := Count(t.Context(), s, keyOf(t), 1)
		require.NoError(t, err)
		assert.EqualValues(t, 1, first.First)
		was, err := read(t.Context(), s, keyOf(t))
		require.NoError(t, err)
		_, err = s.Commit(t.Context(), nil, backend.Delete(was))
		require.NoError(t, err)
		second, err := Count(t.Context(), s, keyOf(t), 1)
		require.NoError(t, err)
		assert.Greater(t, second.Era, first.Era)
		assert.EqualValues(t, 1, second.First)
		_, err = write(t.Context(), s, was, []byte("late"))
		assert.True(t, refused(err), "%v", err)
	})
}

func TestCountLeavesForeignDataAlone(t *testing.T) {
	onAll(t, func(t *testing.T, b backend.Backend) {
		s := open(t, b)
		for _, foreign := range []string{"", "42", "{}", `{"Last":"many"}`} {
			now, err := read(t.Context(), s, keyOf(t))
			require.NoError(t, err)
			_, err = write(t.Context(), s, now, []byte(foreign))
			require.NoError(t, err)
			_, err = Count(t.Context(), s, keyOf(t), 1)
			assert.ErrorContains(t, err, "no count", "%q", foreign)
			now, err = read(t.Context(), s, keyOf(t))
			require.NoError(t, err)
			assert.Equal(t, foreign, string(now.Value))
		}
	})
}

// TestNamesWithLostReplies loses requests and replies of all kinds: no number may come twice.
func TestNamesWithLostReplies(t *testing.T) {
	for name, take := range map[string]func(ctx context.Context, s *backend.Session) (uint64, error){
		"number": func(ctx context.Context, s *backend.Session) (uint64, error) { return Number(ctx, s, "/numbers") },
		"count": func(ctx context.Context, s *backend.Session) (uint64, error) {
			c, err := Count(ctx, s, "/count", 1)
			return c.First, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := memory.New(memory.Options{Latency: func() time.Duration { return time.Millisecond }})
				seen := make(map[uint64]bool)
				last, given := uint64(0), 0
				take := func(s *backend.Session, fault func()) {
					t.Helper()
					fault()
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					n, err := take(ctx, s)
					if err != nil {
						return
					}
					assert.False(t, seen[n], "%d comes twice", n)
					assert.Greater(t, n, last)
					seen[n], last, given = true, n, given+1
				}
				for range 10 {
					client := service.Client("a")
					s := open(t, client)
					take(s, func() {})
					take(s, func() { client.LoseReply(nil) })
					take(s, func() { client.LoseRequest(nil) })
					take(s, func() { client.DelayReply(nil, 2*time.Second) })   // until ctx has ended
					take(s, func() { client.DelayRequest(nil, 3*time.Second) }) // and arrives during the next ones
					take(s, func() {})
					time.Sleep(5 * time.Second)
					take(s, func() { client.CutReply(nil) })
					client.Resume()
					take(s, func() {})
					take(s, func() { client.Expire() })
				}
				assert.GreaterOrEqual(t, given, 50, "most are given")
				time.Sleep(time.Minute)
				assert.Empty(t, service.Entries("/numbers"), "nothing is left behind")
			})
		})
	}
}

// TestCountInDoubt: a number of which nobody can tell whether it was taken is left out.
func TestCountInDoubt(t *testing.T) {
	for _, done := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			doubt := false
			s := open(t, memory.New(memory.Options{})).Around(backend.Layer{Call: func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
				if c.Kind != backend.CallCommit || doubt {
					return next(ctx)
				}
				doubt = true
				if done {
					assert.NoError(t, next(ctx))
				}
				return backend.ErrIndeterminate
			}})
			want := uint64(1)
			if done {
				want++
			}
			for range 2 {
				c, err := Count(t.Context(), s, "/count", 1)
				require.NoError(t, err)
				assert.Equal(t, want, c.First)
				want++
			}
		})
	}
}

func TestOrdinalsAreHeldByOneEach(t *testing.T) {
	onAll(t, func(t *testing.T, b backend.Backend) {
		sessions := []*backend.Session{open(t, b), open(t, b), open(t, b)}
		var held []*Hold
		for want, s := range sessions {
			i, h, err := Ordinal(t.Context(), s, keyOf(t), "")
			require.NoError(t, err)
			assert.Equal(t, want, i)
			held = append(held, h)
		}
		require.NoError(t, sessions[1].Close(t.Context()))
		<-held[1].Done()
		assert.ErrorIs(t, context.Cause(held[1]), backend.ErrSessionLost)
		i, h, err := Ordinal(t.Context(), sessions[2], keyOf(t), "")
		require.NoError(t, err)
		assert.Equal(t, 1, i, "the name of one that is gone is given away")
		assert.Greater(t, h.Token(), held[2].Token(), "the token tells them apart")
		require.NoError(t, held[0].Release(t.Context()))
		i, _, err = Ordinal(t.Context(), sessions[2], keyOf(t), "")
		require.NoError(t, err)
		assert.Equal(t, 0, i)
	})
}

// TestNumbersAfterARestart restarts servers of each service with their data, and begins one without.
func TestNumbersAfterARestart(t *testing.T) {
	servertest.Long(t, "two servers of each service")
	type server interface {
		Addr() string
		Kill() error
		Start() error
	}
	for scheme, start := range map[string]func(t *testing.T) server{
		"zk":     func(t *testing.T) server { return servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{}) },
		"etcd":   func(t *testing.T) server { return servertest.EtcdForTest(t, servertest.EtcdConfig{}) },
		"consul": func(t *testing.T) server { return servertest.ConsulForTest(t, servertest.ConsulConfig{}) },
	} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			take := func(server server) (n uint64, c Serial) {
				b, err := dial.Open(t.Context(), scheme+"://"+server.Addr())
				require.NoError(t, err)
				defer func() { assert.NoError(t, b.Close()) }()
				s := open(t, b)
				n, err = Number(t.Context(), s, "/numbers")
				require.NoError(t, err)
				c, err = Count(t.Context(), s, "/counts/one", 1)
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
				defer cancel()
				require.NoError(t, s.Close(ctx))
				return n, c
			}
			one := start(t)
			var last uint64
			for range 5 {
				last, _ = take(one)
			}
			require.NoError(t, one.Kill())
			require.NoError(t, one.Start())
			n, c := take(one)
			assert.Greater(t, n, last)
			assert.EqualValues(t, 6, c.First)

			n, c = take(start(t))
			assert.LessOrEqual(t, n, last, "without its data the service begins at less")
			assert.EqualValues(t, 1, c.First)
		})
	}
}
