package consul_test

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/strategy/catalog"
)

// Consul looks whether a directory is empty right before it deletes it. Whoever enters in
// between leads in a directory that is gone, and nobody beside it.
func TestEntersWhileTheElectionIsRemoved(t *testing.T) {
	t.Parallel()
	for _, item := range catalog.All() {
		strategy := item.Strategy
		if _, custom := strategy.(elector.CustomLayout); custom {
			continue // Remove refuses its elections
		}
		t.Run(strategy.Name(), func(t *testing.T) {
			t.Parallel()
			f := setUp(t)
			election := f.dir + "/e"
			waits := make(chan error, 100)
			candidate := func(id string) elector.Elector {
				e, err := elector.New(elector.Config{
					Backend: f.another().Backend, Strategy: strategy, Election: election, ID: id,
					Hooks: elector.Hooks{Retry: func(r elector.RetryEvent) { waits <- r.Err }},
				})
				require.NoError(t, err)
				t.Cleanup(func() { _ = e.Close(context.Background()) }) // closed below, if it gets there
				return e
			}
			early, late := candidate("early"), candidate("late")
			term, err := early.Campaign(f.ctx)
			require.NoError(t, err)
			require.NoError(t, term.Resign(f.ctx))
			founded := term.Token()

			enter := sync.OnceValues(func() (*elector.Term, error) { return early.Campaign(f.ctx) })
			f.Intercept(func(request *http.Request, body []byte, send consultest.Send) (*http.Response, error) {
				if path(request, "txn") && bytes.Contains(body, []byte(`"delete"`)) {
					_, err := enter()
					assert.NoError(t, err)
				}
				return send()
			})
			require.ErrorIs(t, elector.Remove(f.ctx, f.Backend, strategy, election), elector.ErrInUse)
			term, err = enter()
			require.NoError(t, err)
			assert.Greater(t, term.Token(), founded)

			winning := later(func() (*elector.Term, error) { return late.Campaign(f.ctx) })
			<-waits // it is told that it cannot enter
			l, err := late.Leader(f.ctx)
			require.NoError(t, err)
			assert.Equal(t, "early", l.ID)
			require.ErrorIs(t, elector.Remove(f.ctx, f.Backend, strategy, election), elector.ErrInUse)
			select {
			case <-winning:
				t.Fatal("two candidates lead")
			case <-time.After(300 * time.Millisecond):
			}
			require.True(t, term.Valid())
			require.NoError(t, term.Resign(f.ctx))
			next, err := receive(f, winning)
			require.NoError(t, err)
			assert.Greater(t, next.Token(), term.Token())
			require.NoError(t, late.Close(f.ctx))
			require.NoError(t, early.Close(f.ctx))
			require.NoError(t, elector.Remove(f.ctx, f.Backend, strategy, election))
			left, _, err := f.operator().KV().Keys(election[1:], "", nil)
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
}
