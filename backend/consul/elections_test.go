package consul_test

import (
	"context"
	"strconv"
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
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/catalog"
)

var strategies = func() (all []elector.Strategy) {
	for _, item := range catalog.All() {
		all = append(all, item.Strategy)
	}
	return all
}()

// stand makes a candidate in an election, with sessions of b.
func (f *fixture) stand(b backend.Backend, strategy elector.Strategy, election string) elector.Elector {
	f.t.Helper()
	e, err := elector.New(elector.Config{
		Backend: b, Strategy: strategy, Election: election, ID: strconv.FormatUint(roots.Add(1), 10),
	})
	require.NoError(f.t, err)
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = e.Close(ctx) // those that look at its error close it themselves
	})
	return e
}

func (f *fixture) campaign(e elector.Elector) *elector.Term {
	f.t.Helper()
	term, err := e.Campaign(f.ctx)
	require.NoError(f.t, err)
	return term
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

// An operator who deletes the leader's key moves leadership.
func TestOperatorMovesLeadership(t *testing.T) {
	t.Parallel()
	for _, strategy := range strategies {
		t.Run(strategy.Name(), func(t *testing.T) {
			t.Parallel()
			f := processOn(t, consultest.Options{}, sharedServer(t))
			election := newRoot()
			term := f.campaign(f.stand(f.Backend, strategy, election))
			next := f.stand(f.Backend, strategy, election)
			winning := later(func() (*elector.Term, error) { return next.Campaign(f.ctx) })
			var seat string
			user := f.operator()
			wait.For(t, "the leader's key", func() bool {
				pairs, _, err := user.KV().List(election[1:]+"/", nil)
				for _, pair := range pairs {
					if pair.Session == term.Guard().Session.ID() {
						seat = pair.Key
					}
				}
				return err == nil && seat != ""
			})
			_, err := user.KV().Delete(seat, nil)
			require.NoError(t, err)
			f.ends(term, elector.ErrDeposed)
			second, err := receive(f, winning)
			require.NoError(t, err)
			assert.Greater(t, second.Token(), term.Token())
		})
	}
}

// Elections whose names begin alike, or lie below one another, do not meet.
func TestElectionsSideBySide(t *testing.T) {
	t.Parallel()
	for _, strategy := range strategies {
		t.Run(strategy.Name(), func(t *testing.T) {
			t.Parallel()
			f := processOn(t, consultest.Options{}, sharedServer(t))
			root := newRoot()
			names := []string{root + "/x", root + "/x/y", root + "/xy", root + "/x/y/z", root}
			var terms []*elector.Term
			var electors []elector.Elector
			for _, name := range names {
				e := f.stand(f.Backend, strategy, name)
				electors = append(electors, e)
				terms = append(terms, f.campaign(e))
			}
			for i, e := range electors {
				candidates, err := e.Candidates(f.ctx)
				require.NoError(t, err)
				assert.Len(t, candidates, 1, names[i])
				leader, err := e.Leader(f.ctx)
				require.NoError(t, err)
				assert.Equal(t, terms[i].Token(), leader.Token, names[i])
			}
			for i, term := range terms {
				require.NoError(t, term.Resign(f.ctx))
				for _, other := range terms[i+1:] {
					require.True(t, other.Valid())
					_, err := other.Commit(f.ctx, elector.Put(newRoot(), nil))
					require.NoError(t, err)
				}
				again := f.campaign(electors[i])
				require.NoError(t, again.Resign(f.ctx))
				require.NoError(t, electors[i].Close(f.ctx))
			}
		})
	}
}

// A seat whose holder crashed is taken as soon as the servers end the session: no
// lock-delay is added.
func TestCrashedLeader(t *testing.T) {
	t.Parallel()
	for _, strategy := range strategies {
		t.Run(strategy.Name(), func(t *testing.T) {
			if strategy.Name() != "unfair" { // whose seat has the same key again
				servertest.Long(t, "a session that times out; of what is locked once only no delay is to be feared")
			}
			t.Parallel()
			f, o := processOn(t, brief, sharedServer(t)), processOn(t, consultest.Options{}, sharedServer(t))
			election := newRoot()
			term := f.campaign(f.stand(f.Backend, strategy, election))
			session, _, err := f.operator().Session().Info(term.Guard().Session.ID(), nil)
			require.NoError(t, err)
			assert.LessOrEqual(t, session.LockDelay, time.Millisecond, "see TestPitfall32LockDelay")
			second := o.stand(o.Backend, strategy, election)
			winning := later(func() (*elector.Term, error) { return second.Campaign(o.ctx) })
			f.Suspend()
			won, err := receive(o, winning)
			require.NoError(t, err)
			require.False(t, term.Valid(), "two lead")
			assert.Greater(t, won.Token(), term.Token())
			f.ends(term, elector.ErrSessionLost)
		})
	}
}

// The condition of a term in the user's own transaction, with the user's own client.
func TestChecksOfATerm(t *testing.T) {
	t.Parallel()
	for _, strategy := range strategies {
		t.Run(strategy.Name(), func(t *testing.T) {
			t.Parallel()
			f := processOn(t, consultest.Options{}, sharedServer(t))
			shared := backend.Share(f.Backend, 10*time.Second)
			election, state := newRoot(), newRoot()[1:]
			e, next := f.stand(shared, strategy, election), f.stand(shared, strategy, election)
			write := func(term *elector.Term) (bool, error) {
				t.Helper()
				g := term.Guard()
				checks, err := consul.Checks(f.ctx, g.Session, g.Conditions...)
				if err != nil {
					return false, err
				}
				ok, _, _, err := f.operator().Txn().Txn(append(checks, set(state)), nil)
				return ok, err
			}
			term := f.campaign(e)
			for range 2 {
				ok, err := write(term)
				require.NoError(t, err)
				require.True(t, ok)
			}
			require.NoError(t, term.Proclaim(f.ctx, []byte("another value")))
			ok, err := write(term)
			require.NoError(t, err)
			require.True(t, ok)

			g := term.Guard()
			early, err := consul.Checks(f.ctx, g.Session, g.Conditions...)
			require.NoError(t, err)
			winning := later(func() (*elector.Term, error) { return next.Campaign(f.ctx) })
			require.NoError(t, term.Resign(f.ctx))
			second, err := receive(f, winning)
			require.NoError(t, err)
			// It is the same session that now holds the seat anew.
			ok, _, _, err = f.operator().Txn().Txn(append(early, set(state)), nil)
			require.NoError(t, err)
			assert.False(t, ok, "a write of the term before, with checks of then")
			ok, err = write(term)
			assert.False(t, ok, "a write of the term before, with checks of now")
			require.ErrorIs(t, err, backend.ErrCondition)
			ok, err = write(second)
			require.NoError(t, err)
			assert.True(t, ok)
		})
	}
}

func set(key string) *api.TxnOp {
	return &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVSet, Key: key, Value: []byte("x")}}
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
	none, err := consul.Checks(f.ctx, f.s)
	require.NoError(t, err)
	assert.Empty(t, none)
	require.NoError(t, f.s.Close(f.ctx))
	_, err = consul.Checks(f.ctx, f.s, backend.IfExists(e))
	require.ErrorIs(t, err, backend.ErrSessionLost)
}

// IfExists holds whatever is written to the entry, IfUnchanged until something is; neither
// holds for a successor under the same key.
func TestChecks(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	o := f.another()
	state := newRoot()[1:]
	write := func(checks api.TxnOps) bool {
		t.Helper()
		ok, _, _, err := f.operator().Txn().Txn(append(checks, set(state)), nil)
		require.NoError(t, err)
		return ok
	}
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
				checks, err := consul.Checks(f.ctx, f.s, g...)
				require.NoError(t, err)
				return checks
			}
			// Whether Checks knows it, or the transaction.
			refused := func(g backend.Condition) {
				t.Helper()
				checks, err := consul.Checks(f.ctx, f.s, g)
				if err != nil {
					require.ErrorIs(t, err, backend.ErrCondition)
					return
				}
				assert.False(t, write(checks))
			}
			held, unchanged := checks(backend.IfExists(e)), checks(backend.IfUnchanged(e))
			require.True(t, write(held))
			require.True(t, write(unchanged))
			require.True(t, write(checks(backend.IfExists(e), backend.IfUnchanged(e))))
			// By another session, which tells this one nothing.
			changed := f.commit(o.s, backend.Update(e, []byte("x")))[0]
			assert.False(t, write(unchanged))
			assert.True(t, write(checks(backend.IfExists(e))))
			refused(backend.IfUnchanged(e))
			held = checks(backend.IfExists(e), backend.IfUnchanged(changed))
			require.True(t, write(held))

			f.commit(o.s, backend.Delete(e))
			assert.False(t, write(held))
			if name != "enqueued" {
				create(f.s)
				assert.False(t, write(held))
			}
			refused(backend.IfExists(e))
		})
	}
}
