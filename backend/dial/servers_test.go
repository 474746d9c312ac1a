package dial_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/services"
	"github.com/elector-go/elector/internal/wait"
)

func TestMain(m *testing.M) { os.Exit(servertest.Main(m)) }

// guarded is a Consul server that asks for tokens.
var guarded = servertest.Share(func() (*servertest.Consul, error) {
	return servertest.StartConsul(servertest.ConsulConfig{NoSync: true, ACL: true})
})

// win wins an election once by each URL, and checks that the tokens rise.
func win(t *testing.T, urls ...string) {
	t.Helper()
	last := uint64(0)
	for _, url := range urls {
		b := open(t, url)
		e := stand(t, b, "/jobs/report", elector.Hooks{})
		term, err := e.Campaign(t.Context())
		require.NoError(t, err, url)
		assert.Greater(t, term.Token(), last, url)
		last = term.Token()
		require.NoError(t, e.Close(t.Context()))
	}
}

// session opens a session at a URL, and closes it at the end of the test.
func session(t *testing.T, url string) *backend.Session {
	t.Helper()
	s := must.Get(open(t, url).Open(t.Context(), backend.OpenOptions{}))(t)
	t.Cleanup(func() { assert.NoError(t, s.Close(context.Background())) })
	return s
}

// exists reports which keys have an entry, as seen through the URL.
func exists(t *testing.T, url string, keys ...string) (there []bool) {
	t.Helper()
	s := session(t, url)
	for _, key := range keys {
		_, err := s.Get(t.Context(), key)
		if err != nil {
			require.ErrorIs(t, err, backend.ErrNoEntry)
		}
		there = append(there, err == nil)
	}
	return there
}

func TestZooKeeper(t *testing.T) {
	url := "zk://" + servertest.SharedZooKeeper(t).Addr()
	win(t, url+"/a/chroot", url+"/a/chroot?timeout=30s", url+"/a/chroot?tls=false")
	assert.Equal(t, []bool{false, true}, exists(t, url, "/jobs/report", "/a/chroot/jobs/report"))
	assert.Equal(t, 30*time.Second, session(t, url+"?timeout=30s").TTL())
}

func TestEtcd(t *testing.T) {
	server := servertest.EtcdForTest(t, servertest.EtcdConfig{NoSync: true})
	url := "etcd://" + server.Addr()
	win(t, url+"/a/prefix", url+"/a/prefix?timeout=30s", "etcd://127.0.0.1:1,"+server.Addr()+"/a/prefix")
	assert.Equal(t, []bool{false, true}, exists(t, url, "/jobs/report", "/a/prefix/jobs/report"))
	assert.Equal(t, 30*time.Second, session(t, url+"?timeout=30s").TTL())
}

func TestConsul(t *testing.T) {
	server := guarded.ForTest(t)
	t.Setenv("CONSUL_HTTP_ADDR", "127.0.0.1:1") // the URL wins
	t.Setenv("CONSUL_HTTP_SSL", "true")         // tls=false wins
	t.Setenv("CONSUL_HTTP_TOKEN", server.Token()+"\n")
	url := "consul://" + server.Addr() + "?tls=false"
	win(t, url, url+"&timeout=30s", url+"&check=30s")
	assert.Equal(t, 30*time.Second, session(t, url+"&timeout=30s").TTL())

	t.Setenv("CONSUL_HTTP_TOKEN", "")
	assert.ErrorIs(t, must.Err(open(t, url).Open(t.Context(), backend.OpenOptions{})), backend.ErrDenied)
}

// TestWithDialContext checks that a session of each service has no connections except those it was given:
// once they are cut and refused, the service ends it.
func TestWithDialContext(t *testing.T) {
	services.OnEach(t, func(t *testing.T, of services.Service) {
		t.Parallel() // it waits until the service has ended the session
		url := of.URL(of.ForTest(t).Addr(), 10*time.Second)
		line := new(services.Line)
		b := open(t, url, dial.WithDialContext(line.Dial))
		s := must.Get(b.Open(t.Context(), backend.OpenOptions{}))(t)
		made := must.Get(s.Commit(t.Context(), nil, backend.CreateEphemeral("/dialled", nil)))(t)
		other := session(t, url)

		line.Cut()
		assert.Zero(t, must.Get(other.Await(t.Context(), made...))(t)[0].Rev)
		assert.Equal(t, backend.Lost, must.Get(s.AwaitState(t.Context(), backend.Suspended))(t))
		line.Mend()
		_ = s.Close(t.Context()) // cannot be confirmed by a service that has ended it
	})
}

func TestMemory(t *testing.T) {
	win(t, "mem://a", "mem://a")
	win(t, "mem://") // a service of its own
	assert.Equal(t, []bool{true}, exists(t, "mem://a", "/jobs/report"))
	assert.Equal(t, []bool{false}, exists(t, "mem://b", "/jobs/report"))
	assert.Equal(t, []bool{false}, exists(t, "mem://", "/jobs/report"))
	assert.Same(t, open(t, "mem://a").Backend, open(t, "mem://a").Backend)
}

// TestTLS checks that sessions speak TLS, and refuse a server whose certificate nobody knows.
func TestTLS(t *testing.T) {
	for _, scheme := range services.Schemes() {
		listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer listener.Close()
		unknown := httptest.NewTLSServer(nil)
		defer unknown.Close()
		refused := make(chan error, 1)
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				err = tls.Server(conn, &tls.Config{Certificates: unknown.TLS.Certificates, NextProtos: []string{"h2"}}).Handshake()
				_ = conn.Close()
				if !errors.Is(err, io.EOF) { // otherwise the client has given up this link for the next
					refused <- err
					return
				}
			}
		}()
		ctx, cancel := context.WithCancel(t.Context())
		b := must.Get(dial.Open(t.Context(), scheme+"://"+listener.Addr().String()+"?tls=true"))(t)
		opening := wait.Later(func() (*backend.Session, error) { return b.Open(ctx, backend.OpenOptions{}) })
		assert.ErrorContains(t, <-refused, "remote error: tls: ", scheme)
		cancel()
		opened := <-opening
		assert.Nil(t, opened.V)
		assert.Error(t, opened.Err)
		assert.NoError(t, b.Close())
	}
}
