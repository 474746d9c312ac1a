package elector_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/wait"
)

// A logbook holds what was logged, for tests of what users read.
type logbook struct{ wait.Log }

// lines returns the lines so far that contain text.
func (l *logbook) lines(text string) (found []string) {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// logged makes an elector on a service of its own, and the logbook that it logs to.
func logged(t *testing.T) (*memory.Client, elector.Elector, *logbook) {
	t.Helper()
	client, book := memory.New(memory.Options{}).Client("a"), new(logbook)
	e := standing(t, client, "a", func(c *elector.Config) { c.Logger = slog.New(slog.NewTextHandler(book, nil)) })
	return client, e, book
}

// expect fails unless the line contains each text.
func expect(t *testing.T, line string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		assert.Contains(t, line, text)
	}
}

// While a lead function ignores the end of its term, the process cannot campaign; the log says so until it
// returns.
func TestRunSaysThatLeadHasNotReturned(t *testing.T) {
	const message = "lead has not returned"
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		client, e, book := logged(t)
		terms := 0
		err := elector.Run(ctx, e, func(ctx context.Context, term *elector.Term) error {
			if terms++; terms > 1 {
				stop()
				time.Sleep(15 * time.Second) // the seat is kept
				return nil
			}
			time.Sleep(time.Hour) // nothing is wrong while the term holds
			assert.Empty(t, book.lines(message), "while the term holds")
			client.Expire()
			<-ctx.Done()
			time.Sleep(9 * time.Second)
			assert.Empty(t, book.lines(message), "after nine seconds")
			time.Sleep(2 * time.Second)
			lines := book.lines(message)
			require.Len(t, lines, 1, "after eleven seconds")
			expect(t, lines[0], "level=WARN", "token=", "since=10s", `cause="session lost"`, "valid=false")
			time.Sleep(24 * time.Hour)
			assert.InDelta(t, 125, len(book.lines(message)), 25, "after a day: about one in ten minutes")
			return nil
		})
		assert.ErrorIs(t, err, context.Canceled)
		lines := book.lines(message)
		expect(t, lines[len(lines)-1], "since=10s", `cause="context canceled"`, "valid=true")
		time.Sleep(time.Hour)
		assert.Len(t, book.lines(message), len(lines), "none after lead had returned")
	})
}

// An error of lead is logged with the pause that follows: otherwise a candidate that can never lead just
// looks busy.
func TestRunSaysThatLeadFailed(t *testing.T) {
	const message = "lead failed"
	synctest.Test(t, func(t *testing.T) {
		client, e, book := logged(t)
		calls := 0
		outcomes := []func(context.Context, *elector.Term) error{
			func(context.Context, *elector.Term) error { return errors.New("disk full") },
			func(ctx context.Context, _ *elector.Term) error {
				// A timeout of its own, which says nothing about the term.
				short, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				<-short.Done()
				return fmt.Errorf("open database: %w", short.Err())
			},
			func(ctx context.Context, _ *elector.Term) error {
				client.Expire()
				<-ctx.Done()
				return errors.New("flush failed")
			},
			func(ctx context.Context, _ *elector.Term) error {
				client.Expire()
				<-ctx.Done()
				return ctx.Err() // says nothing new
			},
			func(ctx context.Context, term *elector.Term) error {
				client.Expire()
				<-ctx.Done()
				_, err := term.Commit(ctx, elector.Put("/x", nil))
				return err // neither does this
			},
			func(ctx context.Context, term *elector.Term) error {
				client.Expire()
				<-ctx.Done()
				return context.Cause(ctx) // nor does this
			},
			func(context.Context, *elector.Term) error { return fmt.Errorf("enough: %w", elector.ErrStop) },
		}
		err := elector.Run(t.Context(), e, func(ctx context.Context, term *elector.Term) error {
			calls++
			return outcomes[calls-1](ctx, term)
		})
		assert.ErrorIs(t, err, elector.ErrStop)
		lines := book.lines(message)
		require.Len(t, lines, 3)
		for i, why := range []string{"disk full", "open database", "flush failed"} {
			expect(t, lines[i], "level=WARN", "token=", "attempt="+fmt.Sprint(i+1), "wait=", why)
		}
		ends := book.lines("term ended")
		expect(t, ends[0], "resigned: disk full")
		expect(t, ends[1], "resigned: open database")
	})
}

// A panic or a Goexit of lead is logged as a failure.
func TestRunSaysThatLeadPanicked(t *testing.T) {
	for name, c := range map[string]struct {
		lead func()
		want string
	}{
		"panic":  {func() { panic("boom") }, "lead panicked: boom"},
		"Goexit": {runtime.Goexit, "runtime.Goexit"},
	} {
		for _, lost := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				client, e, book := logged(t)
				done := make(chan any)
				var stack []byte
				go func() {
					defer func() {
						p := recover()
						stack = debug.Stack()
						done <- p
					}()
					_ = elector.Run(t.Context(), e, func(ctx context.Context, _ *elector.Term) error {
						if lost {
							client.Expire()
							<-ctx.Done()
						}
						c.lead()
						return nil
					})
				}()
				assert.Equal(t, name == "panic", <-done == "boom", "recovered")
				if name == "panic" {
					assert.Contains(t, string(stack), "TestRunSaysThatLeadPanicked.func1", "what panicked is still on the stack")
				}
				synctest.Wait()
				for _, line := range book.lines("term ended") {
					if lost {
						expect(t, line, `cause="session lost"`)
					} else {
						expect(t, line, "resigned: ", c.want)
					}
				}
				lines := book.lines("level=ERROR")
				require.Len(t, lines, 1, name)
				expect(t, lines[0], "token=", c.want)
			})
		}
	}
}
