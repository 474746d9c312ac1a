package driver_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// A reap is a reaper with the times of all tries.
type reap struct {
	*driver.Reaper
	began  time.Time
	tried  map[string][]time.Duration
	failed int
}

func newReap(ctx context.Context) *reap {
	r := &reap{began: time.Now(), tried: make(map[string][]time.Duration)}
	r.Reaper = driver.NewReaper(ctx, func(run func()) bool { go run(); return true }, func(error) { r.failed++ })
	return r
}

// try is a job that fails until end.
func (r *reap) try(name string, end time.Duration) error {
	at := time.Since(r.began)
	r.tried[name] = append(r.tried[name], at)
	if at < end {
		return errors.New("refused")
	}
	return nil
}

func (r *reap) expect(t *testing.T, name string, seconds ...int) {
	t.Helper()
	var want []time.Duration
	for _, s := range seconds {
		want = append(want, time.Duration(s)*time.Second)
	}
	assert.Equal(t, want, r.tried[name], name)
}

// A refused job is tried ever more rarely, and no other job waits for it.
func TestReaperBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReap(t.Context())
		r.Reap(func(context.Context) error { return r.try("refused", 100*time.Second) })
		time.Sleep(40 * time.Second)
		r.Reap(func(context.Context) error { return r.try("new", 0) })
		time.Sleep(time.Hour)
		synctest.Wait()
		r.expect(t, "refused", 0, 1, 3, 7, 15, 31, 61, 91, 121)
		r.expect(t, "new", 40)
		assert.Equal(t, 8, r.failed, "failures that were told")
	})
}

// An entry is one job however often it is added, and another incarnation is another job.
func TestReaperTriesAnEntryOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReap(t.Context())
		for rev, name := range map[uint64]string{1: "first", 2: "second"} {
			for range 3 {
				r.ReapEntry(backend.Entry{Key: "/seat", Rev: rev}, func(context.Context, backend.Entry) error {
					return r.try(name, 2*time.Second)
				})
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		r.expect(t, "first", 0, 1, 3)
		r.expect(t, "second", 0, 1, 3)
		// Once it is done, it may be added again.
		r.ReapEntry(backend.Entry{Key: "/seat", Rev: 1}, func(context.Context, backend.Entry) error { return r.try("first", 0) })
		synctest.Wait()
		r.expect(t, "first", 0, 1, 3, 60)
	})
}

// All jobs end with the session: its entries go by themselves.
func TestReaperEndsWithTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, lose := context.WithCancel(t.Context())
		r := newReap(ctx)
		r.Reap(func(context.Context) error { return r.try("refused", time.Hour) })
		time.Sleep(5 * time.Second)
		lose()
		synctest.Wait() // the bubble ends only when the goroutine has
		r.expect(t, "refused", 0, 1, 3)
	})
}
