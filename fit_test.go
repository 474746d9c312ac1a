package elector_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
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
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/fair"
)

// An application is an application whose fitness the test sets.
type application struct {
	logbook
	strategy strategy.Strategy // fair, if nil

	mu      sync.Mutex
	check   func(ctx context.Context) error
	calls   int
	aside   []error // reasons for which its candidate stood aside
	retries []error
}

// told returns what the candidate's hooks reported.
func (a *application) told() (aside, retries []error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.aside), slices.Clone(a.retries)
}

func (a *application) becomes(check func(ctx context.Context) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.check = check
}

func fit(context.Context) error { return nil }

var errDisk = errors.New("disk is full")

func ill(context.Context) error { return errDisk }

func (a *application) called() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls
}

// elector makes a candidate for the application.
func (a *application) elector(t *testing.T, service *memory.Service, id string, f elector.Fit) elector.Elector {
	t.Helper()
	f.Check = func(ctx context.Context) error {
		a.mu.Lock()
		a.calls++
		check := a.check
		a.mu.Unlock()
		return check(ctx)
	}
	if a.strategy == nil {
		a.strategy = fair.Strategy{}
	}
	return standing(t, service.Client(id), id, func(c *elector.Config) {
		c.Strategy, c.Fit = a.strategy, f
		c.RetryMin, c.RetryMax = time.Second, time.Second
		c.Logger = slog.New(slog.NewTextHandler(a, nil))
		c.Hooks.Aside = func(why error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.aside = append(a.aside, why)
		}
		c.Hooks.Retry = func(r elector.RetryEvent) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.retries = append(a.retries, r.Err)
		}
	})
}

func campaign(ctx context.Context, e elector.Elector) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := e.Campaign(ctx)
		done <- err
	}()
	return done
}

// pass lets time pass, and waits until its effects are over.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// A fit application counts as fit until Failures checks in a row have failed; a campaign waits for one
// successful check.
func TestFailuresInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &application{check: ill}
		e := a.elector(t, memory.New(memory.Options{}), "a", elector.Fit{Every: time.Second, Failures: 3})
		won := campaign(t.Context(), e)
		pass(1500 * time.Millisecond) // two have failed
		aside, _ := a.told()
		require.Len(t, aside, 1)
		assert.ErrorIs(t, aside[0], elector.ErrUnfit)
		assert.ErrorIs(t, aside[0], errDisk)
		a.becomes(fit)
		pass(time.Second)
		require.NoError(t, <-won)
		a.becomes(ill)
		pass(2 * time.Second)
		a.becomes(fit)
		pass(time.Second)
		a.becomes(ill)
		pass(2 * time.Second)
		assert.Empty(t, a.lines("asked to go"), "for two failures of three")
		pass(time.Second)
		require.Len(t, a.lines(`msg="asked to go"`), 1, "for three failures")
		assert.Contains(t, a.lines("asked to go")[0], `why="not fit: disk is full"`)
		a.becomes(fit)
		pass(time.Second)
		assert.Len(t, a.lines("standing aside"), 1, "each change is logged once")
		assert.Len(t, a.lines("fit to lead again"), 2)
		assert.NoError(t, e.Close(t.Context()))
	})
}

// Checks run only during a campaign or a term, each at the right interval after the one before.
func TestWhenChecksRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &application{check: func(context.Context) error { time.Sleep(time.Second); return nil }}
		e := a.elector(t, memory.New(memory.Options{}), "a", elector.Fit{Every: 2 * time.Second})
		pass(time.Minute)
		assert.Equal(t, 0, a.called(), "before the campaign")
		began := time.Now()
		term := leads(t, e)
		assert.Equal(t, time.Second, time.Since(began), "its check takes as long")
		pass(30 * time.Second)
		assert.Equal(t, 11, a.called(), "in 31s, each 3s after the one before")
		require.NoError(t, term.Resign(t.Context()))
		pass(time.Minute)
		assert.Equal(t, 11, a.called(), "none after the term")
		assert.NoError(t, e.Close(t.Context()))
	})
}

// A check that panics or ends its goroutine has failed, and the log reports repeated panics once.
func TestChecksThatDoNotReturn(t *testing.T) {
	for want, check := range map[string]func(context.Context) error{
		"the check panicked: out of bounds":                                        func(context.Context) error { panic("out of bounds") },
		"the check has ended its goroutine (runtime.Goexit, or FailNow of a test)": func(context.Context) error { runtime.Goexit(); return nil },
		"<nil>":                                func(context.Context) error { return (*fs.PathError)(nil) }, // its methods panic
		"the check has not returned within 1s": func(context.Context) error { time.Sleep(time.Hour); return nil },
		"not fit: " + context.DeadlineExceeded.Error() + "|the check has not returned within 1s": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		synctest.Test(t, func(t *testing.T) {
			a := &application{check: fit}
			service := memory.New(memory.Options{})
			e := a.elector(t, service, "a", elector.Fit{Every: time.Second})
			term := leads(t, e)
			a.becomes(check)
			pass(10 * time.Second)
			r, asked := term.Request()
			says := false
			for why := range strings.SplitSeq(want, "|") {
				says = says || strings.Contains(r.Why, why)
			}
			assert.True(t, asked && r.By == "a" && says, "a leader whose check does not return is asked to go: %v, %v; want %s", asked, r, want)
			panics := len(a.lines("the check of the application's health panicked"))
			assert.Equal(t, strings.Contains(want, "panicked"), panics == 1, panics)
			assert.NoError(t, term.Resign(t.Context()))
			a.becomes(fit)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
			defer cancel()
			_, err := e.Campaign(ctx)
			assert.NoError(t, err, "the next campaign")
			assert.NoError(t, e.Close(t.Context()))
			pass(time.Hour) // the check that hangs must end within the bubble
		})
	}
}

// While a check hangs, no other check begins, not even in a later campaign, and Close waits for it no
// longer than its timeout.
func TestCheckThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		a := &application{check: func(context.Context) error { <-release; return nil }}
		e := a.elector(t, memory.New(memory.Options{}), "a", elector.Fit{Every: time.Second, Timeout: 3 * time.Second})
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err := e.Campaign(ctx)
			assert.ErrorIs(t, err, context.DeadlineExceeded, "the check hangs")
			cancel()
		}
		assert.Equal(t, 1, a.called(), "the first hangs")
		done := campaign(t.Context(), e)
		synctest.Wait()
		began := time.Now()
		assert.NoError(t, e.Close(t.Context()))
		assert.LessOrEqual(t, time.Since(began), 3*time.Second)
		assert.ErrorIs(t, <-done, elector.ErrClosed, "Campaign after Close")
		close(release)
		pass(time.Minute)
		assert.Equal(t, 1, a.called(), "the elector is closed")
	})
}

// A check that had to wait for an earlier one that hangs still has its whole timeout.
func TestCheckAfterOneThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 3 * time.Second
		a := new(application)
		a.becomes(func(context.Context) error { // runs from 0s to 5s; the next call comes then
			time.Sleep(5 * time.Second)
			a.becomes(func(context.Context) error { time.Sleep(timeout - 1); return nil })
			return nil
		})
		e := a.elector(t, memory.New(memory.Options{}), "a", elector.Fit{Every: time.Second, Timeout: timeout})
		began := time.Now()
		require.NoError(t, <-campaign(t.Context(), e))
		assert.Equal(t, 5*time.Second+timeout-1, time.Since(began))
		assert.NoError(t, e.Close(t.Context()))
	})
}

// stands is a strategy in which unfit candidates continue to stand, but which does not check fitness.
type stands struct{ fair.Strategy }

func (stands) UnfitStands() {}

// An unfit candidate does not win, even if its strategy lets it.
func TestUnfitStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &application{strategy: stands{}, check: ill}
		e := a.elector(t, memory.New(memory.Options{}), "a", elector.Fit{Every: time.Second})
		won := campaign(t.Context(), e)
		pass(10 * time.Second)
		require.Empty(t, won, "one who is not fit does not win")
		aside, retries := a.told()
		require.True(t, len(retries) >= 5 && len(retries) <= 20, "it has tried again in 10s: %q", retries)
		assert.ErrorIs(t, retries[0], elector.ErrUnfit)
		require.Len(t, aside, 1)
		assert.ErrorIs(t, aside[0], elector.ErrUnfit)
		a.becomes(fit)
		require.NoError(t, <-won)
		assert.NoError(t, e.Close(t.Context()))
	})
}
