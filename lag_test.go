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
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
)

func newCandidate(t *testing.T, c *memory.Client) elector.Elector {
	t.Helper()
	e, err := elector.New(elector.Config{Backend: c, Strategy: fair.New(), Election: "/e", ID: c.Name()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close(context.Background()) })
	return e
}

// An observer whose session was lost, and the next one opened at a server that is behind, does
// not tell of what was before the last that it has told.
func TestObserveGoesNotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		home := service.Client("observer")
		viewer, leader := newCandidate(t, home), newCandidate(t, service.Client("leader"))
		seen := make(chan elector.Leader, 10)
		go func() {
			for l, err := range viewer.Observe(context.Background()) {
				if err == nil {
					seen <- l
				}
			}
		}()
		if l := <-seen; !l.Vacant() {
			t.Fatalf("Observe yielded %+v before anybody led", l)
		}
		catchUp := service.Lag() // nobody leads there
		term, err := leader.Campaign(t.Context())
		require.NoError(t, err)
		defer catchUp()
		if l := <-seen; l.Token != term.Token() {
			t.Fatalf("Observe yielded %+v, want token %d", l, term.Token())
		}
		home.Expire()
		time.Sleep(time.Minute)
		if len(seen) > 0 {
			t.Errorf("Observe yielded %+v after a lost session, and nothing had changed", <-seen)
		}
		if l, err := viewer.Leader(t.Context()); err != nil || l.Token != term.Token() {
			t.Errorf("Leader is %+v, error %v; want token %d", l, err, term.Token())
		}
	})
}

// Remove finds an election that its server does not know of yet.
func TestRemoveAtAServerThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		catchUp := service.Lag() // there is no election there
		defer catchUp()
		leader := newCandidate(t, service.Client("leader"))
		if _, err := leader.Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := elector.Remove(t.Context(), service, fair.New(), "/e"); !errors.Is(err, elector.ErrInUse) {
			t.Errorf("Remove of an election in use: %v, want ErrInUse", err)
		}
		require.NoError(t, leader.Close(t.Context()))
		assert.NoError(t, elector.Remove(t.Context(), service, fair.New(), "/e"))
		if left := service.Entries("/e"); service.Entry("/e").Exists() || len(left) > 0 {
			t.Errorf("left: %v", service.Dump())
		}
	})
}

// An election of Kafka's at the root has no key of its own to ask about.
func TestObserveAtTheRootAfterALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		client := service.Client("a")
		e, err := elector.New(elector.Config{Backend: client, Strategy: kafka.ForBroker(1), Election: "/", ID: "a"})
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Close(context.Background())) }()
		for range 2 {
			_, err = e.Leader(t.Context())
			require.ErrorIs(t, err, elector.ErrNoLeader)
			client.Expire()
			synctest.Wait()
		}
	})
}
