package consul_test

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servicetest"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/catalog"
)

// The user's own transaction, with the user's own client, works under conditions. A term's Guard holds as
// long as the term does: rule fence/ended.
func TestChecks(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	servicetest.Conditions(t, f.Backend, newRoot(), false, consul.Checks, func(t testing.TB, checks api.TxnOps) bool {
		set := &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVSet, Key: newRoot()[1:], Value: []byte("x")}}
		ok, _, _, err := f.operator().Txn().Txn(append(slices.Clone(checks), set), nil)
		require.NoError(t, err)
		return ok
	})
}

// A candidate that enters after Consul has found the directory empty, and right before it deletes it,
// leads in a directory that is gone, and nobody else leads beside it.
func TestEntersWhileTheElectionIsRemoved(t *testing.T) {
	t.Parallel()
	for _, item := range catalog.All() {
		tried := item.Strategy
		if _, custom := tried.(strategy.CustomLayout); custom {
			continue // Remove refuses its elections
		}
		t.Run(tried.Name(), func(t *testing.T) {
			t.Parallel()
			f := setUp(t)
			path := f.Dir + "/e"
			waits := make(chan error, 100)
			candidate := func(id string) elector.Elector {
				return f.Stand(elector.Config{
					Backend: f.another().Backend, Strategy: tried, Election: path, ID: id,
					Hooks: elector.Hooks{Retry: func(r elector.RetryEvent) { waits <- r.Err }},
				})
			}
			early, late := candidate("early"), candidate("late")
			term := must.Get(early.Campaign(f.Ctx))(t)
			require.NoError(t, term.Resign(f.Ctx))
			founded := term.Token()

			enter := sync.OnceValues(func() (*elector.Term, error) { return early.Campaign(f.Ctx) })
			f.handle(verbs(api.KVDelete), func(r *consultest.Request) (*http.Response, error) {
				_, err := enter()
				assert.NoError(t, err)
				return r.Send()
			})
			require.ErrorIs(t, election.Remove(f.Ctx, f.Backend, tried, path), elector.ErrInUse)
			term = must.Get(enter())(t)
			assert.Greater(t, term.Token(), founded)

			winning := f.Campaigns(late)
			<-waits // it learns that it cannot enter
			l := must.Get(late.Leader(f.Ctx))(t)
			assert.Equal(t, "early", l.ID)
			require.ErrorIs(t, election.Remove(f.Ctx, f.Backend, tried, path), elector.ErrInUse)
			select {
			case <-winning:
				t.Fatal("two candidates lead")
			case <-time.After(300 * time.Millisecond):
			}
			require.True(t, term.Valid())
			require.NoError(t, term.Resign(f.Ctx))
			f.Succeeds(winning, term)
			require.NoError(t, late.Close(f.Ctx))
			require.NoError(t, early.Close(f.Ctx))
			require.NoError(t, election.Remove(f.Ctx, f.Backend, tried, path))
			left := must.First(f.operator().KV().Keys(path[1:], "", nil))(t)
			assert.Empty(t, left)
		})
	}
}
