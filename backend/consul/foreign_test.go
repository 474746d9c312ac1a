package consul_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/catalog"
)

// What stands between client and agent may have no route for a moment, and says "not found",
// or that there is nothing. Consul's own answer to that bears an index.
func TestNothingFromBetween(t *testing.T) {
	t.Parallel()
	for _, answer := range []struct {
		status int
		text   string
	}{
		{http.StatusNotFound, "404 page not found\n"},
		{http.StatusOK, "[]"},
		{http.StatusOK, "[null]"},
		{http.StatusOK, "null"},
	} {
		t.Run(http.StatusText(answer.status)+" "+answer.text, func(t *testing.T) {
			t.Parallel()
			f := setUp(t)
			e := f.enqueue(f.s)
			between := func(match func(*http.Request) bool, n int64) (said *atomic.Int64, remove func()) {
				said = new(atomic.Int64)
				return said, f.Intercept(func(request *http.Request, _ []byte, send consultest.Send) (*http.Response, error) {
					if match(request) && said.Add(1) <= n {
						return consultest.Answer(answer.status, answer.text), nil
					}
					return send()
				})
			}
			reads := func(r *http.Request) bool { return r.Method == http.MethodGet && path(r, "kv/") }
			for name, check := range map[string]func() error{
				"get": func() error {
					got, err := f.s.Get(f.ctx, e.Key)
					assert.True(t, got.Same(e))
					return err
				},
				"list": func() error {
					l, err := f.s.List(f.ctx, f.dir)
					assert.Equal(t, []string{e.Key}, l.Keys)
					return err
				},
				"survey": func() error {
					_, strangers, err := f.s.Survey(f.ctx, f.dir, nil)
					assert.Equal(t, []string{e.Key}, strangers)
					return err
				},
				"await": func() error {
					now, err := f.s.Await(f.ctx, backend.Unknown(e.Key))
					assert.True(t, err != nil || now[0].Same(e))
					return err
				},
				"delete": func() error {
					dir, err := f.s.Get(f.ctx, f.dir)
					if err == nil {
						_, err = f.s.Commit(f.ctx, nil, backend.Delete(dir))
						assert.ErrorIs(t, err, backend.ErrConflict, "it has children")
						err = nil
					}
					return err
				},
			} {
				said, remove := between(reads, 3)
				require.NoError(t, check(), name)
				assert.GreaterOrEqual(t, said.Load(), int64(3), name)
				remove()
			}
			// Nor is the session over because something knows neither it nor that it was looked for.
			renewals := func(r *http.Request) bool { return renews(r) || informs(r) }
			states := f.recordStates()
			said, remove := between(renewals, 4)
			go f.hasten(f.s)
			wait.For(t, "renewals", func() bool { return said.Load() > 4 || f.s.State() == backend.Lost })
			remove()
			f.awaitState(backend.Live)
			assert.NotContains(t, states(), backend.Lost)
			// And to have looked takes an answer of Consul's.
			awaiting := f.awaitList(backend.Listing{Dir: newRoot()})
			_, remove = between(func(r *http.Request) bool { return r.URL.Query().Has("keys") }, 1<<30)
			go f.hasten(f.s)
			f.awaitState(backend.Suspended)
			remove()
			f.awaitState(backend.Live)
			select {
			case a := <-awaiting:
				t.Fatalf("%+v", a)
			default:
			}
		})
	}
}

// So a leader leads on, and who waits keeps its place.
func TestElectionBehindWhatHasNoRoute(t *testing.T) {
	t.Parallel()
	for _, item := range catalog.All() {
		strategy := item.Strategy
		t.Run(strategy.Name(), func(t *testing.T) {
			t.Parallel()
			f, o := processOn(t, consultest.Options{}, sharedServer(t)), processOn(t, consultest.Options{}, sharedServer(t))
			ofLeader, ofSecond := cuttable(f), cuttable(o)
			election := newRoot()
			leader := f.stand(f.Backend, strategy, election)
			term := f.campaign(leader)
			second := o.stand(o.Backend, strategy, election)
			waiting := later(func() (*elector.Term, error) { return second.Campaign(o.ctx) })
			wait.For(t, "it waits", func() bool {
				all, err := leader.Candidates(f.ctx)
				return err == nil && (len(all) == 2 || !item.Lists)
			})
			for p, links := range map[*fixture]*links{f: ofLeader, o: ofSecond} {
				links.hang(t)
				var said atomic.Int64
				p.Intercept(func(request *http.Request, _ []byte, send consultest.Send) (*http.Response, error) {
					if path(request, "kv/") && said.Add(1) <= 6 {
						return consultest.Answer(http.StatusNotFound, "404 page not found\n"), nil
					}
					return send()
				})
				links.cut()
				wait.For(t, "it asks until it is told", func() bool { return said.Load() > 6 })
			}
			require.NoError(t, term.Context().Err())
			_, err := term.Commit(f.ctx, elector.Put(election+"-state", nil))
			require.NoError(t, err)
			require.NoError(t, term.Resign(f.ctx))
			next, err := receive(o, waiting)
			require.NoError(t, err)
			assert.Greater(t, next.Token(), term.Token())
		})
	}
}

// A write of which nothing that is known says that it was not done is not told as such, though
// the session has ended by when it is looked for.
func TestWriteWithoutAWord(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(send consultest.Send) (*http.Response, error){
		"an answer that says nothing": func(send consultest.Send) (*http.Response, error) {
			response, err := send()
			if err == nil {
				_ = response.Body.Close()
				response = consultest.Answer(http.StatusOK, "null")
			}
			return response, err
		},
		"sent twice": func(send consultest.Send) (*http.Response, error) {
			response, err := send()
			if err == nil {
				_ = response.Body.Close()
				response = consultest.Answer(http.StatusConflict, `{"Results":null,"Errors":[{"OpIndex":0,"What":"key \".elector/x/0\" exists"}]}`)
			}
			return response, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := processOn(t, consultest.Options{}, sharedServer(t))
			f.s = f.open()
			key := newRoot()
			_, err := f.operator().KV().Put(&api.KVPair{Key: backend.Parent(key)[1:]}, nil)
			require.NoError(t, err)
			f.Intercept(func(request *http.Request, body []byte, send consultest.Send) (*http.Response, error) {
				if !verbs(api.KVCAS)(request, body) {
					return send()
				}
				response, err := answer(send)
				assert.NoError(t, consultest.Destroy(f.Servers, f.s.ID()))
				return response, err
			})
			_, err = f.s.Commit(f.ctx, nil, backend.CompareAndSet(key, nil, 0)) // its first: the slot is made
			require.ErrorIs(t, err, backend.ErrSessionLost)
			require.ErrorIs(t, err, backend.ErrIndeterminate)
			written, _, err := f.operator().KV().Get(key[1:], nil)
			require.NoError(t, err)
			assert.NotNil(t, written)
		})
	}
}

// An answer in which something is null that never is says nothing: it is asked for again, and
// a write is looked for.
func TestNullInAnswers(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	e := f.enqueue(f.s)
	null := func(match func(*http.Request, []byte) bool, status int, text string) (remove func()) {
		var said atomic.Int64
		return f.Intercept(func(request *http.Request, body []byte, send consultest.Send) (*http.Response, error) {
			response, err := send()
			if err != nil || !match(request, body) || said.Add(1) > 2 {
				return response, err
			}
			_ = response.Body.Close()
			answer := consultest.Answer(status, text)
			answer.Header = response.Header.Clone()
			answer.Header.Del("Content-Length")
			return answer, nil
		})
	}
	txns := func(request *http.Request, body []byte) bool { return consultest.Txn(request, body) != nil }
	for _, answer := range []struct {
		status int
		text   string
	}{
		{http.StatusOK, `{"Results":[null]}`},
		{http.StatusOK, `{"Errors":[null]}`},
		{http.StatusConflict, `{"Errors":[null]}`},
	} {
		remove := null(txns, answer.status, answer.text)
		made := f.commit(f.s, backend.CompareAndSet(newChild(f.dir), []byte("x"), 0))
		remove()
		got, err := f.s.Get(f.ctx, made[0].Key)
		require.NoError(t, err, answer.text)
		assert.True(t, got.Same(made[0]), answer.text)

		remove = null(txns, answer.status, answer.text)
		_, strangers, err := f.s.Survey(f.ctx, f.dir, nil)
		remove()
		require.NoError(t, err, answer.text)
		assert.Equal(t, []string{e.Key}, strangers, answer.text)

		remove = null(txns, answer.status, answer.text)
		_, err = f.s.Commit(f.ctx, []backend.Condition{backend.IfExists(e)})
		remove()
		require.NoError(t, err, answer.text)
	}
	remove := null(query("recurse", true), http.StatusOK, "[null]")
	l, err := f.s.List(f.ctx, f.dir)
	remove()
	require.NoError(t, err)
	assert.Equal(t, []string{e.Key}, l.Keys)
}
