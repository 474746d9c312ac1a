package consul_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/catalog"
	"github.com/elector-go/elector/strategy/fair"
)

// stand makes a candidate in an election, with sessions of b.
func (f *fixture) stand(b backend.Backend, strategy strategy.Strategy, election string) elector.Elector {
	f.t.Helper()
	e, err := elector.New(elector.Config{
		Backend: b, Strategy: strategy, Election: election, ID: strconv.FormatUint(roots.Add(1), 10),
	})
	require.NoError(f.t, err)
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = e.Close(ctx) // tests that check its error close it themselves
	})
	return e
}

func (f *fixture) campaign(e elector.Elector) *elector.Term {
	f.t.Helper()
	return must.Get(e.Campaign(f.ctx))(f.t)
}

// campaigning campaigns in the background.
func (f *fixture) campaigning(e elector.Elector) <-chan wait.Result[*elector.Term] {
	return wait.Later(func() (*elector.Term, error) { return e.Campaign(f.ctx) })
}

// succeeds waits for the term after last.
func (f *fixture) succeeds(winning <-chan wait.Result[*elector.Term], last *elector.Term) *elector.Term {
	f.t.Helper()
	term := must.Get(wait.Returned(f.t, winning))(f.t)
	assert.Greater(f.t, term.Token(), last.Token())
	return term
}

// queue waits until there are n candidates.
func (f *fixture) queue(e elector.Elector, n int) {
	f.t.Helper()
	wait.For(f.t, "the candidates", func() bool {
		all := must.Get(e.Candidates(f.ctx))(f.t)
		return len(all) == n
	})
}

// ends waits for a term's end.
func (f *fixture) ends(term *elector.Term, cause error) {
	f.t.Helper()
	select {
	case <-term.Context().Done():
	case <-f.ctx.Done():
		f.t.Fatal("the term does not end")
	}
	require.ErrorIs(f.t, context.Cause(term.Context()), cause)
}

// The condition of a term works in the user's own transaction, with the user's own client.
func TestChecksOfATerm(t *testing.T) {
	t.Parallel()
	for _, item := range catalog.All() {
		strategy := item.Strategy
		t.Run(strategy.Name(), func(t *testing.T) {
			t.Parallel()
			f := processOn(t, consultest.Options{}, sharedServer(t))
			shared := backend.Share(f.Backend, 10*time.Second)
			election := newRoot()
			e, next := f.stand(shared, strategy, election), f.stand(shared, strategy, election)
			write := func(term *elector.Term) (bool, error) {
				g := term.Guard()
				checks, err := consul.Checks(f.ctx, g.Session, g.Conditions...)
				return err == nil && f.writes(checks), err
			}
			term := f.campaign(e)
			for range 2 {
				ok := must.Get(write(term))(t)
				require.True(t, ok)
			}
			require.NoError(t, term.Proclaim(f.ctx, []byte("another value")))
			ok, err := write(term)
			require.NoError(t, err)
			require.True(t, ok)

			g := term.Guard()
			early := must.Get(consul.Checks(f.ctx, g.Session, g.Conditions...))(t)
			winning := f.campaigning(next)
			require.NoError(t, term.Resign(f.ctx))
			second := f.succeeds(winning, term)
			// The same session now holds the seat again.
			assert.False(t, f.writes(early), "a write of the term before, with checks of then")
			ok, err = write(term)
			assert.False(t, ok, "a write of the term before, with checks of now")
			require.ErrorIs(t, err, backend.ErrCondition)
			ok = must.Get(write(second))(t)
			assert.True(t, ok)
		})
	}
}

// writes reports whether the user's own transaction with these checks is done.
func (f *fixture) writes(checks api.TxnOps) bool {
	f.t.Helper()
	set := &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVSet, Key: newRoot()[1:], Value: []byte("x")}}
	ok, _, _, err := f.operator().Txn().Txn(append(checks, set), nil)
	require.NoError(f.t, err)
	return ok
}

func TestChecksErrors(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	e := f.enqueue(f.s)
	double, err := memory.New(memory.Options{}).Open(f.ctx, backend.OpenOptions{})
	require.NoError(t, err)
	defer double.Close(f.ctx)
	for _, foreign := range []*backend.Session{double, nil} {
		_, err = consul.Checks(f.ctx, foreign, backend.IfExists(e))
		require.ErrorContains(t, err, "not of this package")
	}
	_, err = consul.Checks(f.ctx, f.s, backend.IfExists(backend.Entry{Key: "relative", Rev: 1}))
	require.ErrorIs(t, err, backend.ErrBadKey)
	_, err = consul.Checks(f.ctx, f.s, backend.IfExists(backend.Entry{Key: f.dir}))
	require.ErrorIs(t, err, backend.ErrCondition)
	ended, cancel := context.WithCancel(f.ctx)
	cancel()
	_, err = consul.Checks(ended, f.s, backend.IfExists(e))
	require.ErrorIs(t, err, context.Canceled)
	none := must.Get(consul.Checks(f.ctx, f.s))(t)
	assert.Empty(t, none)
	require.NoError(t, f.s.Close(f.ctx))
	_, err = consul.Checks(f.ctx, f.s, backend.IfExists(e))
	require.ErrorIs(t, err, backend.ErrSessionLost)
}

// IfExists holds after any write to the entry, IfUnchanged only until the first; neither holds for a
// successor under the same key.
func TestChecks(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	o := f.another()
	for name, create := range map[string]func(s *backend.Session) backend.Entry{
		"enqueued": f.enqueue,
		"exclusive": func(s *backend.Session) backend.Entry {
			return f.commit(s, backend.CreateEphemeral(f.dir+"/seat", nil))[0]
		},
		"persistent": func(s *backend.Session) backend.Entry {
			return f.commit(s, backend.CompareAndSet(f.dir+"/p", nil, 0))[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := create(f.s)
			checks := func(g ...backend.Condition) api.TxnOps {
				t.Helper()
				return must.Get(consul.Checks(f.ctx, f.s, g...))(t)
			}
			// Either Checks refuses it, or the transaction.
			refused := func(g backend.Condition) {
				t.Helper()
				checks, err := consul.Checks(f.ctx, f.s, g)
				if err != nil {
					require.ErrorIs(t, err, backend.ErrCondition)
					return
				}
				assert.False(t, f.writes(checks))
			}
			held, unchanged := checks(backend.IfExists(e)), checks(backend.IfUnchanged(e))
			require.True(t, f.writes(held))
			require.True(t, f.writes(unchanged))
			require.True(t, f.writes(checks(backend.IfExists(e), backend.IfUnchanged(e))))
			// By another session, which does not report it to this one.
			changed := f.commit(o.s, backend.Update(e, []byte("x")))[0]
			assert.False(t, f.writes(unchanged))
			assert.True(t, f.writes(checks(backend.IfExists(e))))
			refused(backend.IfUnchanged(e))
			held = checks(backend.IfExists(e), backend.IfUnchanged(changed))
			require.True(t, f.writes(held))

			f.commit(o.s, backend.Delete(e))
			assert.False(t, f.writes(held))
			if name != "enqueued" {
				create(f.s)
				assert.False(t, f.writes(held))
			}
			refused(backend.IfExists(e))
		})
	}
}

// A session keeps few keys of its own, however many campaigns are cancelled.
func TestSlotsOfCancelledCampaigns(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	e := f.stand(f.Backend, fair.Strategy{}, f.dir+"/e")
	defer func() { require.NoError(t, e.Close(f.ctx)) }()
	term := f.campaign(e)
	session := term.Guard().Session.ID()
	require.NoError(t, term.Resign(f.ctx))
	<-term.Context().Done()
	for range 300 {
		ctx, cancel := context.WithTimeout(f.ctx, rand.N(3*time.Millisecond))
		term, err := e.Campaign(ctx)
		cancel()
		if err == nil {
			err = term.Resign(f.ctx)
		} else if errors.Is(err, context.DeadlineExceeded) {
			err = nil
		}
		require.NoError(t, err)
	}
	slots := must.First(f.operator().KV().Keys(".elector/"+session+"/", "", nil))(t)
	assert.LessOrEqual(t, len(slots), 32)
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
			path := f.dir + "/e"
			waits := make(chan error, 100)
			candidate := func(id string) elector.Elector {
				e, err := elector.New(elector.Config{
					Backend: f.another().Backend, Strategy: tried, Election: path, ID: id,
					Hooks: elector.Hooks{Retry: func(r elector.RetryEvent) { waits <- r.Err }},
				})
				require.NoError(t, err)
				t.Cleanup(func() { _ = e.Close(context.Background()) }) // closed below, if the test gets there
				return e
			}
			early, late := candidate("early"), candidate("late")
			term := must.Get(early.Campaign(f.ctx))(t)
			require.NoError(t, term.Resign(f.ctx))
			founded := term.Token()

			enter := sync.OnceValues(func() (*elector.Term, error) { return early.Campaign(f.ctx) })
			f.handle(verbs(api.KVDelete), func(r *consultest.Request) (*http.Response, error) {
				_, err := enter()
				assert.NoError(t, err)
				return r.Send()
			})
			require.ErrorIs(t, election.Remove(f.ctx, f.Backend, tried, path), elector.ErrInUse)
			term = must.Get(enter())(t)
			assert.Greater(t, term.Token(), founded)

			winning := f.campaigning(late)
			<-waits // it learns that it cannot enter
			l := must.Get(late.Leader(f.ctx))(t)
			assert.Equal(t, "early", l.ID)
			require.ErrorIs(t, election.Remove(f.ctx, f.Backend, tried, path), elector.ErrInUse)
			select {
			case <-winning:
				t.Fatal("two candidates lead")
			case <-time.After(300 * time.Millisecond):
			}
			require.True(t, term.Valid())
			require.NoError(t, term.Resign(f.ctx))
			f.succeeds(winning, term)
			require.NoError(t, late.Close(f.ctx))
			require.NoError(t, early.Close(f.ctx))
			require.NoError(t, election.Remove(f.ctx, f.Backend, tried, path))
			left := must.First(f.operator().KV().Keys(path[1:], "", nil))(t)
			assert.Empty(t, left)
		})
	}
}
