package elector_test

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/fair"
)

// telling returns hooks that each call tell with their name.
func telling(tell func(hook string)) elector.Hooks {
	var h elector.Hooks
	v := reflect.ValueOf(&h).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		v.Field(i).Set(reflect.MakeFunc(v.Field(i).Type(), func([]reflect.Value) []reflect.Value {
			tell(name)
			return nil
		}))
	}
	return h
}

// calls calls a hook with empty arguments.
func calls(h elector.Hooks, name string) {
	f := reflect.ValueOf(h).FieldByName(name)
	args := make([]reflect.Value, f.Type().NumIn())
	for i := range args {
		args[i] = reflect.Zero(f.Type().In(i))
	}
	f.Call(args)
}

// Join calls all hooks of all sets in order, even if one panics or ends its goroutine. A hook that no set
// has stays nil: a session is monitored only if somebody listens.
func TestJoin(t *testing.T) {
	var heard []string
	set := func(name string, end func()) elector.Hooks {
		return telling(func(hook string) {
			heard = append(heard, name+" "+hook)
			end()
		})
	}
	good := func() {}
	none := elector.Hooks{}
	for hook := range reflect.TypeFor[elector.Hooks]().Fields() {
		name := hook.Name
		for _, c := range []struct {
			joined elector.Hooks
			heard  string
			panics any
		}{
			{set("a", good).Join(), "a", nil},
			{set("a", good).Join(none), "a", nil},
			{none.Join(none, set("a", good)), "a", nil},
			{set("a", good).Join(set("b", good), none, set("c", good)), "a b c", nil},
			{set("a", func() { panic("boom") }).Join(set("b", good), set("c", good)), "a b c", "boom"},
			{set("a", good).Join(set("b", func() { panic("boom") }), set("c", good)), "a b c", "boom"},
			{set("a", runtime.Goexit).Join(set("b", good)), "a b", nil},
		} {
			heard = nil
			var panicked any
			var calling sync.WaitGroup
			calling.Go(func() {
				defer func() { panicked = recover() }()
				calls(c.joined, name)
			})
			calling.Wait()
			var want []string
			for who := range strings.FieldsSeq(c.heard) {
				want = append(want, who+" "+name)
			}
			assert.Equal(t, want, heard)
			assert.Equal(t, c.panics, panicked)
		}
		assert.True(t, reflect.ValueOf(none.Join(none, none)).FieldByName(name).IsNil(), name)
	}
}

// Each hook of a term gets that term, and the Session hook gets the session's name.
func TestHooksGetWhatTheyAreAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		var terms []*elector.Term
		var names []string
		var sessions []string
		var mu sync.Mutex // the end of the term and the release of its seat are reported concurrently
		about := func(name string, t *elector.Term) {
			mu.Lock()
			defer mu.Unlock()
			names, terms = append(names, name), append(terms, t)
		}
		e := standing(t, b, "a", func(c *elector.Config) {
			c.Hooks = elector.Hooks{
				Elected: func(t *elector.Term) { about("elected", t) },
				Ended:   func(t *elector.Term, _ error) { about("ended", t) },
				Asked:   func(t *elector.Term, _ elector.Request) { about("asked", t) },
				Session: func(id string, _ backend.State) { sessions = append(sessions, id) },
				Stage: func(s elector.StageEvent) {
					if s.Term != nil && !s.Completed {
						about(s.Stage.String(), s.Term)
					}
				},
			}
		})
		term := leads(t, e)
		must.Get(election.Ask(t.Context(), b, fair.Strategy{}, "/e", election.Request{}))(t)
		synctest.Wait()
		id := e.Status().Session
		require.NoError(t, term.Resign(t.Context()))
		require.NoError(t, e.Close(t.Context()))
		slices.Sort(names)
		assert.Equal(t, []string{"asked", "elected", "ended", "stop"}, names)
		for _, of := range terms {
			assert.Same(t, term, of)
		}
		assert.Equal(t, []string{id, id}, sessions)
	})
}

// Hooks.Retry reports what an Observe cannot do, and each error of lead that Run does not return.
func TestRetrySaysWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		var retries []elector.RetryEvent
		e := standing(t, service, "a", func(c *elector.Config) {
			c.Hooks.Retry = func(r elector.RetryEvent) { retries = append(retries, r) }
		})
		broken := errors.New("disk full")
		terms := map[int]*elector.Term{}
		err := elector.Run(t.Context(), e, func(ctx context.Context, t *elector.Term) error {
			terms[len(terms)+1] = t
			switch len(terms) {
			case 1, 2:
				return broken
			case 3: // it stops as asked
				_, err := election.Ask(ctx, service, fair.Strategy{}, "/e", election.Request{})
				if err != nil {
					return err
				}
				<-ctx.Done()
				return ctx.Err()
			}
			return elector.ErrStop
		})
		require.ErrorIs(t, err, elector.ErrStop)
		require.Len(t, retries, 2)
		for i, r := range retries {
			assert.Equal(t, elector.RetryEvent{What: elector.WorkLead, Term: terms[i+1], Err: broken, Attempt: i + 1, Wait: r.Wait}, r)
			assert.Positive(t, r.Wait)
		}
		retries = nil
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		service.Stop()
		other := standing(t, service, "b", func(c *elector.Config) {
			c.Hooks.Retry = func(r elector.RetryEvent) { retries = append(retries, r) }
		})
		for range other.Observe(ctx) {
		}
		require.NotEmpty(t, retries)
		for _, r := range retries {
			assert.Equal(t, elector.WorkObserve, r.What)
			assert.Nil(t, r.Term)
		}
	})
}

// At Info, the log has each step of a leader's life once, in order.
func TestALifeIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, e, book := logged(t)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			_ = elector.Run(ctx, e, func(ctx context.Context, t *elector.Term) error { <-ctx.Done(); return ctx.Err() })
		})
		synctest.Wait()
		client.Suspend()
		synctest.Wait()
		client.Resume()
		synctest.Wait()
		must.Get(election.Ask(t.Context(), client, fair.Strategy{}, "/e", election.Request{By: "anna"}))(t)
		time.Sleep(time.Minute)
		client.Expire()
		time.Sleep(time.Minute)
		cancel()
		running.Wait()
		require.NoError(t, e.Close(t.Context()))
		var said []string
		for _, line := range book.lines("msg=") {
			_, text, _ := strings.Cut(line, "msg=")
			text, _, _ = strings.Cut(strings.TrimPrefix(text, `"`), " election=")
			said = append(said, strings.TrimSuffix(text, `"`))
		}
		assert.Equal(t, []string{
			"elected", "session suspended", "session live", "asked to go", "term ended",
			"elected", "term ended", "elected", "term ended",
		}, said)
		ends := book.lines("term ended")
		expect(t, ends[0], `by \"anna\"`)
		expect(t, ends[1], "session lost")
	})
}

// If the service is down for a day, it does not fill the log, although Hooks.Retry reports each try.
func TestTryingAgainIsLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service, book := memory.New(memory.Options{}), new(logbook)
		service.Stop()
		var tries atomic.Int64
		e := standing(t, service, "a", func(c *elector.Config) {
			c.Logger = slog.New(slog.NewTextHandler(book, nil))
			c.Hooks.Retry = func(elector.RetryEvent) { tries.Add(1) }
		})
		campaigns(t, e)
		time.Sleep(10 * time.Second)
		assert.Len(t, book.lines("trying again"), int(tries.Load()), "the first ones")
		time.Sleep(24 * time.Hour)
		lines := book.lines("trying again")
		assert.Greater(t, tries.Load(), int64(10000))
		assert.InDelta(t, 24*60, len(lines), 60)
		expect(t, lines[len(lines)-1], "level=WARN", "what=campaign", "leftOut=", "attempt=", "wait=", "err=")
		service.Start()
		time.Sleep(time.Hour)
		assert.True(t, e.Status().IsLeader())
		service.Stop()
		time.Sleep(time.Minute)
		lines = book.lines("trying again")
		campaigns(t, e)
		time.Sleep(10 * time.Second)
		assert.GreaterOrEqual(t, len(book.lines("trying again"))-len(lines), 5, "after an hour it is news again")
	})
}
