package elector_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
)

type traceKey struct{}

// The Campaign hook reports that a campaign begins and how it ends, with the values of the caller's ctx.
func TestCampaignHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		var heard []elector.CampaignEvent
		elected := false
		e := standing(t, b, "a", func(c *elector.Config) {
			c.Hooks = elector.Hooks{
				Elected:  func(*elector.Term) { elected = true },
				Campaign: func(c elector.CampaignEvent) { heard = append(heard, c); assert.Equal(t, c.Term != nil, elected) },
			}
		})
		term := must.Get(e.Campaign(context.WithValue(t.Context(), traceKey{}, "first")))(t)
		require.Len(t, heard, 2)
		assert.False(t, heard[0].Completed)
		assert.True(t, heard[1].Completed)
		assert.Same(t, term, heard[1].Term)
		for _, c := range heard {
			assert.Equal(t, "first", c.Context.Value(traceKey{}))
			assert.NoError(t, c.Err)
		}

		_, err := e.Campaign(t.Context())
		assert.ErrorIs(t, err, elector.ErrBusy)
		assert.Len(t, heard, 2, "it has not begun")

		require.NoError(t, term.Resign(t.Context()))
		elected = false
		b.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = e.Campaign(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Len(t, heard, 4)
		assert.Equal(t, elector.CampaignEvent{Context: ctx, Completed: true, Err: err}, heard[3])
		b.Start()
	})
}

// If the Campaign hook panics as a campaign ends, it leaves no term behind that nobody holds.
func TestCampaignHookPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		e := standing(t, b, "a", func(c *elector.Config) {
			c.Hooks.Campaign = func(c elector.CampaignEvent) {
				if c.Completed {
					panic("boom")
				}
			}
		})
		assert.PanicsWithValue(t, "boom", func() { _, _ = e.Campaign(t.Context()) })
		next := leads(t, standing(t, b, "b"))
		assert.True(t, next.Valid())
	})
}

// The Commit hook reports the outcome and the duration of each Commit.
func TestCommitHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		var heard []elector.CommitEvent
		e := standing(t, b, "a", func(c *elector.Config) {
			c.Hooks.Commit = func(c elector.CommitEvent) { heard = append(heard, c) }
		})
		term := leads(t, e)
		ctx := context.WithValue(t.Context(), traceKey{}, "write")
		began := time.Now()
		must.Get(term.Commit(ctx, elector.Put("/a", nil), elector.Put("/b", nil)))(t)
		require.Len(t, heard, 1)
		assert.Equal(t, elector.CommitEvent{Context: ctx, Term: term, Began: began, Took: time.Since(began), Writes: 2}, heard[0])

		require.NoError(t, term.Resign(t.Context()))
		_, err := term.Commit(t.Context(), elector.Put("/a", nil))
		require.Len(t, heard, 2)
		assert.Equal(t, err, heard[1].Err)
		assert.True(t, errors.Is(err, elector.ErrDeposed))
	})
}

// A session's Lost is reported before the next session's Live, even if the hook takes long.
func TestSessionHookThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := memory.New(memory.Options{}).Client("a")
		var told []string
		e := standing(t, client, "a", func(c *elector.Config) {
			c.Hooks.Session = func(_ string, state backend.State) {
				told = append(told, state.String())
				time.Sleep(10 * time.Second)
				told = append(told, "over")
			}
		})
		for range 2 {
			_, err := e.Leader(t.Context())
			require.ErrorIs(t, err, elector.ErrNoLeader)
			pass(time.Minute)
			client.Expire()
			synctest.Wait()
		}
		assert.NoError(t, e.Close(t.Context()))
		assert.Equal(t, []string{"live", "over", "lost", "over", "live", "over", "lost", "over"}, told)
	})
}
