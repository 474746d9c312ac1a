package driver_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// The window counts from when an acknowledged heartbeat was sent, and from nothing else.
func TestBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl, margin, apart, slow = 20 * time.Second, time.Second, 2 * time.Second, 500 * time.Millisecond
		l := newLife(t)
		began := time.Now()
		l.Grant("s", began, ttl, margin)
		var silent atomic.Bool
		var last atomic.Int64 // when the last acknowledged one was sent, after began
		l.Beat(apart, func(ctx context.Context) error {
			if silent.Load() {
				<-ctx.Done()
				return errors.New("no answer")
			}
			sent := time.Since(began)
			time.Sleep(slow)
			last.Store(int64(sent))
			return nil
		})
		const window = ttl - margin
		expect := func(state backend.State, deadline time.Duration) {
			t.Helper()
			synctest.Wait()
			assert.Equal(t, state, l.State(), time.Since(began))
			assert.Equal(t, deadline, l.Deadline().Sub(began), time.Since(began))
		}
		time.Sleep(apart + slow/2)
		expect(backend.Live, window) // sent, and not acknowledged yet
		time.Sleep(slow)
		expect(backend.Live, apart+window)
		time.Sleep(time.Minute)
		expect(backend.Live, time.Duration(last.Load())+window)

		silent.Store(true)
		time.Sleep(3 * apart)
		expect(backend.Suspended, time.Duration(last.Load())+window)
		silent.Store(false)
		time.Sleep(apart + slow + time.Second)
		expect(backend.Live, time.Duration(last.Load())+window)

		silent.Store(true)
		time.Sleep(window)
		expect(backend.Lost, time.Duration(last.Load())+window)
		assert.ErrorIs(t, l.Over(t.Context()), driver.ErrWindow)
	})
}

// Heartbeats come one after the other, each at once if somebody has asked for it, and none after the end.
func TestBeatSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const apart, slow = 10 * time.Second, time.Second
		l := newLife(t)
		l.BeatSoon() // before there are any: the first is sent at once
		began := time.Now()
		l.Grant("s", began, time.Hour, 0)
		var sent []time.Duration
		l.BeatBy(apart, func() time.Duration {
			sent = append(sent, time.Since(began))
			time.Sleep(slow)
			return apart
		})
		time.Sleep(2 * time.Second)
		l.BeatSoon()
		time.Sleep(slow / 2)
		l.BeatSoon()
		l.BeatSoon()
		time.Sleep(15 * time.Second)
		l.BeatSoon()
		time.Sleep(slow / 2)
		l.Lose(driver.ErrClosed)
		l.BeatSoon()
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []time.Duration{0, 2 * time.Second, 3 * time.Second, 14 * time.Second, 17500 * time.Millisecond}, sent)
	})
}
