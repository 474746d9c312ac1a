package consul_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

// A proxy's "not found", or that there is nothing, without Consul's index, is not believed: it may have
// no route for a moment.
func TestNothingFromBetween(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		status int
		text   string
	}{
		{http.StatusNotFound, "404 page not found\n"},
		{http.StatusOK, "[]"},
		{http.StatusOK, "[null]"},
		{http.StatusOK, "null"},
	} {
		t.Run(http.StatusText(row.status)+" "+row.text, func(t *testing.T) {
			t.Parallel()
			f := setUp(t)
			e := f.Enqueue(f.S)
			lie := answer(row.status, row.text)
			reads := func(r *consultest.Request) bool { return r.Method == http.MethodGet && r.For("kv/") }
			for name, check := range map[string]func() error{
				"get": func() error {
					got, err := f.S.Get(f.Ctx, e.Key)
					assert.True(t, got.Same(e))
					return err
				},
				"list": func() error {
					l, err := f.S.List(f.Ctx, f.Dir)
					assert.Equal(t, []string{e.Key}, l.Keys)
					return err
				},
				"survey": func() error {
					_, strangers, err := f.S.Survey(f.Ctx, f.Dir, nil)
					assert.Equal(t, []string{e.Key}, strangers)
					return err
				},
				"await": func() error {
					now, err := f.S.Await(f.Ctx, backend.Unknown(e.Key))
					assert.True(t, err != nil || now[0].Same(e))
					return err
				},
				"delete": func() error {
					dir, err := f.S.Get(f.Ctx, f.Dir)
					if err == nil {
						_, err = f.S.Commit(f.Ctx, nil, backend.Delete(dir))
						assert.ErrorIs(t, err, backend.ErrConflict, "it has children")
						err = nil
					}
					return err
				},
			} {
				said, remove := f.first(3, reads, lie)
				require.NoError(t, check(), name)
				assert.GreaterOrEqual(t, said.Load(), int64(3), name)
				remove()
			}
			// Nor is the session over because a proxy knows neither it nor the read that looked for it.
			states := f.recordStates()
			said, remove := f.first(4, func(r *consultest.Request) bool { return renews(r) || informs(r) }, lie)
			go f.hasten(f.S)
			wait.For(t, "renewals", func() bool { return said.Load() > 4 || f.S.State() == backend.Lost })
			remove()
			f.AwaitState(f.S, backend.Live)
			assert.NotContains(t, states(), backend.Lost)
			// And a look needs Consul's own reply.
			awaiting := f.awaitList(backend.Listing{Dir: newRoot()})
			remove = f.handle(asks("keys"), lie)
			go f.hasten(f.S)
			f.AwaitState(f.S, backend.Suspended)
			remove()
			f.AwaitState(f.S, backend.Live)
			wait.Pending(f.T, awaiting)
		})
	}
}

// A write with nothing to show that it was not done is not reported as not done, even if the session
// has ended before that is resolved.
func TestWriteWithoutAWord(t *testing.T) {
	t.Parallel()
	for name, lie := range map[string]consultest.Handler{
		"an answer that says nothing": answer(http.StatusOK, "null"),
		"sent twice":                  answer(http.StatusConflict, `{"Results":null,"Errors":[{"OpIndex":0,"What":"key \".elector/x/0\" exists"}]}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := processOn(t, consultest.Options{}, sharedServer(t))
			f.S = f.open()
			key := newRoot()
			must.Get(f.operator().KV().Put(&api.KVPair{Key: backend.Parent(key)[1:]}, nil))(t)
			f.handle(verbs(api.KVCAS), done(func(r *consultest.Request) (*http.Response, error) {
				assert.NoError(t, consultest.Destroy(f.Servers, f.S.ID()))
				return lie(r)
			}))
			_, err := f.S.Commit(f.Ctx, nil, backend.CompareAndSet(key, nil, 0)) // its first: the slot is created
			require.ErrorIs(t, err, backend.ErrSessionLost)
			require.ErrorIs(t, err, backend.ErrIndeterminate)
			written := must.First(f.operator().KV().Get(key[1:], nil))(t)
			assert.NotNil(t, written)
		})
	}
}

// A reply with a null that never is null says nothing: the request is sent again, and a write is
// resolved.
func TestNullInAnswers(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	e := f.Enqueue(f.S)
	null := func(status int, text string) consultest.Handler {
		return func(r *consultest.Request) (*http.Response, error) {
			said, err := r.Send()
			if err != nil {
				return nil, err
			}
			_ = said.Body.Close()
			lie := consultest.Answer(status, text)
			lie.Header = said.Header.Clone()
			lie.Header.Del("Content-Length")
			return lie, nil
		}
	}
	for name, lie := range map[string]consultest.Handler{
		"a result":                      null(http.StatusOK, `{"Results":[null]}`),
		"an error":                      null(http.StatusOK, `{"Errors":[null]}`),
		"an error of what was not done": null(http.StatusConflict, `{"Errors":[null]}`),
	} {
		_, remove := f.first(2, txns, lie)
		made := f.Commit(f.S, backend.CompareAndSet(newChild(f.Dir), []byte("x"), 0))
		remove()
		f.Stands(f.S, made[0])

		_, remove = f.first(2, txns, lie)
		_, strangers, err := f.S.Survey(f.Ctx, f.Dir, nil)
		remove()
		require.NoError(t, err, name)
		assert.Equal(t, []string{e.Key}, strangers, name)

		_, remove = f.first(2, txns, lie)
		_, err = f.S.Commit(f.Ctx, []backend.Condition{backend.IfExists(e)})
		remove()
		require.NoError(t, err, name)
	}
	_, remove := f.first(2, query("recurse", true), null(http.StatusOK, "[null]"))
	l, err := f.S.List(f.Ctx, f.Dir)
	remove()
	require.NoError(t, err)
	assert.Equal(t, []string{e.Key}, l.Keys)
}

// newLeader makes the servers' leader answer like one that has not read its log yet, except for reads
// that wait for that: it knows no session.
func (f *fixture) newLeader() (renewals *atomic.Int64, remove func()) {
	renewals = new(atomic.Int64)
	remove = f.Intercept(func(r *consultest.Request) (*http.Response, error) {
		switch {
		case renews(r):
			renewals.Add(1)
			return consultest.Answer(http.StatusNotFound, "Session id '"+f.S.ID()+"' not found"), nil
		case informs(r) && !r.Asks("consistent"):
			return consultest.Answer(http.StatusOK, "[]"), nil
		}
		return r.Send()
	})
	return renewals, remove
}

// A session is lost when a renewal does not find it, however long the window would last.
func TestPitfall36NotFound(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	f.renewed() // else a heartbeat may be pending, whose look finds it first
	notFound := f.countAnswers(renews, http.StatusNotFound)
	require.NoError(t, consultest.Destroy(f.Servers, f.S.ID()))
	go f.hasten(f.S)
	state := must.Get(f.S.AwaitState(f.Ctx, backend.Live))(t)
	assert.Equal(t, backend.Lost, state)
	assert.NotZero(t, notFound.Load(), "it was not the renewal that said so")
	assert.True(t, time.Now().Before(f.S.Deadline()), "it waited for the window's end")
	_, err := f.S.Get(f.Ctx, f.Dir)
	require.ErrorIs(t, err, backend.ErrSessionLost)
	assert.Len(t, f.Sessions(), 1, "it was carried on in another")
}

// A session lives if a new leader of the servers does not find it yet; the reply is no renewal, and
// does not move the window.
func TestPitfall36NotFoundYet(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]consul.Config{
		"TTL":   {},
		"check": {Check: check, SessionTimeout: lasting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setUpOn(t, consultest.Options{Config: cfg}, sharedServer(t))
			e := f.Enqueue(f.S)
			states := f.recordStates()
			before := f.S.Deadline()
			renewals, remove := f.newLeader()
			go f.hasten(f.S)
			wait.For(t, "renewals", func() bool { return renewals.Load() >= 3 || f.S.State() == backend.Lost })
			after := f.S.Deadline()
			remove()
			f.AwaitState(f.S, backend.Live)
			f.renewed()
			assert.NotContains(t, states(), backend.Lost)
			if cfg.Check == 0 { // a check that is passed moves it
				assert.Equal(t, before, after)
			}
			f.Stands(f.S, e)
			assert.Len(t, f.Sessions(), 1, "it was carried on in another")
		})
	}
}

// Nor is it lost if nobody can confirm that, for as long as its window lasts.
func TestPitfall36NotFoundUnconfirmed(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	remove := f.handle(informs, answer(http.StatusInternalServerError, "Not ready to serve consistent reads"))
	reads := f.countAnswers(informs, http.StatusInternalServerError)
	require.NoError(t, consultest.Destroy(f.Servers, f.S.ID()))
	go f.hasten(f.S)
	wait.For(t, "attempts", func() bool { return reads.Load() >= 3 || f.S.State() == backend.Lost })
	assert.Equal(t, backend.Suspended, f.S.State())
	remove()
	state := must.Get(f.S.AwaitState(f.Ctx, backend.Suspended))(t)
	assert.Equal(t, backend.Lost, state)
	assert.True(t, time.Now().Before(f.S.Deadline()), "it waited for the window's end")
}

// Close does not believe a new leader which says that it has ended a session that it does not know.
func TestCloseAtANewLeader(t *testing.T) {
	t.Parallel()
	t.Run("ends it", func(t *testing.T) {
		t.Parallel()
		f := setUp(t)
		o := f.another()
		e := f.Enqueue(f.S)
		f.newLeader()
		remove := f.handle(destroys, answer(http.StatusOK, "true"))
		asked := f.countAnswers(destroys, http.StatusOK)
		closing := wait.Later(func() (struct{}, error) { return struct{}{}, f.S.Close(f.Ctx) })
		wait.For(t, "the first attempt", func() bool { return asked.Load() >= 1 })
		remove()
		wait.Value(f.T, closing)
		assert.False(t, exists(t, f.Servers, f.S.ID()), "Close said that it had ended")
		_, err := o.S.Get(o.Ctx, e.Key)
		require.ErrorIs(t, err, backend.ErrNoEntry)
	})
	t.Run("or says so", func(t *testing.T) {
		t.Parallel()
		f := setUp(t)
		f.newLeader()
		f.handle(destroys, answer(http.StatusOK, "true"))
		require.ErrorContains(t, f.S.Close(f.Ctx), "did not confirm")
		assert.True(t, exists(t, f.Servers, f.S.ID()))
	})
}
