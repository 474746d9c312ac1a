package elector_test

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/internal/must"
)

// callsBack calls its elector from the elector's hooks, with each call that might wait for hooks.
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
	_, err := c.e.Campaign(ctx)
	assert.True(c.t, errors.Is(err, elector.ErrInHook) || c.closed(err), "Campaign from %s: %v", hook, err)
	assert.ErrorIs(c.t, c.e.Close(ctx), elector.ErrInHook, "Close from "+hook)
	looks := map[string]func() error{
		"Leader":     func() error { _, err := c.e.Leader(ctx); return err },
		"Candidates": func() error { _, err := c.e.Candidates(ctx); return err },
	}
	if hook != "retry" { // Observe may call it in turn
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

// closed reports whether err is right because the test closes the elector.
func (c *callsBack) closed(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing && errors.Is(err, elector.ErrClosed)
}

// A hook whose call would have to wait for hooks gets an error, and everything continues.
func TestHooksThatCallBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		c := &callsBack{t: t, seen: make(map[string]bool)}
		tour(t, ctx, elector.Hooks{
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
		}, func(e elector.Elector) *elector.Term {
			c.e = e
			return must.Get(e.Campaign(ctx))(t)
		})
		term := must.Get(c.e.Campaign(ctx))(t)
		assert.NoError(t, term.Resign(ctx))
		c.mu.Lock()
		c.closing = true
		c.mu.Unlock()
		assert.NoError(t, c.e.Close(ctx))
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
			assert.True(t, c.seen[hook], "%s was not called", hook)
		}
	})
}

// deep calls do with n more calls on the stack.
func deep(n int, do func()) {
	if n == 0 {
		do()
		return
	}
	deep(n-1, do)
}

// A hook is recognized at any depth of the stack.
func TestHookThatCallsBackFromFarBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e elector.Elector
		var errs []error
		e = standing(t, memory.New(memory.Options{}), "a", func(c *elector.Config) {
			c.Hooks.Elected = func(*elector.Term) {
				for n := range 200 {
					deep(n, func() { errs = append(errs, e.Close(context.Background())) })
				}
			}
		})
		leads(t, e)
		for n, err := range errs {
			assert.ErrorIs(t, err, elector.ErrInHook, "Close %d calls below a hook", n)
		}
		assert.Len(t, errs, 200)
		assert.NoError(t, e.Close(t.Context()))
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
			pair[i] = standing(t, client, "a", func(c *elector.Config) {
				c.Election = path
				c.Hooks.Ended = func(*elector.Term, error) {
					err := pair[1-i].Close(ctx)
					assert.True(t, err == nil || errors.Is(err, elector.ErrInHook), "Close of the other than %s: %v", path, err)
				}
			})
		}
		for _, e := range pair {
			leads(t, e)
		}
		client.Expire()
		for _, e := range pair {
			assert.NoError(t, e.Close(ctx))
		}
		assert.LessOrEqual(t, time.Since(began), time.Minute)
	})
}

// A hook that has panicked no longer counts as running: the caller's deferred functions may call Close.
func TestCloseAfterAHookPanicked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := standing(t, memory.New(memory.Options{}), "a", func(c *elector.Config) {
			c.Hooks.Elected = func(*elector.Term) { panic("boom") }
		})
		assert.PanicsWithValue(t, "boom", func() {
			defer func() { // while the hook's panic passes
				assert.NoError(t, e.Close(context.Background()))
			}()
			_, _ = e.Campaign(t.Context())
		})
	})
}

// A Stage hook that panics as a term ends leaves nothing behind.
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
				e := standing(t, service.Client("a"), "a", func(c *elector.Config) {
					c.Hooks.Stage = func(s elector.StageEvent) {
						if s.Stage == elector.StageStop && !s.Completed {
							panic("a hook")
						}
					}
				})
				assert.PanicsWithValue(t, "a hook", func() { _ = end(t.Context(), e) })
				other := standing(t, service.Client("b"), "b")
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				_, err := other.Campaign(ctx)
				assert.NoError(t, err, "the next candidate")
				assert.NoError(t, errors.Join(other.Close(t.Context()), e.Close(t.Context())))
				assert.Zero(t, service.Stats().Sessions, "sessions are left")
			})
		})
	}
}

// A trace that ends its goroutine, as FailNow does, ends a campaign that stands in the election, and its
// entry with it.
func TestTraceThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		var stood int
		b := meter.New(service.Client("a"), func(c meter.Call) {
			if c.Kind == backend.CallPredecessor {
				stood = service.Stats().Sessions
				runtime.Goexit()
			}
		})
		e := standing(t, b, "a")
		apart(func() {
			_, err := e.Campaign(t.Context())
			t.Errorf("campaign returned %v", err)
		})
		assert.Equal(t, 1, stood, "sessions during the campaign")
		assert.Zero(t, service.Stats().Sessions, "sessions after it")
		assert.NoError(t, e.Close(t.Context()))
	})
}
