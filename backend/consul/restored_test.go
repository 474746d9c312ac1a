package consul_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/catalog"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/unfair"
)

// TestRestoredBehindItself restores the service from a backup that has an entry which its candidate has deleted
// since. Nobody waits behind it.
func TestRestoredBehindItself(t *testing.T) {
	t.Parallel()
	for _, item := range catalog.All() {
		t.Run(item.Strategy.Name(), func(t *testing.T) {
			switch item.Strategy.Name() {
			case fair.New().Name(), unfair.New().Name():
			default:
				servertest.Long(t, "a server for each strategy")
			}
			t.Parallel()
			server := consultest.Single(t).Members[0]
			user, err := consultest.Operator(server)
			require.NoError(t, err)
			election := newRoot()
			terms, next := make(chan struct{}), make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			var runs sync.WaitGroup
			defer runs.Wait()
			defer cancel()
			for i := range 3 {
				f := processOn(t, consultest.Options{Config: consul.Config{SessionTimeout: 30 * time.Second}}, server)
				e, err := elector.New(elector.Config{Backend: f.Backend, Strategy: item.Strategy, Election: election, ID: fmt.Sprint(i)})
				require.NoError(t, err)
				t.Cleanup(func() { assert.NoError(t, e.Close(context.Background())) })
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
			arrives := func() {
				t.Helper()
				select {
				case <-terms:
				case <-time.After(wait.Patience):
					t.Fatal("nobody leads")
				}
			}
			arrives()
			backup, _, err := user.Snapshot().Save(nil)
			require.NoError(t, err)
			saved, err := io.ReadAll(backup)
			require.NoError(t, err)
			require.NoError(t, backup.Close())
			for range 4 {
				next <- struct{}{}
				arrives()
			}
			require.NoError(t, user.Snapshot().Restore(nil, bytes.NewReader(saved)))
			for led := 0; led < 6; {
				select {
				case next <- struct{}{}:
				case <-terms:
					led++
				case <-time.After(wait.Patience):
					t.Fatal("nobody leads")
				}
			}
		})
	}
}
