package driver

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/backend"
)

// Whoever waits for a session to be in touch hears of its end, at whatever moment that comes.
func TestAwaitLiveAmidLoss(t *testing.T) {
	for range 2000 {
		var l Life
		l.Init(LifeOptions{State: backend.Suspended, End: func(context.Context, error) {}})
		var waiting sync.WaitGroup
		for range 4 {
			waiting.Go(func() {
				if err := l.AwaitLive(t.Context()); !errors.Is(err, backend.ErrSessionLost) {
					t.Error(err)
				}
			})
		}
		l.Lose(ErrClosed)
		waiting.Wait()
	}
}

// A commit that was given up holds up those after it on the same keys until what it left is settled,
// and its error says of its reason no more than it may.
func TestAbandon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Life
		l.Init(LifeOptions{End: func(context.Context, error) {}})
		l.Grant("s", time.Now(), time.Hour, 0)
		ops := []backend.Op{backend.CreateEphemeral("/seat", nil)}
		tries := 0
		err := l.Abandon(ops, backend.ErrUnavailable, func(context.Context) error {
			if tries++; tries < 3 {
				return errors.New("refused")
			}
			return nil
		})
		if !errors.Is(err, backend.ErrIndeterminate) || errors.Is(err, backend.ErrUnavailable) {
			t.Error(err)
		}
		began := time.Now()
		give, err := l.TakeTurn(t.Context(), ops)
		if err != nil || tries != 3 || time.Since(began) != 3*time.Second { // as the Reaper pauses
			t.Errorf("after %d tries and %v: %v", tries, time.Since(began), err)
		}
		give()

		l.Lose(ErrClosed)
		synctest.Wait()
		err = l.Abandon(ops, l.LostError(), func(context.Context) error { t.Error("what is left goes with the session"); return nil })
		if !errors.Is(err, backend.ErrIndeterminate) || !errors.Is(err, backend.ErrSessionLost) {
			t.Error(err)
		}
	})
}

// What cannot be discarded now is gone on with, unless it goes with the session.
func TestDiscard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Life
		refused, removed := errors.New("refused"), 0
		l.Init(LifeOptions{
			End: func(context.Context, error) {},
			Remove: func(context.Context, backend.Entry) error {
				if removed++; removed < 3 {
					return refused
				}
				return nil
			},
		})
		e := backend.Entry{Key: "/seat", Rev: 7}
		if err := l.Discard(t.Context(), backend.Entry{Key: "/seat"}); err != nil || removed != 0 {
			t.Errorf("of nothing: %v", err)
		}
		if err := l.Discard(t.Context(), e); !errors.Is(err, refused) {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if removed != 3 {
			t.Errorf("it was tried %d times, want 3", removed)
		}
		assert.NoError(t, l.Discard(t.Context(), e))
		l.Lose(ErrClosed)
		if err := l.Discard(t.Context(), e); !errors.Is(err, backend.ErrSessionLost) || removed != 4 {
			t.Errorf("%v, after %d tries", err, removed)
		}
		synctest.Wait()
	})
}

// A session that is lost says why, and why it was out of touch; one that its user ends is no news.
func TestWhatIsLogged(t *testing.T) {
	said := func(do func(*Life)) string {
		var out bytes.Buffer
		synctest.Test(t, func(t *testing.T) {
			var l Life
			l.Init(LifeOptions{
				Name: "toy", Logger: slog.New(slog.NewTextHandler(&out, nil)),
				End: func(context.Context, error) {}, Unconfirmed: errors.New("not confirmed"),
			})
			do(&l)
			l.Lose(ErrClosed)
			synctest.Wait()
		})
		return out.String()
	}
	grant := func(l *Life) { l.Grant("s1", time.Now(), time.Minute, 0) }
	cut := errors.New("cut off")
	for name, c := range map[string]struct {
		do   func(*Life)
		want []string // a line each, in their order
	}{
		"closed":      {grant, nil},
		"not granted": {func(l *Life) { l.Lose(errors.New("no server")) }, nil},
		"expired":     {func(l *Life) { grant(l); l.Lose(errors.New("expired")) }, []string{`level=WARN msg="toy: session lost" session=s1 error=expired`}},
		"out of touch": {func(l *Life) { grant(l); l.Suspend(cut); l.Suspend(cut); time.Sleep(2 * time.Minute) }, []string{
			`level=INFO msg="toy: session suspended" session=s1 error="cut off"`,
			`level=WARN msg="toy: session lost" session=s1 error="trust window has passed; it was out of touch: cut off"`,
		}},
		"back": {func(l *Life) { grant(l); l.Suspend(cut); l.Resume(); time.Sleep(2 * time.Minute) }, []string{
			`level=INFO msg="toy: session suspended" session=s1 error="cut off"`,
			`level=WARN msg="toy: session lost" session=s1 error="trust window has passed"`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			text := said(c.do)
			if n := strings.Count(text, "\n"); n != len(c.want) {
				t.Errorf("%d lines, want %d:\n%s", n, len(c.want), text)
			}
			for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
				if i < len(c.want) && !strings.HasSuffix(line, c.want[i]) {
					t.Errorf("%s\nwant … %s", line, c.want[i])
				}
			}
		})
	}
}
