package consul_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servicetest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/catalog"
)

// stand makes a candidate in an election, with sessions of b.
func (f *fixture) stand(b backend.Backend, strategy elector.Strategy, election string) elector.Elector {
	f.T.Helper()
	e, err := elector.New(elector.Config{
		Backend: b, Strategy: strategy, Election: election, ID: newName(),
	})
	require.NoError(f.T, err)
	f.T.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = e.Close(ctx) // tests that check its error close it themselves
	})
	return e
}

func (f *fixture) campaign(e elector.Elector) *elector.Term {
	f.T.Helper()
	return must.Get(e.Campaign(f.Ctx))(f.T)
}

// campaigning campaigns in the background.
func (f *fixture) campaigning(e elector.Elector) <-chan wait.Result[*elector.Term] {
	return wait.Later(func() (*elector.Term, error) { return e.Campaign(f.Ctx) })
}

// succeeds waits for the term after last.
func (f *fixture) succeeds(winning <-chan wait.Result[*elector.Term], last *elector.Term) *elector.Term {
	f.T.Helper()
	term := wait.Value(f.T, winning)
	assert.Greater(f.T, term.Token(), last.Token())
	return term
}

// queue waits until there are n candidates.
func (f *fixture) queue(e elector.Elector, n int) {
	f.T.Helper()
	wait.For(f.T, "the candidates", func() bool {
		all := must.Get(e.Candidates(f.Ctx))(f.T)
		return len(all) == n
	})
}

// ends waits for a term's end.
func (f *fixture) ends(term *elector.Term, cause error) {
	f.T.Helper()
	select {
	case <-term.Context().Done():
	case <-f.Ctx.Done():
		f.T.Fatal("the term does not end")
	}
	require.ErrorIs(f.T, context.Cause(term.Context()), cause)
}

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
		strategy := item.Strategy
		if _, custom := strategy.(elector.CustomLayout); custom {
			continue // Remove refuses its elections
		}
		t.Run(strategy.Name(), func(t *testing.T) {
			t.Parallel()
			f := setUp(t)
			election := f.Dir + "/e"
			waits := make(chan error, 100)
			candidate := func(id string) elector.Elector {
				e, err := elector.New(elector.Config{
					Backend: f.another().Backend, Strategy: strategy, Election: election, ID: id,
					Hooks: elector.Hooks{Retry: func(r elector.RetryEvent) { waits <- r.Err }},
				})
				require.NoError(t, err)
				t.Cleanup(func() { _ = e.Close(context.Background()) }) // closed below, if the test gets there
				return e
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
			require.ErrorIs(t, elector.Remove(f.Ctx, f.Backend, strategy, election), elector.ErrInUse)
			term = must.Get(enter())(t)
			assert.Greater(t, term.Token(), founded)

			winning := f.campaigning(late)
			<-waits // it learns that it cannot enter
			l := must.Get(late.Leader(f.Ctx))(t)
			assert.Equal(t, "early", l.ID)
			require.ErrorIs(t, elector.Remove(f.Ctx, f.Backend, strategy, election), elector.ErrInUse)
			select {
			case <-winning:
				t.Fatal("two candidates lead")
			case <-time.After(300 * time.Millisecond):
			}
			require.True(t, term.Valid())
			require.NoError(t, term.Resign(f.Ctx))
			f.succeeds(winning, term)
			require.NoError(t, late.Close(f.Ctx))
			require.NoError(t, early.Close(f.Ctx))
			require.NoError(t, elector.Remove(f.Ctx, f.Backend, strategy, election))
			left := must.First(f.operator().KV().Keys(election[1:], "", nil))(t)
			assert.Empty(t, left)
		})
	}
}
