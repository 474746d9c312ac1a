package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/backend/meter"
)

// withPermit calls do while it holds a permit.
func withPermit(ctx context.Context, s *backend.Session, dir string, k int, do func(context.Context) error) error {
	h, err := Semaphore{dir, k}.Acquire(ctx, s, "")
	if err != nil {
		return err
	}
	return errors.Join(do(h), h.Release(ctx))
}

// holders are those that hold a permit: from the start of their work until it returns, or until their
// session is lost. That it is lost a session knows at once; the context ends a step of the scheduler later.
type holders struct {
	sync.Mutex
	now        []*backend.Session
	most, ever int
}

// work holds a permit for d, and calls begun when that is noted.
func (h *holders) work(s *backend.Session, d time.Duration, begun ...func()) func(context.Context) error {
	return func(ctx context.Context) error {
		h.Lock()
		h.now = append(h.now, s)
		live := slices.DeleteFunc(slices.Clone(h.now), func(s *backend.Session) bool { return s.State() == backend.Lost })
		h.most, h.ever = max(h.most, len(live)), h.ever+1
		h.Unlock()
		for _, f := range begun {
			f()
		}
		defer func() {
			h.Lock()
			defer h.Unlock()
			i := slices.Index(h.now, s)
			h.now = slices.Delete(h.now, i, i+1)
		}()
		return sleep(ctx, d)
	}
}

func TestSemaphore(t *testing.T) {
	onAll(t, func(t *testing.T, b backend.Backend) {
		const k = 2
		var h holders
		sessions := []*backend.Session{open(t, b), open(t, b), open(t, b), open(t, b), open(t, b)}
		ends := make([]context.CancelFunc, len(sessions))
		dones := make([]chan error, len(sessions))
		wait := func(i int) chan int { // until it holds, or for ever
			holds := make(chan int, 1)
			var ctx context.Context
			ctx, ends[i] = context.WithCancel(t.Context())
			dones[i] = make(chan error, 1)
			go func() {
				dones[i] <- withPermit(ctx, sessions[i], keyOf(t), k, h.work(sessions[i], time.Hour, func() { holds <- i }))
			}()
			return holds
		}
		assert.Equal(t, 0, <-wait(0))
		assert.Equal(t, 1, <-wait(1))
		two := wait(2)
		isBlocked(t, b, "the third", two)
		three := wait(3)
		isBlocked(t, b, "the fourth", three)
		four := wait(4)
		isBlocked(t, b, "the fifth", four)

		ends[2]() // gives up waiting
		assert.ErrorIs(t, <-dones[2], context.Canceled)
		isBlocked(t, b, "the fourth, as a waiter has gone,", three)

		require.NoError(t, sessions[0].Close(t.Context())) // crashes
		assert.ErrorIs(t, <-dones[0], backend.ErrSessionLost)
		assert.Equal(t, 3, <-three)
		isBlocked(t, b, "the fifth, as one has crashed,", four)

		ends[1]()
		assert.ErrorIs(t, <-dones[1], context.Canceled)
		assert.Equal(t, 4, <-four)
		assert.Equal(t, k, h.most)

		err := withPermit(t.Context(), sessions[1], keyOf(t), k+1, h.work(sessions[1], 0))
		assert.ErrorContains(t, err, "K is 3 here, and others have agreed on \"2\"")
		assert.ErrorContains(t, withPermit(t.Context(), sessions[1], keyOf(t), 0, h.work(sessions[1], 0)), "K is 0")
		ends[3]()
		ends[4]()
		<-dones[3]
		<-dones[4]
		line, err := sessions[1].List(t.Context(), keyOf(t))
		require.NoError(t, err)
		assert.Empty(t, line.Keys)
	})
}

// TestSemaphoreWakesTheNextOnly counts: a permit that comes free wakes k at most, however many wait.
func TestSemaphoreWakesTheNextOnly(t *testing.T) {
	const k, all = 3, 30
	synctest.Test(t, func(t *testing.T) {
		m := meter.New(memory.New(memory.Options{}), nil)
		var h holders
		var group sync.WaitGroup
		for i := range all {
			s := open(t, m)
			group.Go(func() {
				assert.NoError(t, withPermit(t.Context(), s, "/pool", k, h.work(s, time.Duration(1+i%7)*time.Second)))
			})
			synctest.Wait()
		}
		before := m.Counts()
		group.Wait()
		woken := m.Counts().Sub(before).WakeUps
		assert.Equal(t, k, h.most)
		assert.Equal(t, all, h.ever)
		assert.Greater(t, woken, 0)
		assert.LessOrEqual(t, woken, (k+1)*all, "of itself and of k at most, for each that goes")
		t.Logf("%d wake-ups for %d entries that went", woken, all)
	})
}

// TestSemaphoreWithFaults has many take permits while sessions are lost, links are cut and replies get
// lost. Never do more than k hold one, and all is free in the end.
func TestSemaphoreWithFaults(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { semaphoreWithFaults(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func semaphoreWithFaults(t *testing.T, random *rand.Rand) {
	const k = 3
	service := memory.New(memory.Options{DefaultTTL: 2 * time.Second, Latency: func() time.Duration { return time.Millisecond }})
	var h holders
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	var clients []*memory.Client
	var group sync.WaitGroup
	for range 8 {
		client := service.Client("")
		clients = append(clients, client)
		pause := time.Duration(random.IntN(1000)) * time.Millisecond
		group.Go(func() {
			for ctx.Err() == nil {
				s, err := client.Open(ctx, backend.OpenOptions{})
				if err != nil {
					_ = sleep(ctx, time.Second)
					continue
				}
				for err == nil && ctx.Err() == nil {
					some, cancel := context.WithTimeout(ctx, 10*time.Second) // one that waits for longer gives up
					err = withPermit(some, s, "/pool", k, h.work(s, pause))
					if some.Err() != nil {
						err = nil
					}
					cancel()
				}
				if err != nil && ctx.Err() == nil {
					assert.True(t, errors.Is(err, backend.ErrSessionLost) || errors.Is(err, backend.ErrIndeterminate), "%v", err)
				}
				_ = s.Close(context.WithoutCancel(ctx))
			}
		})
	}
	for ctx.Err() == nil {
		client := clients[random.IntN(len(clients))]
		switch random.IntN(8) {
		case 0:
			client.Resume() // one that is cut off would hear of it too late: as if an operator had revoked it
			client.Expire()
		case 1: // paused, or cut off, for longer or less than its session lives
			client.Suspend()
			time.AfterFunc(time.Duration(random.IntN(4000))*time.Millisecond, client.Resume)
		case 2:
			client.LoseReply(nil)
		case 3:
			client.LoseRequest(nil)
		case 4:
			client.DelayReply(nil, time.Duration(random.IntN(5000))*time.Millisecond)
		case 5:
			client.DelayRequest(nil, time.Duration(random.IntN(5000))*time.Millisecond)
		case 6:
			client.DelayWakeups(time.Duration(random.IntN(500)) * time.Millisecond)
		case 7:
			client.CutReply(nil)
			time.AfterFunc(time.Second, client.Resume)
		}
		time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
	}
	for _, client := range clients {
		client.Resume()
	}
	group.Wait()
	time.Sleep(time.Minute)
	assert.Equal(t, k, h.most, "so many, and never more")
	assert.Greater(t, h.ever, 100)
	assert.Empty(t, h.now)
	assert.Empty(t, service.Listing("/pool").Keys)
}

// TestSemaphoreAndStrangers has somebody delete entries and write others.
func TestSemaphoreAndStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		require.NoError(t, service.Put("/pool/notes", []byte("not an entry of the line")))
		require.NoError(t, service.Put("/other", []byte("a cache of pictures")))
		a, b := open(t, service), open(t, service)
		assert.ErrorContains(t, withPermit(t.Context(), a, "/other", 1, nil), "others have agreed on")

		// The directory above the note has no limit in it.
		err := withPermit(t.Context(), a, "/pool", 1, nil)
		assert.ErrorContains(t, err, `others have agreed on ""`)

		var h holders
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- withPermit(t.Context(), a, "/one", 1, h.work(a, time.Hour)) }()
		synctest.Wait()
		go func() { second <- withPermit(t.Context(), b, "/one", 1, h.work(b, time.Hour)) }()
		synctest.Wait()
		service.Delete(service.Listing("/one").Keys[1])
		synctest.Wait()
		assert.Len(t, service.Listing("/one").Keys, 2, "the one that waits stands again")
		service.Delete(service.Listing("/one").Keys[0])
		assert.ErrorIs(t, <-first, errTaken, "the one that holds is told")
		synctest.Wait()
		assert.Len(t, h.now, 1, "and the other one holds")
		require.NoError(t, b.Close(t.Context()))
		assert.ErrorIs(t, <-second, backend.ErrSessionLost)
	})
}
