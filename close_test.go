package elector_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy/fair"
)

// Close says what it did not wait for, and speaks of a hook only where there is one.
func TestCloseSaysWhatHasNotEnded(t *testing.T) {
	for name, c := range map[string]struct {
		freeze, hook bool
	}{
		"service frozen":          {freeze: true},
		"hook hangs":              {hook: true},
		"service frozen and hook": {true, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := memory.New(memory.Options{}).Client("a")
			hang := make(chan struct{})
			config := elector.Config{Backend: client, Strategy: fair.New(), Election: "/e", ID: "a"}
			if c.hook {
				config.Hooks.Ended = func(*elector.Term, error) { <-hang }
			}
			e, err := elector.New(config)
			require.NoError(t, err)
			if _, err := e.Campaign(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if c.freeze {
				client.Suspend()
			}
			over, cancel := context.WithCancel(t.Context())
			cancel()
			began := time.Now()
			err = e.Close(over)
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("%s: Close took %v", name, took)
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%s: Close: %v, want the end of its two seconds", name, err)
			}
			if has := strings.Contains(err.Error(), "hook"); has != c.hook {
				t.Errorf("%s: Close speaks of a hook: %t\n%v", name, has, err)
			}
			close(hang)
			client.Resume()
			if err := e.Close(t.Context()); err != nil {
				t.Errorf("%s: Close once nothing hangs: %v", name, err)
			}
		})
	}
}

// slow is a log that takes its time.
type slow struct{ lines *strings.Builder }

func (s slow) Write(p []byte) (int, error) {
	time.Sleep(10 * time.Millisecond)
	return s.lines.Write(p)
}

// A program that ends after Close has logged its last words, unless nobody reads them.
func TestCloseHasLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		e, err := elector.New(elector.Config{
			Backend: memory.New(memory.Options{}).Client("a"), Strategy: fair.New(), Election: "/e", ID: "a",
			Logger: slog.New(slog.NewTextHandler(slow{&lines}, nil)),
		})
		require.NoError(t, err)
		if _, err := e.Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
		require.NoError(t, e.Close(t.Context()))
		if !strings.Contains(lines.String(), "term ended") {
			t.Errorf("the log ends before the term:\n%s", lines.String())
		}
	})
}
