package nats_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/nats"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/loopback"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/fair"
)

// start starts a server in this process, on a free port of loopback, with its data in folder.
func start(t testing.TB, port int, folder string) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: folder, SyncAlways: true, NoSigs: true})
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(time.Minute))
	return s
}

// connect returns a JetStream on a connection of its own.
func connect(t testing.TB, url string) jetstream.JetStream {
	t.Helper()
	nc, err := natsgo.Connect(url, natsgo.MaxReconnects(-1), natsgo.ReconnectWait(100*time.Millisecond), natsgo.RetryOnFailedConnect(true))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return js
}

func bucket(t testing.TB, js jetstream.JetStream) string {
	t.Helper()
	name := fmt.Sprintf("elections-%d", time.Now().UnixNano())
	_, err := js.CreateKeyValue(context.Background(), jetstream.KeyValueConfig{Bucket: name})
	require.NoError(t, err)
	return name
}

func TestNew(t *testing.T) {
	require.ErrorContains(t, must.Err(nats.New(nil, nats.Config{Bucket: "x"})), "JetStream is nil")
	s := start(t, -1, t.TempDir())
	t.Cleanup(s.Shutdown)
	require.ErrorContains(t, must.Err(nats.New(connect(t, s.ClientURL()), nats.Config{})), "Config.Bucket is empty")
}

// Errors name what is wrong.
func TestErrors(t *testing.T) {
	s := start(t, -1, t.TempDir())
	t.Cleanup(s.Shutdown)
	js := connect(t, s.ClientURL())
	open := func(name string) error {
		b := must.Get(nats.New(js, nats.Config{Bucket: name}))(t)
		session, err := b.Open(t.Context(), backend.OpenOptions{})
		if err == nil {
			t.Cleanup(func() { _ = session.Close(context.Background()) })
		}
		return err
	}
	require.ErrorContains(t, open("missing"), "bucket missing does not exist")

	name := bucket(t, js)
	kv := must.Get(js.KeyValue(t.Context(), name))(t)
	must.Get(kv.PutString(t.Context(), "elector", "somebody's"))(t)
	require.ErrorContains(t, open(name), "holds no document of elector")
	assert.Equal(t, "somebody's", string(must.Get(kv.Get(t.Context(), "elector"))(t).Value()))
	require.NoError(t, kv.Delete(t.Context(), "elector"))
	require.NoError(t, open(name), "a deleted key is free")
}

// A session lives on while its server is restarted, and a waiting one hears of what happened after that.
func TestRestart(t *testing.T) {
	folder := t.TempDir()
	ports := must.Get(loopback.Ports(1))(t)
	t.Cleanup(func() { loopback.Release(ports...) })
	s := start(t, ports[0], folder)
	a, b := connect(t, s.ClientURL()), connect(t, s.ClientURL())
	name := bucket(t, a)
	open := func(js jetstream.JetStream) *backend.Session {
		session := must.Get(must.Get(nats.New(js, nats.Config{Bucket: name}))(t).Open(t.Context(), backend.OpenOptions{TTL: time.Minute}))(t)
		t.Cleanup(func() { _ = session.Close(context.Background()) })
		return session
	}
	writer, reader := open(a), open(b)
	made := must.Get(writer.Commit(t.Context(), nil, backend.CompareAndSet("/a", []byte("1"), 0)))(t)[0]
	heard := make(chan []backend.Entry, 1)
	go func() {
		now, err := reader.Await(t.Context(), made)
		if assert.NoError(t, err) {
			heard <- now
		}
	}()
	s.Shutdown()
	s.WaitForShutdown()
	s = start(t, ports[0], folder)
	t.Cleanup(s.Shutdown)
	after := must.Get(writer.Commit(t.Context(), nil, backend.Update(made, []byte("2"))))(t)[0]
	assert.True(t, after.Same((<-heard)[0]))
	assert.Equal(t, backend.Live, writer.State())
}

// The contract of package backend, on a server in this process.
func TestConformance(t *testing.T) {
	s := start(t, -1, t.TempDir())
	t.Cleanup(s.Shutdown)
	conformance.TestBackendParallel(t, service(t, s))
}

// An election, on a server in this process.
func TestElection(t *testing.T) {
	s := start(t, -1, t.TempDir())
	t.Cleanup(s.Shutdown)
	conformance.TestElection(t, conformance.ElectionConfig{Service: service(t, s), Strategy: fair.Strategy{}, Traits: conformance.Traits{Ordered: true, StepsAside: true, Lists: true}})
}

// service makes a service with a bucket of its own. Faults are tried on the simulated objects of package
// register's tests: here is what only a server can show.
func service(t *testing.T, s *server.Server) func(testing.TB) *conformance.Service {
	js := connect(t, s.ClientURL()) // outside the rules, which look for goroutines that stay
	return func(t testing.TB) *conformance.Service {
		name := bucket(t, js)
		return &conformance.Service{
			Name: "nats " + server.VERSION, Root: "/conformance", TTL: 10 * time.Second,
			Client: func(t testing.TB) *conformance.Client {
				own := connect(t, s.ClientURL())
				b, err := nats.New(own, nats.Config{Bucket: name})
				require.NoError(t, err)
				return &conformance.Client{Backend: b, Close: own.Conn().Close}
			},
			Why: map[string]string{conformance.Rest: "package register's tests try it"},
		}
	}
}
