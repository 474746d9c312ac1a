package elector_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
)

// After a session is lost and the next one opens at a server that is behind, an observer does not report
// anything older than what it last reported.
func TestObserveGoesNotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		home := service.Client("observer")
		viewer, leader := standing(t, home, "observer"), standing(t, service.Client("leader"), "leader")
		seen := make(chan elector.Leader, 10)
		go func() {
			for l, err := range viewer.Observe(context.Background()) {
				if err == nil {
					seen <- l
				}
			}
		}()
		require.Zero(t, (<-seen).Token, "nobody leads yet")
		catchUp := service.Lag() // nobody leads on that server
		term := leads(t, leader)
		defer catchUp()
		require.Equal(t, term.Token(), (<-seen).Token)
		home.Expire()
		time.Sleep(time.Minute)
		assert.Empty(t, seen, "a session was lost, and nothing had changed")
		l := must.Get(viewer.Leader(t.Context()))(t)
		assert.Equal(t, term.Token(), l.Token)
	})
}

// Remove finds an election that its server does not know of yet.
func TestRemoveAtAServerThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		catchUp := service.Lag() // that server has no election
		defer catchUp()
		leader := standing(t, service.Client("leader"), "leader")
		leads(t, leader)
		assert.ErrorIs(t, election.Remove(t.Context(), service, fair.Strategy{}, "/e"), elector.ErrInUse)
		require.NoError(t, leader.Close(t.Context()))
		assert.NoError(t, election.Remove(t.Context(), service, fair.Strategy{}, "/e"))
		assert.Empty(t, service.Dump(), "nothing is left")
	})
}

// Transfer finds an heir that the leader's server does not know of yet.
func TestTransferAtAServerThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		var behind atomic.Bool // until a commit
		var shown backend.Listing
		home := backend.Intercept(service, func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
			err := next(ctx)
			switch {
			case c.Kind == backend.CallCommit:
				behind.Store(false)
			case c.Kind == backend.CallList && behind.Load():
				c.Listing = shown
			case c.Kind == backend.CallList:
				shown = c.Listing
			}
			return err
		})
		leader := standing(t, home, "leader")
		term := leads(t, leader)
		synctest.Wait() // its entry is marked
		require.Len(t, must.Get(leader.Candidates(t.Context()))(t), 1)
		behind.Store(true)
		campaigns(t, standing(t, service, "heir"))
		require.Len(t, must.Get(leader.Candidates(t.Context()))(t), 1)
		assert.NoError(t, term.Transfer(t.Context(), "heir", nil))
	})
}

// A Kafka election at the root has no key of its own to ask about; a session that replaces a lost one is
// brought up to date once.
func TestObserveAtTheRootAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := memory.New(memory.Options{}).Client("a")
		b := meter.New(client, nil)
		e := standing(t, b, "a", func(c *elector.Config) { c.Strategy, c.Election = kafka.ForBroker(1), "/" })
		defer func() { require.NoError(t, e.Close(context.Background())) }()
		for losses := range 3 {
			for range 3 {
				_, err := e.Leader(t.Context())
				require.ErrorIs(t, err, elector.ErrNoLeader)
			}
			assert.Equal(t, losses, b.Counts().Commits)
			client.Expire()
			synctest.Wait()
		}
	})
}
