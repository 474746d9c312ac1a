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
		if d := p.Next(); d < longest/2 || d >= longest+longest/2 {
			t.Errorf("a pause of %v, want about %v", d, longest)
		}
	}
	for range 100 {
		p.Next()
	}
	if d := p.Next(); d < 250*time.Millisecond || d >= 750*time.Millisecond {
		t.Errorf("a pause of %v after a hundred others", d)
	}
}

// A bout is over when it has been long, and many.
func TestBout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b driver.Bout
		for i := range 2 * driver.Fewest {
			if b.Over(time.Second) {
				t.Errorf("given up at once, after %d tries", i+1)
			}
			if b.First() != (i == 0) {
				t.Errorf("try %d: first is %v", i+1, b.First())
			}
		}
		time.Sleep(time.Second + 1)
		if !b.Over(time.Second) {
			t.Error("ridden out for ever")
		}
		b = driver.Bout{}
		for i := 1; i <= driver.Fewest; i++ {
			if over := b.Over(time.Second); over != (i == driver.Fewest) {
				t.Errorf("after %d tries in as many minutes: over is %v", i, over)
			}
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
	t.Cleanup(func() {
		assert.NoError(t, l.Close(context.Background()))
	})
	return l
}

// Whoever waits is told what ends the wait.
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
				if err := wait(ctx, newLife(t)); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, gaveUp) {
					t.Error(err)
				}
			})
		})
		t.Run(name+"/lost", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLife(t)
				time.AfterFunc(time.Minute, func() { l.Lose(driver.ErrWindow) })
				if err := wait(t.Context(), l); !errors.Is(err, backend.ErrSessionLost) || !errors.Is(err, driver.ErrWindow) {
					t.Error(err)
				}
				if err := wait(t.Context(), l); !errors.Is(err, backend.ErrSessionLost) {
					t.Error(err)
				}
			})
		})
	}
	v, err := driver.Call(t.Context(), newLife(t), func() (int, error) { return 7, gaveUp })
	if v != 7 || err != gaveUp {
		t.Errorf("%d, %v", v, err)
	}
}
