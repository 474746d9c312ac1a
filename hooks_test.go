package elector_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/strategy/fair"
)

// callsBack calls an elector from its hooks, with each call that might wait for them.
type callsBack struct {
	t *testing.T
	e elector.Elector

	mu      sync.Mutex
	seen    map[string]bool
	closing bool
}

func (c *callsBack) from(hook string) {
	c.mu.Lock()
	c.seen[hook] = true
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if _, err := c.e.Campaign(ctx); !errors.Is(err, elector.ErrInHook) && !c.closed(err) {
		c.t.Errorf("Campaign from %s: %v, want ErrInHook", hook, err)
	}
	if err := c.e.Close(ctx); !errors.Is(err, elector.ErrInHook) {
		c.t.Errorf("Close from %s: %v, want ErrInHook", hook, err)
	}
	looks := map[string]func() error{
		"Leader":     func() error { _, err := c.e.Leader(ctx); return err },
		"Candidates": func() error { _, err := c.e.Candidates(ctx); return err },
	}
	if hook != "retry" { // which Observe may call in turn
		looks["Observe"] = func() (last error) {
			for _, last = range c.e.Observe(ctx) {
				break
			}
			return last
		}
	}
	for name, look := range looks {
		switch err := look(); {
		case c.closed(err):
		case err == nil, errors.Is(err, elector.ErrNoLeader), errors.Is(err, elector.ErrSessionLost):
		case !errors.Is(err, elector.ErrInHook):
			c.t.Errorf("%s from %s: %v, want an answer or ErrInHook", name, hook, err)
		case hook == "elected" || hook == "session live" || hook == "stage determine":
			c.t.Errorf("%s from %s: %v, want an answer: there is a session", name, hook, err)
		}
	}
}

// closed tells whether err is right because the test closes the elector.
func (c *callsBack) closed(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing && errors.Is(err, elector.ErrClosed)
}

// A hook that calls back what would wait for it gets an error, and all goes on.
func TestHooksThatCallBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		service := memory.New(memory.Options{})
		client := service.Client("a")
		c := &callsBack{t: t, seen: make(map[string]bool)}
		answers := []error{errors.New("not yet"), nil}
		e, err := elector.New(elector.Config{
			Backend: client, Strategy: fair.New(), Election: "/e", ID: "a",
			Fit: elector.Fit{Check: func(context.Context) error {
				answer := answers[0]
				answers = append(answers[1:], nil)
				return answer
			}},
			Hooks: elector.Hooks{
				Aside:    func(error) { c.from("aside") },
				Elected:  func(*elector.Term) { c.from("elected") },
				Ended:    func(*elector.Term, error) { c.from("ended") },
				Asked:    func(*elector.Term, elector.Request) { c.from("asked") },
				Occupied: func(*elector.Term, error) { c.from("occupied") },
				Session:  func(_ string, s backend.State) { c.from("session " + s.String()) },
				Retry:    func(elector.RetryEvent) { c.from("retry") },
				Stage:    func(s elector.StageEvent) { c.from("stage " + s.Stage.String()) },
				Campaign: func(elector.CampaignEvent) { c.from("campaign") },
				Commit:   func(elector.CommitEvent) { c.from("commit") },
			},
		})
		require.NoError(t, err)
		c.e = e
		service.Stop()
		time.AfterFunc(time.Second, service.Start)
		term, err := e.Campaign(ctx)
		require.NoError(t, err)
		if _, err := term.Commit(ctx, elector.Put("/k", nil)); err != nil {
			t.Error(err)
		}
		if _, err := elector.Ask(ctx, service, fair.New(), "/e", elector.Request{}); err != nil {
			t.Error(err)
		}
		stranger, err := service.Open(ctx, backend.OpenOptions{})
		require.NoError(t, err)
		if _, err := stranger.Commit(ctx, nil, backend.CreateEphemeral("/e/stranger", nil)); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Minute) // in which the leader looks for strangers
		assert.NoError(t, stranger.Close(ctx))
		client.Suspend()
		time.Sleep(100 * time.Millisecond)
		client.Resume()
		synctest.Wait()
		client.Expire()
		<-term.Context().Done()
		if term, err = e.Campaign(ctx); err != nil {
			t.Fatal(err)
		}
		assert.NoError(t, term.Resign(ctx))
		c.mu.Lock()
		c.closing = true
		c.mu.Unlock()
		assert.NoError(t, e.Close(ctx))
		wanted := []string{
			"session live", "session suspended", "session lost",
			"stage start", "stage offer", "stage determine", "stage elected", "stage failed", "stage stop",
		}
		for hook := range reflect.TypeFor[elector.Hooks]().Fields() {
			if hook.Name != "Session" && hook.Name != "Stage" {
				wanted = append(wanted, strings.ToLower(hook.Name))
			}
		}
		for _, hook := range wanted {
			if !c.seen[hook] {
				t.Errorf("%s was not called", hook)
			}
		}
	})
}

// deep calls do with a stack of so many calls more.
func deep(n int, do func()) {
	if n == 0 {
		do()
		return
	}
	deep(n-1, do)
}

// A hook is known however far below it is.
func TestHookThatCallsBackFromFarBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e elector.Elector
		var errs []error
		e, err := elector.New(elector.Config{
			Backend: memory.New(memory.Options{}), Strategy: fair.New(), Election: "/e", ID: "a",
			Hooks: elector.Hooks{Elected: func(*elector.Term) {
				for n := range 200 {
					deep(n, func() { errs = append(errs, e.Close(context.Background())) })
				}
			}},
		})
		require.NoError(t, err)
		if _, err := e.Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
		for n, err := range errs {
			if !errors.Is(err, elector.ErrInHook) {
				t.Errorf("Close %d calls below a hook: %v, want ErrInHook", n, err)
			}
		}
		if err := e.Close(t.Context()); err != nil || len(errs) != 200 {
			t.Errorf("Close: %v, after %d calls from the hook", err, len(errs))
		}
	})
}

// Two electors whose hooks close each other do not wait for each other.
func TestHooksThatCloseEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		client := memory.New(memory.Options{}).Client("a")
		var pair [2]elector.Elector
		for i, path := range []string{"/one", "/two"} {
			var err error
			pair[i], err = elector.New(elector.Config{
				Backend: client, Strategy: fair.New(), Election: path, ID: "a",
				Hooks: elector.Hooks{Ended: func(*elector.Term, error) {
					if err := pair[1-i].Close(ctx); err != nil && !errors.Is(err, elector.ErrInHook) {
						t.Errorf("Close of the other than %s: %v", path, err)
					}
				}},
			})
			require.NoError(t, err)
		}
		for _, e := range pair {
			if _, err := e.Campaign(ctx); err != nil {
				t.Fatal(err)
			}
		}
		client.Expire()
		for _, e := range pair {
			assert.NoError(t, e.Close(ctx))
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("took %v", took)
		}
	})
}

// A hook that panics is no hook that runs: what the caller defers may close.
func TestCloseAfterAHookPanicked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := elector.New(elector.Config{
			Backend: memory.New(memory.Options{}), Strategy: fair.New(), Election: "/e", ID: "a",
			Hooks: elector.Hooks{Elected: func(*elector.Term) { panic("boom") }},
		})
		require.NoError(t, err)
		defer func() {
			if p := recover(); p != "boom" {
				t.Errorf("recovered %v, want the hook's panic", p)
			}
		}()
		defer func() { // as the hook's panic passes by
			assert.NoError(t, e.Close(context.Background()))
		}()
		_, _ = e.Campaign(t.Context())
		t.Error("Campaign returned")
	})
}

// At info level the log tells of a suspension, and of its end.
func TestSuspensionIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		client := memory.New(memory.Options{}).Client("a")
		e, err := elector.New(elector.Config{
			Backend: client, Strategy: fair.New(), Election: "/e", ID: "a", Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		require.NoError(t, err)
		if _, err := e.Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		client.Suspend()
		synctest.Wait()
		client.Resume()
		synctest.Wait()
		assert.NoError(t, e.Close(t.Context()))
		synctest.Wait() // for the log
		var said []string
		for line := range strings.Lines(log.String()) {
			if _, text, ok := strings.Cut(line, `msg="session `); ok {
				said = append(said, text[:strings.Index(text, `"`)])
			}
		}
		if want := []string{"suspended", "live"}; !slices.Equal(said, want) {
			t.Errorf("sessions that the log tells of are %q, want %q:\n%s", said, want, &log)
		}
	})
}

// A hook that panics as a term ends costs the term, and leaves nothing behind.
func TestStageHookPanicsAtTheEnd(t *testing.T) {
	for name, end := range map[string]func(context.Context, elector.Elector) error{
		"Run": func(ctx context.Context, e elector.Elector) error {
			return elector.Run(ctx, e, func(context.Context, *elector.Term) error { return nil })
		},
		"Close": func(ctx context.Context, e elector.Elector) error {
			if _, err := e.Campaign(ctx); err != nil {
				return err
			}
			return e.Close(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := memory.New(memory.Options{})
				e, err := elector.New(elector.Config{
					Backend: service.Client("a"), Strategy: fair.New(), Election: "/election", ID: "a",
					Hooks: elector.Hooks{Stage: func(s elector.StageEvent) {
						if s.Stage == elector.StageStop && !s.Completed {
							panic("a hook")
						}
					}},
				})
				require.NoError(t, err)
				func() {
					defer func() {
						if v := recover(); v != "a hook" {
							t.Errorf("recovered %v, want the hook's panic", v)
						}
					}()
					t.Errorf("%s returned %v", name, end(t.Context(), e))
				}()
				other, err := elector.New(elector.Config{Backend: service.Client("b"), Strategy: fair.New(), Election: "/election", ID: "b"})
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if _, err := other.Campaign(ctx); err != nil {
					t.Errorf("the next candidate: %v", err)
				}
				assert.NoError(t, errors.Join(other.Close(t.Context()), e.Close(t.Context())))
				if n := service.Stats().Sessions; n != 0 {
					t.Errorf("%d sessions are left", n)
				}
			})
		})
	}
}

// A trace that ends its goroutine, as FailNow of a test does, ends a campaign that stands in the
// election, and its entry with it.
func TestTraceThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		var standing int
		b := meter.New(service.Client("a"), func(c meter.Call) {
			if c.Kind == backend.CallPredecessor {
				standing = service.Stats().Sessions
				runtime.Goexit()
			}
		})
		e, err := elector.New(elector.Config{Backend: b, Strategy: fair.New(), Election: "/election", ID: "a"})
		require.NoError(t, err)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, err := e.Campaign(t.Context())
			t.Errorf("campaign returned %v", err)
		}()
		<-ended
		if left := service.Stats().Sessions; standing != 1 || left != 0 {
			t.Errorf("sessions: %d during the campaign and %d after it, want 1 and none", standing, left)
		}
		assert.NoError(t, e.Close(t.Context()))
	})
}
