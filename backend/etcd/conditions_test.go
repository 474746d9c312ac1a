package etcd_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/etcd"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/catalog"
)

// A user's own transaction, with a client of the user's own, under the condition
// that a term holds.
func TestCmpsOfATerm(t *testing.T) {
	f := setUp(t, 30*time.Second)
	user := f.operator()
	state := f.dir + "-state"
	_, err := user.Put(f.ctx, state, "")
	require.NoError(t, err)
	write := func(cmps []clientv3.Cmp) bool {
		answer, err := user.Txn(f.ctx).If(cmps...).Then(clientv3.OpPut(state, "x")).Commit()
		require.NoError(t, err)
		return answer.Succeeded
	}
	for _, item := range catalog.All() {
		strategy := item.Strategy
		for how, b := range map[string]backend.Backend{"own session": f.Backend, "shared session": backend.Share(f.Backend, 30*time.Second)} {
			t.Run(strategy.Name()+", "+how, func(t *testing.T) {
				f.t = t
				election := newRoot()
				guard := func(term *elector.Term) []clientv3.Cmp {
					g := term.Guard()
					cmps, err := etcd.Cmps(f.ctx, g.Session, g.Conditions...)
					require.NoError(t, err)
					require.NotEmpty(t, cmps)
					return cmps
				}
				first, second := newElector(f, b, strategy, election, "1"), newElector(f, f.another(30*time.Second).Backend, strategy, election, "2")
				term, err := first.Campaign(f.ctx)
				require.NoError(t, err)
				waiting := later(func() (*elector.Term, error) { return second.Campaign(f.ctx) })
				wait.For(t, "the second stands", func() bool {
					return !item.Lists || len(candidates(f, first)) == 2
				})
				held := guard(term)
				require.True(t, write(held))
				// A new value, and writes of the leader, leave it as it is.
				require.NoError(t, term.Proclaim(f.ctx, []byte("another value")))
				_, err = term.Commit(f.ctx, elector.Put(election+"-x", nil))
				require.NoError(t, err)
				require.True(t, write(held))
				require.True(t, write(guard(term)))

				// An operator takes the seat away.
				for _, g := range term.Guard().Conditions {
					if g.Entry.Session != "" {
						_, err = user.Delete(f.ctx, g.Entry.Key)
						require.NoError(t, err)
					}
				}
				require.False(t, write(held), "the seat is gone")
				next, err := receive(f, waiting)
				require.NoError(t, err)
				require.False(t, write(held), "another leads")
				require.True(t, write(guard(next)))
				held = guard(next)
				require.NoError(t, next.Resign(f.ctx))
				require.False(t, write(held), "it has resigned")
			})
		}
	}
}

func candidates(f *fixture, e elector.Elector) []elector.Candidate {
	f.t.Helper()
	all, err := e.Candidates(f.ctx)
	require.NoError(f.t, err)
	return all
}

// The same for each kind of entry, and successors under the same key.
func TestCmps(t *testing.T) {
	f := setUp(t, 30*time.Second)
	user, other := f.operator(), f.another(30*time.Second)
	holds := func(cmps []clientv3.Cmp) bool {
		answer, err := user.Txn(f.ctx).If(cmps...).Then(clientv3.OpPut(f.dir+"-state", "x")).Commit()
		require.NoError(t, err)
		return answer.Succeeded
	}
	f.enqueue(other.s) // so that the next stands in a queue
	for name, make := range map[string]func(by *backend.Session) backend.Entry{
		"enqueued": func(by *backend.Session) backend.Entry { return f.commit(by, backend.Enqueue(f.dir, nil))[0] },
		"exclusive": func(by *backend.Session) backend.Entry {
			return f.commit(by, backend.CreateEphemeral(f.dir+"/seat", nil))[0]
		},
		"persistent": func(by *backend.Session) backend.Entry {
			return f.commit(by, backend.CompareAndSet(f.dir+"/p", nil, 0))[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			e := make(f.s)
			held, err := etcd.Cmps(f.ctx, f.s, backend.IfExists(e))
			require.NoError(t, err)
			unchanged, err := etcd.Cmps(f.ctx, f.s, backend.IfUnchanged(e))
			require.NoError(t, err)
			require.True(t, holds(held))
			require.True(t, holds(unchanged))
			require.True(t, holds(append(held, unchanged...)))
			f.commit(other.s, backend.Update(e, []byte("new")))
			require.True(t, holds(held))
			require.False(t, holds(unchanged))
			f.commit(other.s, backend.Delete(e))
			require.False(t, holds(held))
			make(other.s)
			require.False(t, holds(held))
			require.False(t, holds(unchanged))
		})
	}
}

func TestCmpsErrors(t *testing.T) {
	f := setUp(t, 30*time.Second)
	e := f.enqueue(f.s)
	double, err := memory.New(memory.Options{}).Open(f.ctx, backend.OpenOptions{})
	require.NoError(t, err)
	defer double.Close(f.ctx)
	for _, foreign := range []*backend.Session{double, nil} {
		_, err = etcd.Cmps(f.ctx, foreign, backend.IfExists(e))
		require.ErrorContains(t, err, "not of this package")
	}
	_, err = etcd.Cmps(f.ctx, f.s, backend.IfExists(backend.Entry{Key: "relative", Rev: 1}))
	require.ErrorIs(t, err, backend.ErrBadKey)
	_, err = etcd.Cmps(f.ctx, f.s, backend.IfExists(backend.Entry{Key: f.dir}))
	require.ErrorIs(t, err, backend.ErrCondition)
	ended, cancel := context.WithCancel(f.ctx)
	cancel()
	_, err = etcd.Cmps(ended, f.s, backend.IfExists(e))
	require.ErrorIs(t, err, context.Canceled)
	none, err := etcd.Cmps(f.ctx, f.s)
	require.NoError(t, err)
	assert.Empty(t, none)
	require.NoError(t, f.s.Close(f.ctx))
	_, err = etcd.Cmps(f.ctx, f.s, backend.IfExists(e))
	require.ErrorIs(t, err, backend.ErrSessionLost)
}
