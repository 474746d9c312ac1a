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

// Pauses grow, and are bounded.
func TestPause(t *testing.T) {
	var p driver.Pause
	for _, longest := range []time.Duration{20, 40, 80, 160, 320, 500, 500, 500} {
		longest *= time.Millisecond
		d := p.Next()
		assert.True(t, d >= longest/2 && d < longest+longest/2, "a pause of %v, want about %v", d, longest)
	}
	for range 100 {
		p.Next()
	}
	d := p.Next()
	assert.True(t, d >= 250*time.Millisecond && d < 750*time.Millisecond, "a pause of %v after a hundred others", d)
}

// A bout is over when it was long and had many tries.
func TestBout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b driver.Bout
		for i := range 2 * driver.Fewest {
			assert.False(t, b.Over(time.Second), "given up at once, after %d tries", i+1)
			assert.Equal(t, i == 0, b.First(), "try %d", i+1)
		}
		time.Sleep(time.Second + 1)
		assert.True(t, b.Over(time.Second), "ridden out for ever")
		b = driver.Bout{}
		for i := 1; i <= driver.Fewest; i++ {
			assert.Equal(t, i == driver.Fewest, b.Over(time.Second), "after %d tries in as many minutes", i)
			time.Sleep(time.Minute)
		}
	})
}

func newLife(t *testing.T) *driver.Life {
	l := new(driver.Life)
	l.Init(driver.LifeOptions{
		End: func(context.Context, error) { l.Confirm() }, Remove: func(context.Context, backend.Entry) error { return nil },
		Unconfirmed: errors.New("not confirmed"),
	})
	t.Cleanup(func() { assert.NoError(t, l.Close(context.Background())) })
	return l
}

// A call that waits returns what ended the wait.
func TestWhatEndsAPauseAndACall(t *testing.T) {
	gaveUp := errors.New("gave up")
	waits := map[string]func(context.Context, *driver.Life) error{
		"pause": func(ctx context.Context, l *driver.Life) error {
			var p driver.Pause
			for {
				if err := l.Pause(ctx, &p); err != nil {
					return err
				}
			}
		},
		"call": func(ctx context.Context, l *driver.Life) error {
			_, err := driver.Call(ctx, l, func() (int, error) { time.Sleep(time.Hour); return 1, nil })
			return err
		},
		"wait": func(ctx context.Context, l *driver.Life) error { return l.Wait(ctx, nil) },
	}
	for name, wait := range waits {
		t.Run(name+"/ctx", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, gaveUp)
				defer cancel()
				err := wait(ctx, newLife(t))
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorIs(t, err, gaveUp)
			})
		})
		t.Run(name+"/lost", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLife(t)
				time.AfterFunc(time.Minute, func() { l.Lose(driver.ErrWindow) })
				err := wait(t.Context(), l)
				assert.ErrorIs(t, err, backend.ErrSessionLost)
				assert.ErrorIs(t, err, driver.ErrWindow)
				assert.ErrorIs(t, wait(t.Context(), l), backend.ErrSessionLost)
			})
		})
	}
	v, err := driver.Call(t.Context(), newLife(t), func() (int, error) { return 7, gaveUp })
	assert.True(t, v == 7 && err == gaveUp, "%d, %v", v, err)
}
