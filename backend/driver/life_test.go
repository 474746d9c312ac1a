package driver

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
)

// A call that waits for a session to be in touch returns when the session ends, at any moment.
func TestAwaitLiveAmidLoss(t *testing.T) {
	for range 2000 {
		var l Life
		l.Init(LifeOptions{State: backend.Suspended, End: func(context.Context, error) {}})
		var waiting sync.WaitGroup
		for range 4 {
			waiting.Go(func() { assert.ErrorIs(t, l.AwaitLive(t.Context()), backend.ErrSessionLost) })
		}
		l.Lose(ErrClosed)
		waiting.Wait()
	}
}

// An abandoned commit holds up later ones on the same keys until what it left is settled, and its error
// exposes no more of its reason than it may.
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
		assert.ErrorIs(t, err, backend.ErrIndeterminate)
		assert.NotErrorIs(t, err, backend.ErrUnavailable)
		began := time.Now()
		give := must.Get(l.TakeTurn(t.Context(), l.TTL(), ops))(t)
		assert.Equal(t, 3, tries)
		assert.Equal(t, 3*time.Second, time.Since(began), "as the Reaper pauses")
		give()

		l.Lose(ErrClosed)
		synctest.Wait()
		err = l.Abandon(ops, l.LostError(), func(context.Context) error { t.Error("what is left goes with the session"); return nil })
		assert.ErrorIs(t, err, backend.ErrIndeterminate)
		assert.ErrorIs(t, err, backend.ErrSessionLost)
	})
}

// What cannot be discarded now is discarded in the background, unless it goes with the session.
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
		assert.NoError(t, l.Discard(t.Context(), backend.Entry{Key: "/seat"}))
		assert.Zero(t, removed, "nothing was there")
		err := l.Discard(t.Context(), e)
		assert.ErrorIs(t, err, refused)
		assert.ErrorContains(t, err, "not confirmed yet")
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 3, removed)
		assert.NoError(t, l.Discard(t.Context(), e))
		l.Lose(ErrClosed)
		assert.ErrorIs(t, l.Discard(t.Context(), e), backend.ErrSessionLost)
		assert.Equal(t, 4, removed)
		synctest.Wait()
	})
}

// A lost session logs why, and why it was out of touch; one that its user closes logs only at debug level.
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
		want []string // lines, in order
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
			lines := slices.Collect(strings.Lines(text))
			require.Len(t, lines, len(c.want))
			for i, line := range lines {
				assert.Contains(t, line, c.want[i]+"\n")
			}
		})
	}
}
