// Package restoretest tries elections on a service that is restored from a backup under live candidates.
package restoretest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/wait"
)

// A Service is one that candidates are clients of.
type Service struct {
	Client  func(t *testing.T) backend.Backend // a process of its own
	BackUp  func(t *testing.T)
	Restore func(t *testing.T) // what was backed up, beside writes of others
}

// BehindItself restores entries that their candidates have deleted since. Their sessions live, and nobody waits
// behind them.
func BehindItself(t *testing.T, s Service, strategy elector.Strategy) {
	terms, next := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	var runs sync.WaitGroup
	defer runs.Wait()
	defer cancel()
	for i := range 3 {
		e, err := elector.New(elector.Config{Backend: s.Client(t), Strategy: strategy, Election: "/restored", ID: fmt.Sprint(i)})
		require.NoError(t, err)
		t.Cleanup(func() { _ = e.Close(context.Background()) }) // a session may not have found its link again
		runs.Go(func() {
			for ctx.Err() == nil {
				term, err := e.Campaign(ctx)
				if err != nil {
					continue // the session is lost, or ctx has ended
				}
				select {
				case terms <- struct{}{}:
				case <-ctx.Done():
					return
				}
				select {
				case <-next:
				case <-term.Context().Done():
				case <-ctx.Done():
				}
				_ = term.Resign(t.Context()) // it may have been lost
			}
		})
	}
	leads(t, terms)
	s.BackUp(t)
	for range 4 {
		next <- struct{}{}
		leads(t, terms)
	}
	s.Restore(t)
	for led := 0; led < 6; {
		select {
		case next <- struct{}{}:
		case <-terms:
			led++
		case <-time.After(wait.Patience):
			t.Fatal("nobody leads")
		}
	}
}

func leads(t *testing.T, terms <-chan struct{}) {
	t.Helper()
	select {
	case <-terms:
	case <-time.After(wait.Patience):
		t.Fatal("nobody leads")
	}
}
