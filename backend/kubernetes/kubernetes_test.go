package kubernetes_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/kubernetes"
	"github.com/elector-go/elector/backend/register"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
)

func TestNew(t *testing.T) {
	leases, _ := serve(t).client(t)
	require.ErrorContains(t, must.Err(kubernetes.New(kubernetes.Config{Name: "x"})), "Config.Leases is nil")
	require.ErrorContains(t, must.Err(kubernetes.New(kubernetes.Config{Leases: leases})), "Config.Name is empty")
	require.ErrorContains(t, must.Err(kubernetes.New(kubernetes.Config{Leases: leases, Name: "a/b"})), `the name of the Lease, "a/b"`)
	require.ErrorContains(t, must.Err(kubernetes.Connect(nil, "shop", "worker")), "rest.Config is nil")
	require.ErrorContains(t, must.Err(kubernetes.Connect(&rest.Config{}, "", "worker")), "namespace of Lease worker is empty")
	require.ErrorContains(t, must.Err(kubernetes.InCluster("worker")), "in-cluster")
}

// open opens a session on a server's Lease "worker".
func (s *server) open(t testing.TB) (*backend.Session, error) {
	leases, idle := s.client(t)
	session, err := must.Get(kubernetes.New(kubernetes.Config{Leases: leases, Name: "worker"}))(t).Open(t.Context(), backend.OpenOptions{TTL: time.Minute})
	t.Cleanup(idle)
	if err == nil {
		t.Cleanup(func() { _ = session.Close(context.Background()) })
	}
	return session, err
}

// lease makes a Lease, or changes it, as another client does.
func (s *server) lease(t testing.TB, lease object) {
	code, said := s.do(http.MethodPost, "", encoded(merge(object{"metadata": object{"name": "worker"}}, lease)))
	if code == http.StatusConflict {
		code, said = s.do(http.MethodPatch, "worker", encoded(merge(object{"metadata": object{"resourceVersion": meta(s.now("worker"))["resourceVersion"]}}, lease)))
	}
	require.Less(t, code, 300, "%v", said)
}

func (s *server) now(name string) object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leases[name]
}

// A Lease that a manifest makes is used, and what others keep there stays.
func TestLeaseOfAManifest(t *testing.T) {
	s := serve(t)
	s.lease(t, object{"metadata": object{"labels": object{"app": "shop"}, "annotations": object{"team": "a"}}})
	session := must.Get(s.open(t))(t)
	s.lease(t, object{"metadata": object{"labels": object{"more": "yes"}}})
	must.Get(session.Commit(t.Context(), nil, backend.CompareAndSet("/a", []byte("1"), 0)))(t)
	now := s.now("worker")
	assert.Equal(t, object{"app": "shop", "more": "yes"}, meta(now)["labels"])
	assert.Equal(t, "a", annotations(now)["team"])
	require.NoError(t, session.Close(t.Context()))
	assert.Empty(t, s.now("worker")["spec"].(object)["holderIdentity"], "client-go may have it now")
}

// Nothing of somebody else's is overwritten, and the error says whose it is.
func TestForeign(t *testing.T) {
	for name, c := range map[string]struct {
		lease object
		says  string
	}{
		"held by client-go":     {object{"spec": object{"holderIdentity": "operator-1"}}, `the Lease worker is held by "operator-1"`},
		"taken by client-go":    {object{"metadata": object{"annotations": object{kubernetes.Holder: "a"}}, "spec": object{"holderIdentity": "b"}}, `is held by "b"`},
		"another document":      {object{"metadata": object{"annotations": object{kubernetes.Document: `{"a": 1}`}}}, "holds no document of elector"},
		"no JSON":               {object{"metadata": object{"annotations": object{kubernetes.Document: `{"elector"`}}}, "holds no document of elector"},
		"empty":                 {object{"metadata": object{"annotations": object{kubernetes.Document: ""}}}, "holds no document of elector"},
		"of a later version":    {object{"metadata": object{"annotations": object{kubernetes.Document: `{"elector": 99}`}}}, "format 99"},
		"released by client-go": {object{"spec": object{"holderIdentity": ""}}, ""},
		"cleared by hand":       {object{"metadata": object{"annotations": object{kubernetes.Holder: "elector: a"}}, "spec": object{"holderIdentity": ""}}, ""},
		"client-go has our ID":  {object{"metadata": object{"annotations": object{kubernetes.Holder: "elector: a"}}, "spec": object{"holderIdentity": "a"}}, `is held by "a"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			s.lease(t, c.lease)
			before := s.now("worker")
			_, err := s.open(t)
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
			assert.Equal(t, before, s.now("worker"))
		})
	}
}

// client-go takes the Lease of a session that lives: the session writes nothing more, and says why.
func TestTaken(t *testing.T) {
	s := serve(t)
	session := must.Get(s.open(t))(t)
	must.Get(session.Commit(t.Context(), nil, backend.CompareAndSet("/a", nil, 0)))(t)
	s.lease(t, object{"spec": object{"holderIdentity": "operator-1"}})
	taken := s.now("worker")
	_, err := session.Commit(t.Context(), nil, backend.CompareAndSet("/b", nil, 0))
	require.ErrorContains(t, err, `"operator-1"`)
	assert.Equal(t, taken, s.now("worker"))
}

// Errors of the API server say what happened.
func TestRefused(t *testing.T) {
	const forbidden = `leases.coordination.k8s.io "worker" is forbidden: User "u" cannot %s resource "leases" in API group "coordination.k8s.io" in the namespace "shop"`
	for name, c := range map[string]struct {
		refuse func(*http.Request) *status
		is     error
		says   string
	}{
		"get": {func(r *http.Request) *status {
			return only(r, http.MethodGet, refusal(http.StatusForbidden, "Forbidden", fmt.Sprintf(forbidden, "get")))
		}, backend.ErrDenied, "cannot get resource"},
		"create": {func(r *http.Request) *status {
			return only(r, http.MethodPost, refusal(http.StatusForbidden, "Forbidden", fmt.Sprintf(forbidden, "create")))
		}, backend.ErrDenied, "cannot create resource"},
		"who": {func(*http.Request) *status {
			return refusal(http.StatusUnauthorized, "Unauthorized", "Unauthorized")
		}, backend.ErrDenied, "Unauthorized"},
		"no namespace": {func(r *http.Request) *status {
			return only(r, http.MethodPost, refusal(http.StatusNotFound, "NotFound", `namespaces "shop" not found`))
		}, backend.ErrUnavailable, `namespaces "shop" not found`},
		"a name": {func(*http.Request) *status {
			return refusal(http.StatusUnprocessableEntity, "Invalid", "policy says no")
		}, backend.ErrUnavailable, "policy says no"},
		"not ready": {func(*http.Request) *status {
			return refusal(http.StatusForbidden, "Forbidden", "not yet ready to handle request")
		}, backend.ErrUnavailable, "not yet ready"},
		"server error": {func(*http.Request) *status {
			return refusal(http.StatusInternalServerError, "InternalError", "etcdserver: no leader")
		}, backend.ErrUnavailable, "etcdserver: no leader"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			s.refuse = c.refuse
			_, err := s.open(t)
			require.ErrorIs(t, err, c.is)
			require.ErrorContains(t, err, c.says)
		})
	}
}

func only(r *http.Request, method string, no *status) *status {
	if r.Method != method || r.URL.Query().Get("watch") != "" {
		return nil
	}
	return no
}

// Who answers in the API server's place says nothing about the Lease.
func TestAnsweredByAProxy(t *testing.T) {
	s := serve(t)
	session := must.Get(s.open(t))(t)
	made := must.Get(session.Commit(t.Context(), nil, backend.CompareAndSet("/a", nil, 0)))(t)
	for _, code := range []int{http.StatusNotFound, http.StatusConflict, http.StatusForbidden, http.StatusServiceUnavailable} {
		var times atomic.Int32
		times.Store(3)
		s.answer(func(w http.ResponseWriter, r *http.Request) bool {
			if times.Add(-1) < 0 {
				return false
			}
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(code)
			return true
		})
		made = must.Get(session.Commit(t.Context(), nil, backend.Update(made[0], []byte(fmt.Sprint(code)))))(t)
		assert.Negative(t, times.Load())
	}
}

// A client that Connect has not made sends a write again after a server error. The first may have been done, though
// the second is refused.
func TestSentTwice(t *testing.T) {
	s := serve(t)
	session := must.Get(s.open(t))(t)
	var sent, asked atomic.Int32
	s.answer(func(w http.ResponseWriter, r *http.Request) bool {
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !bytes.Contains(body, []byte("/thing")) || sent.Add(1) > 1 {
			if sent.Load() > 1 && r.Method == http.MethodGet && r.URL.Query().Get("watch") == "" {
				asked.Add(1)
			}
			if sent.Load() > 0 {
				answer(w, http.StatusTooManyRequests, refusal(http.StatusTooManyRequests, "TooManyRequests", "too many requests"))
			}
			return sent.Load() > 0
		}
		code, said := s.do(r.Method, "worker", body)
		assert.Equal(t, http.StatusOK, code, "%v %v", said, err)
		w.Header().Set("Retry-After", "0")
		answer(w, http.StatusInternalServerError, refusal(http.StatusInternalServerError, "ServerTimeout", "etcdserver: request timed out"))
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	made := wait.Later(func() ([]backend.Entry, error) {
		return session.Commit(ctx, nil, backend.CompareAndSet("/thing", nil, 0))
	})
	wait.For(t, "it is sent again, and the session asks whether it was done", func() bool { return asked.Load() > 0 })
	cancel()
	wait.Fails(t, made, backend.ErrIndeterminate)
	s.answer(nil)
}

// A webhook that takes back what was written leads nobody to believe that it has written.
func TestNotKept(t *testing.T) {
	s := serve(t)
	s.lease(t, object{})
	s.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch {
			answer(w, http.StatusOK, s.now("worker"))
		}
		return r.Method == http.MethodPatch
	})
	_, err := s.open(t)
	require.ErrorContains(t, err, "look for an admission webhook")
}

// A connection that is dead ends no session: requests go by another one. Its watch ends, too.
func TestDeadConnection(t *testing.T) {
	t.Parallel()
	s := serve(t)
	proxy := proxytest.ForTest(t, s.Listener.Addr().String())
	config := must.Get(kubernetes.Connect(&rest.Config{Host: "https://" + proxy.Addr(), TLSClientConfig: rest.TLSClientConfig{Insecure: true}, ContentConfig: spoken}, "shop", "worker"))(t)
	session := must.Get(must.Get(kubernetes.New(config))(t).Open(t.Context(), backend.OpenOptions{TTL: time.Minute}))(t)
	defer func() { _ = session.Close(context.Background()) }()
	made := must.Get(session.Commit(t.Context(), nil, backend.CompareAndSet("/a", nil, 0)))(t)
	for i := range 2 {
		for _, link := range proxy.Links() {
			link.Stall()
		}
		made = must.Get(session.Commit(t.Context(), nil, backend.Update(made[0], []byte{byte(i)})))(t)
	}
	assert.Greater(t, proxy.Accepted(), 2)
}

// connect returns a Backend with a client of Connect's.
func (s *server) connect(t testing.TB) *register.Backend {
	config := must.Get(kubernetes.Connect(&rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, ContentConfig: spoken}, "shop", "worker"))(t)
	t.Cleanup(config.Close)
	return must.Get(kubernetes.New(config))(t)
}

// An API server that refuses for a moment ends no session, and the error says that it refuses.
func TestOverloaded(t *testing.T) {
	t.Parallel()
	s := serve(t)
	b := s.connect(t)
	session := must.Get(b.Open(t.Context(), backend.OpenOptions{TTL: 20 * time.Second}))(t)
	defer func() { _ = session.Close(context.Background()) }()
	var full atomic.Bool
	s.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if full.Load() {
			w.Header().Set("Retry-After", "32")
			answer(w, http.StatusTooManyRequests, refusal(http.StatusTooManyRequests, "TooManyRequests", "too many requests"))
		}
		return full.Load()
	})
	for range 2 {
		full.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, err := b.Open(ctx, backend.OpenOptions{})
		cancel()
		require.ErrorContains(t, err, "too many requests")
		require.Equal(t, backend.Suspended, must.Get(session.AwaitState(t.Context(), backend.Live))(t), "a heartbeat is refused")
		full.Store(false)
		require.Equal(t, backend.Live, must.Get(session.AwaitState(t.Context(), backend.Suspended))(t))
	}
}

// A token that expires in mid-session is one that will be renewed: what is refused meanwhile is done later.
func TestTokenIsRenewed(t *testing.T) {
	s := serve(t)
	var expired atomic.Int32
	s.refuse = func(*http.Request) *status {
		if expired.Add(-1) < 0 {
			return nil
		}
		return refusal(http.StatusUnauthorized, "Unauthorized", "Unauthorized")
	}
	session := must.Get(s.open(t))(t)
	expired.Store(5)
	must.Get(session.Commit(t.Context(), nil, backend.CompareAndSet("/a", nil, 0)))(t)
	assert.Negative(t, expired.Load())
}

func TestTooLarge(t *testing.T) {
	s := serve(t)
	session := must.Get(s.open(t))(t)
	require.ErrorIs(t, must.Err(session.Commit(t.Context(), nil, backend.CompareAndSet("/a", make([]byte, 200<<10), 0))), backend.ErrTooLarge)
	s.lease(t, object{"metadata": object{"annotations": object{"others": strings.Repeat("x", 200<<10)}}})
	require.ErrorIs(t, must.Err(session.Commit(t.Context(), nil, backend.CompareAndSet("/a", make([]byte, 100<<10), 0))), backend.ErrTooLarge)
	must.Get(session.Commit(t.Context(), nil, backend.CompareAndSet("/a", nil, 0)))(t)
}

// One that waits hears of changes though watches end in all the ways that they can.
func TestWatch(t *testing.T) {
	for name, end := range map[string]func(*server, *atomic.Bool){
		"it ends": func(s *server, _ *atomic.Bool) { s.cut(nil) },
		"its version is gone": func(s *server, _ *atomic.Bool) {
			s.cut(&event{"ERROR", refusal(http.StatusGone, "Expired", "too old resource version")})
		},
		"there are too many":      func(s *server, no *atomic.Bool) { no.Store(true); s.cut(nil) },
		"an event is of no Lease": func(s *server, _ *atomic.Bool) { s.cut(&event{"MODIFIED", object{"kind": "Pod", "apiVersion": "v1"}}) },
		"bookmarks": func(s *server, _ *atomic.Bool) {
			s.cut(&event{"BOOKMARK", object{"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": object{"resourceVersion": "7"}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			var many atomic.Bool
			s.refuse = func(r *http.Request) *status {
				if many.Load() && r.URL.Query().Get("watch") != "" {
					return refusal(http.StatusTooManyRequests, "TooManyRequests", "too many watches")
				}
				return nil
			}
			writer, reader := must.Get(s.open(t))(t), must.Get(s.open(t))(t)
			made := must.Get(writer.Commit(t.Context(), nil, backend.CompareAndSet("/a", nil, 0)))(t)
			for i := range 3 {
				heard := make(chan []backend.Entry, 1)
				go func() {
					now, err := reader.Await(t.Context(), made...)
					assert.NoError(t, err)
					heard <- now
				}()
				end(s, &many)
				next := must.Get(writer.Commit(t.Context(), nil, backend.Update(made[0], []byte{byte(i)})))(t)
				made = <-heard
				assert.True(t, next[0].Same(made[0]))
			}
		})
	}
}

// A watch that breaks is set again, and nobody has to act.
func TestWatchBreaks(t *testing.T) {
	s := serve(t)
	var said wait.Log
	leases, idle := s.client(t)
	defer idle()
	b := must.Get(kubernetes.New(kubernetes.Config{Leases: leases, Name: "worker", Logger: slog.New(slog.NewTextHandler(&said, nil))}))(t)
	session := must.Get(b.Open(t.Context(), backend.OpenOptions{TTL: time.Minute}))(t)
	wait.For(t, "a watch is set", s.watched)
	s.cut(&event{"ERROR", refusal(http.StatusInternalServerError, "InternalError", "unable to decode an event from the watch stream")})
	wait.For(t, "another is set", s.watched)
	require.NoError(t, session.Close(t.Context()))
	assert.NotContains(t, said.String(), "a watch cannot be set")
}

// A right to watch that is missing is said once, and the election works by reading.
func TestNoRightToWatch(t *testing.T) {
	s := serve(t)
	var refused atomic.Int32
	s.refuse = func(r *http.Request) *status {
		if r.URL.Query().Get("watch") == "" {
			return nil
		}
		refused.Add(1)
		return refusal(http.StatusForbidden, "Forbidden", `cannot watch resource "leases"`)
	}
	var said wait.Log
	leases, idle := s.client(t)
	defer idle()
	b := must.Get(kubernetes.New(kubernetes.Config{Leases: leases, Name: "worker", Logger: slog.New(slog.NewTextHandler(&said, nil))}))(t)
	reader := must.Get(b.Open(t.Context(), backend.OpenOptions{TTL: time.Minute}))(t)
	reading := wait.Later(func() ([]backend.Entry, error) { return reader.Await(t.Context(), backend.Entry{Key: "/a"}) })
	wait.For(t, "it is said", func() bool { return said.Has(`cannot watch resource`) })
	wait.For(t, "it is refused again, and once more", func() bool { return refused.Load() > 2 })
	writer := must.Get(s.open(t))(t)
	must.Get(writer.Commit(t.Context(), nil, backend.CompareAndSet("/a", nil, 0)))(t)
	assert.True(t, wait.Value(t, reading)[0].Exists())
	require.NoError(t, reader.Close(t.Context()))
	assert.Equal(t, 1, strings.Count(said.String(), "a watch cannot be set"), said.String())
}

// An operator deletes the Lease: all sessions end, and tokens rise all the same.
func TestDeleted(t *testing.T) {
	s := serve(t)
	session := must.Get(s.open(t))(t)
	before := must.Get(session.Commit(t.Context(), nil, backend.CompareAndSet("/a", nil, 0)))(t)[0]
	s.delete("worker")
	for state := backend.Live; state != backend.Lost; {
		state = must.Get(session.AwaitState(t.Context(), state))(t)
	}
	after := must.Get(must.Get(s.open(t))(t).Commit(t.Context(), nil, backend.CompareAndSet("/a", nil, 0)))(t)[0]
	assert.Greater(t, after.Rev, before.Rev)
}

// After a restore of etcd a watch begins with the Lease as it was before, until the API server is restarted or etcd's
// revision has passed the old one.
func TestRestored(t *testing.T) {
	s := serve(t)
	before := must.Get(s.open(t))(t)
	must.Get(before.Commit(t.Context(), nil, backend.CompareAndSet("/a", nil, 0)))(t)
	lease := s.now("worker")
	document := strings.Replace(annotations(lease)[kubernetes.Document].(string), `"seq":`, `"seq":1000`, 1)
	require.NoError(t, before.Close(t.Context()))
	s.mu.Lock()
	s.first = merge(lease, object{"metadata": object{"resourceVersion": "1000000", "annotations": object{kubernetes.Document: document}}})
	s.mu.Unlock()
	session := must.Get(s.open(t))(t)
	for i := range uint64(20) {
		must.Get(session.Commit(t.Context(), nil, backend.CompareAndSet("/b", nil, i)))(t)
		time.Sleep(10 * time.Millisecond)
	}
	assert.Equal(t, backend.Live, session.State())
}

// An operator puts an earlier document into the Lease: sessions that it does not know end at once, and not with their
// next heartbeat.
func TestEarlierDocument(t *testing.T) {
	for name, document := range map[string]string{"earlier": "", "empty": `{"elector":1}`} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			must.Get(s.open(t))(t)
			if document == "" {
				document, _ = annotations(s.now("worker"))[kubernetes.Document].(string)
			}
			session := must.Get(s.open(t))(t)
			must.Get(session.Commit(t.Context(), nil, backend.CompareAndSet("/a", nil, 0)))(t)
			wait.For(t, "both watch", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return len(s.watches) == 2
			})
			back := time.Now()
			s.lease(t, object{"metadata": object{"annotations": object{kubernetes.Document: document}}})
			for state := backend.Live; state != backend.Lost; {
				state = must.Get(session.AwaitState(t.Context(), state))(t)
			}
			assert.Less(t, time.Since(back), 5*time.Second)
		})
	}
}

// The spec shows who leads.
func TestMirror(t *testing.T) {
	s := serve(t)
	leases, idle := s.client(t)
	defer idle()
	lead := func(id string) (*elector.Term, elector.Elector) {
		e := must.Get(elector.New(elector.Config{Backend: must.Get(kubernetes.New(kubernetes.Config{Leases: leases, Name: "worker"}))(t),
			Strategy: fair.Strategy{}, Election: "/jobs", ID: id, TTL: 10 * time.Second}))(t)
		return must.Get(e.Campaign(t.Context()))(t), e
	}
	spec := func(holder string) object {
		var now object
		require.Eventually(t, func() bool {
			now, _ = s.now("worker")["spec"].(object)
			return now["holderIdentity"] == holder
		}, time.Minute, time.Millisecond)
		return now
	}
	_, e := lead("a")
	first := spec("elector: a")
	assert.EqualValues(t, 11, first["leaseDurationSeconds"])
	require.NoError(t, e.Close(t.Context()))
	assert.EqualValues(t, 1, spec("")["leaseDurationSeconds"])
	_, e = lead("b")
	second := spec("elector: b")
	assert.EqualValues(t, first["leaseTransitions"].(float64)+1, second["leaseTransitions"])
	for _, field := range []string{"acquireTime", "renewTime"} {
		assert.Greater(t, second[field], first[field], field)
	}
	require.NoError(t, e.Close(t.Context()))
}

// elector doctor says what is wrong.
func TestExamine(t *testing.T) {
	s := serve(t)
	var no atomic.Bool
	s.refuse = func(r *http.Request) *status {
		if no.Load() && r.URL.Query().Get("watch") != "" {
			return refusal(http.StatusForbidden, "Forbidden", "no")
		}
		return nil
	}
	leases, idle := s.client(t)
	defer idle()
	b := must.Get(kubernetes.New(kubernetes.Config{Leases: leases, Name: "worker"}))(t)
	for _, f := range must.Get(b.Examine(t.Context()))(t) {
		assert.Empty(t, f.Do, f.Check)
	}
	no.Store(true)
	s.lease(t, object{"metadata": object{"annotations": object{kubernetes.Document: strings.Repeat("x", 150<<10)}}})
	found := must.Get(b.Examine(t.Context()))(t)
	assert.Contains(t, found[0].Do, "shorter values")
	assert.Contains(t, found[1].Do, "grant the verb watch")
}

// The contract of package backend, on the test's own server.
func TestConformance(t *testing.T) { conformance.TestBackendParallel(t, service(t)) }

// An election, on the test's own server.
func TestElection(t *testing.T) {
	conformance.TestElection(t, conformance.ElectionConfig{Service: service(t), Strategy: fair.Strategy{}, Traits: conformance.Traits{Ordered: true, StepsAside: true, Lists: true}})
}

// service makes a service with a Lease of its own. Faults are tried on the simulated objects of package
// register's tests.
func service(t *testing.T) func(testing.TB) *conformance.Service {
	s := serve(t)
	var leases atomic.Int32
	return func(t testing.TB) *conformance.Service {
		name := fmt.Sprintf("lease-%d", leases.Add(1))
		return serviceOn(name, s.client)
	}
}

func serviceOn(name string, connect func(testing.TB) (client.LeaseInterface, func())) *conformance.Service {
	return &conformance.Service{
		Name: "kubernetes", Root: "/conformance", TTL: 10 * time.Second, MaxValue: 50 << 10, // the document holds several, in base64
		Client: func(t testing.TB) *conformance.Client {
			leases, close := connect(t)
			b, err := kubernetes.New(kubernetes.Config{Leases: leases, Name: name})
			require.NoError(t, err)
			return &conformance.Client{Backend: b, Close: close}
		},
		Why: map[string]string{conformance.Rest: "package register's tests try it"},
	}
}
