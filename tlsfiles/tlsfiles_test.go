package tlsfiles_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/etcd"
	"github.com/elector-go/elector/internal/certtest"
	"github.com/elector-go/elector/internal/loopback"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/tlsfiles"
)

func TestMain(m *testing.M) { os.Exit(servertest.Main(m)) }

// of returns the files that a client needs.
func of(f certtest.Files) tlsfiles.Files { return tlsfiles.Files{CA: f.CA, Cert: f.Cert, Key: f.Key} }

// The servers' authority is replaced by another one, and all certificates with it, under a session of each
// service. The session continues: its next link has the new files.
func TestSessionsOutliveTheAuthority(t *testing.T) {
	servertest.Long(t, "three servers that are restarted")
	const timeout = 30 * time.Second
	type server interface{ Restart() error }
	for name, start := range map[string]func(t *testing.T, port int, s certtest.Files, c tlsfiles.Files) (server, backend.Backend){
		"zookeeper": func(t *testing.T, port int, s certtest.Files, c tlsfiles.Files) (server, backend.Backend) {
			b := must.Get(newZooKeeper([]string{fmt.Sprintf("127.0.0.1:%d", port)}, c))(t)
			return servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, Extra: []string{
				fmt.Sprintf("secureClientPort=%d", port), "secureClientPortAddress=127.0.0.1",
				"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
				"ssl.keyStore.location=" + s.Both, "ssl.keyStore.type=PEM", "ssl.trustStore.location=" + s.CA, "ssl.trustStore.type=PEM",
			}}), b
		},
		"etcd": func(t *testing.T, port int, s certtest.Files, c tlsfiles.Files) (server, backend.Backend) {
			url := fmt.Sprintf("https://127.0.0.1:%d", port)
			client, b, err := newEtcd([]string{url}, timeout, c)
			require.NoError(t, err)
			t.Cleanup(func() { _ = client.Close() })
			return servertest.EtcdForTest(t, servertest.EtcdConfig{NoSync: true, Listen: []string{url},
				Args: []string{"--cert-file", s.Cert, "--key-file", s.Key, "--client-cert-auth", "--trusted-ca-file", s.CA}}), b
		},
		"consul": func(t *testing.T, port int, s certtest.Files, c tlsfiles.Files) (server, backend.Backend) {
			b := must.Get(newConsul(fmt.Sprintf("127.0.0.1:%d", port), c))(t)
			return servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true, Config: fmt.Sprintf(
				`ports { https = %d } tls { https { ca_file = %q, cert_file = %q, key_file = %q, verify_incoming = true } }`,
				port, s.CA, s.Cert, s.Key)}), b
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			theirs, ours := t.TempDir(), t.TempDir()
			write := func() (s, c certtest.Files) {
				a := must.Get(certtest.New())(t)
				return must.Get(a.Write(theirs, "server"))(t), must.Get(a.Write(ours, "client"))(t)
			}
			s, c := write()
			ports := must.Get(loopback.Ports(1))(t)
			t.Cleanup(func() { loopback.Release(ports...) })
			server, b := start(t, ports[0], s, of(c))
			ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
			defer cancel()
			session := must.Get(b.Open(ctx, backend.OpenOptions{TTL: timeout}))(t)

			for range 2 {
				write()
				require.NoError(t, server.Restart())
				before := session.Deadline()
				wait.For(t, "a heartbeat on a new link", func() bool { return session.Deadline().After(before) })
				require.Equal(t, backend.Live, session.State())
			}
			must.Get(session.Commit(ctx, nil, backend.CompareAndSet("/rotated", nil, 0)))(t)
			assert.NoError(t, session.Close(ctx))
		})
	}
}

// What is wrong with the files fails the connection, and nothing else is used in their place.
func TestFiles(t *testing.T) {
	t.Parallel()
	a := must.Get(certtest.New())(t)
	good, other := a.ForTest(t, "ann"), a.ForTest(t, "bob")
	for says, f := range map[string]tlsfiles.Files{
		"no such file":               {CA: good.CA + ".missing"},
		"has no certificate in it":   {CA: good.Key},
		"private key does not match": {Cert: good.Cert, Key: other.Key},
		"are no certificate and its": {Cert: good.Cert},
	} {
		assert.ErrorContains(t, must.Err(f.Config()), says)
		assert.ErrorContains(t, must.Err(f.DialTLSContext(t.Context(), "tcp", "192.0.2.1:1")), says, "nothing is dialled")
	}
}

// Without a configuration nothing is said to the server.
func TestNoConfiguration(t *testing.T) {
	t.Parallel()
	none := func() (*tls.Config, error) { return nil, nil }
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	_, _, err := etcd.TLS(none).ClientHandshake(t.Context(), "localhost", client)
	assert.ErrorContains(t, err, "no configuration for TLS")
	assert.ErrorContains(t, must.Err(tlsfiles.Dialer(nil, none)(t.Context(), "tcp", "192.0.2.1:1")), "no configuration for TLS")
}

// The name in the server's certificate must be that of the address. An IPv6 address may have a zone.
func TestNames(t *testing.T) {
	t.Parallel()
	a := must.Get(certtest.New())(t)
	client := of(a.ForTest(t, "client"))
	for _, c := range []struct{ listen, dial, says string }{
		{"127.0.0.1:0", "127.0.0.1", ""},
		{"127.0.0.1:0", "localhost", ""},
		{"[::1]:0", "::1%lo", ""},
		{"127.0.0.1:0", "127.0.0.2", "x509: certificate is valid for 127.0.0.1, ::1, not 127.0.0.2"},
	} {
		l, err := net.Listen("tcp", c.listen)
		if err != nil {
			t.Logf("SKIPPED %s: %v", c.listen, err)
			continue
		}
		defer l.Close()
		go func() {
			cert := must.Get(a.Issue("server"))(t)
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					_ = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}}).Handshake() // the client says what is wrong
				}()
			}
		}()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		dial := tlsfiles.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, l.Addr().String())
		}, client.Config)
		conn, err := dial(t.Context(), "tcp", net.JoinHostPort(c.dial, port))
		if c.says != "" {
			assert.ErrorContains(t, err, c.says)
			continue
		}
		if assert.NoError(t, err, c.dial) {
			assert.NoError(t, conn.Close())
		}
	}
}
