package dialnats_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	_ "github.com/elector-go/elector/backend/nats/dialnats"
	"github.com/elector-go/elector/internal/certtest"
	"github.com/elector-go/elector/internal/loopback"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

const secret = "s3cr3t"

// start starts a server in this process, on loopback, with its data in a folder of the test.
func start(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	o.Host, o.JetStream, o.NoSigs, o.StoreDir = "127.0.0.1", true, true, t.TempDir()
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	s := must.Get(server.NewServer(&o))(t)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(time.Minute))
	return s
}

// create makes the bucket "elections".
func create(t *testing.T, s *server.Server, options ...nats.Option) {
	t.Helper()
	nc := must.Get(nats.Connect("nats://"+s.Addr().String(), options...))(t)
	defer nc.Close()
	must.Get(must.Get(jetstream.New(nc))(t).CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "elections"}))(t)
}

func open(t *testing.T, url string, options ...dial.Option) *dial.Backend {
	t.Helper()
	b := must.Get(dial.Open(t.Context(), url, options...))(t)
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	return b
}

// opens opens a session by a URL, and writes something.
func opens(t *testing.T, url string) error {
	t.Helper()
	s, err := open(t, url).Open(t.Context(), backend.OpenOptions{})
	if err != nil {
		return err
	}
	must.Get(s.Commit(t.Context(), nil, backend.CompareAndSet(fmt.Sprint("/", time.Now().UnixNano()), nil, 0)))(t)
	return s.Close(t.Context())
}

func TestRefused(t *testing.T) {
	assert.Contains(t, dial.Usage(), "nats://host[:port],.../bucket[/key]")
	for url, says := range map[string]string{
		"nats://":                      "a host is missing",
		"nats://h":                     "the bucket is missing: give nats://host/bucket",
		"nats://h/a.b":                 `bucket "a.b": letters, digits`,
		"nats://h/a/b.":                `key "b."`,
		"nats://h/a?timeout=1s":        "SessionTimeout of 1s is not between 2s and 10m",
		"nats://h/a?check=1s":          "there are timeout, tls",
		"nats://me:" + secret + "@h/a": "set NATS_CREDS, NATS_NKEY, or NATS_USER",
	} {
		_, err := dial.Open(t.Context(), url)
		assert.ErrorContains(t, err, says, url)
		assert.NotContains(t, fmt.Sprint(err), secret)
	}
	b := open(t, "nats://h1,[::1]:4223/bucket/a/key.1?timeout=20s&tls=false")
	assert.Equal(t, "nats", b.String())
	assert.Equal(t, 20*time.Second, b.Limits().DefaultTTL)
	assert.Equal(t, []dial.Server{{Address: "h1:4222", URL: "nats://h1:4222/b"}, {Address: "h2:1", URL: "nats://h2:1/b"}}, must.Get(dial.Servers("nats://h1,h2:1/b"))(t))
}

// TestWrongSettings checks that wrong settings are errors that name the variable and the file, and no secret.
func TestWrongSettings(t *testing.T) {
	missing, rubbish := filepath.Join(t.TempDir(), "missing"), filepath.Join(t.TempDir(), "rubbish")
	require.NoError(t, os.WriteFile(rubbish, []byte(secret), 0o600))
	for _, c := range []struct{ set, says []string }{
		{[]string{"NATS_CREDS", missing}, []string{"NATS_CREDS", missing}},
		{[]string{"NATS_NKEY", missing}, []string{"NATS_NKEY", missing}},
		{[]string{"NATS_NKEY", rubbish}, []string{"NATS_NKEY", rubbish, "begins with SU"}},
		{[]string{"NATS_CREDS", rubbish, "NATS_USER", "me"}, []string{"NATS_CREDS and NATS_USER are all set: keep one of them"}},
		{[]string{"NATS_PASSWORD", secret}, []string{"NATS_PASSWORD has a password, and there is no user: set NATS_USER"}},
		{[]string{"NATS_USER", "me", "NATS_PASSWORD_FILE", missing}, []string{"NATS_PASSWORD_FILE", missing}},
		{[]string{"NATS_CA", rubbish}, []string{"NATS_CA", rubbish, "-----BEGIN CERTIFICATE-----"}},
		{[]string{"NATS_CERT", rubbish}, []string{"NATS_CERT is set, and NATS_KEY is not"}},
	} {
		t.Run(strings.Join(c.set, ","), func(t *testing.T) {
			for i := 0; i < len(c.set); i += 2 {
				t.Setenv(c.set[i], c.set[i+1])
			}
			_, err := dial.Open(t.Context(), "nats://h/a")
			for _, says := range c.says {
				assert.ErrorContains(t, err, says)
			}
			assert.NotContains(t, fmt.Sprint(err), secret)
		})
	}
}

// Without a server, Open of a session says why soon; later the same Backend finds the server.
func TestServerComesLater(t *testing.T) {
	ports := must.Get(loopback.Ports(1))(t)
	t.Cleanup(func() { loopback.Release(ports...) })
	b := open(t, fmt.Sprintf("nats://127.0.0.1:%d/elections", ports[0]))
	began := time.Now()
	err := must.Err(b.Open(t.Context(), backend.OpenOptions{}))
	require.ErrorIs(t, err, backend.ErrUnavailable)
	assert.ErrorContains(t, err, "connection refused")
	assert.Less(t, time.Since(began), 3*time.Second)

	s := start(t, server.Options{Port: ports[0]})
	require.ErrorContains(t, must.Err(b.Open(t.Context(), backend.OpenOptions{})), "bucket elections does not exist: create it, by nats kv add elections --replicas 3 --storage file")
	create(t, s)
	session := must.Get(b.Open(t.Context(), backend.OpenOptions{}))(t)
	wait.For(t, "the connection of create is closed, and the session has one", func() bool { return s.NumClients() == 1 })
	require.NoError(t, session.Close(t.Context()))
	require.NoError(t, b.Close())
	wait.For(t, "the connection is closed", func() bool { return s.NumClients() == 0 })
	require.Error(t, must.Err(b.Open(t.Context(), backend.OpenOptions{})))
}

// A link that died silently is found, and another one is made, while the session lives.
func TestDeadLink(t *testing.T) {
	s := start(t, server.Options{})
	create(t, s)
	var conns []net.Conn
	made := make(chan net.Conn, 10)
	b := open(t, "nats://"+s.Addr().String()+"/elections?timeout=8s", dial.WithDialContext(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			conn = &mute{Conn: conn, dead: make(chan struct{})}
			made <- conn
		}
		return conn, err
	}))
	session := must.Get(b.Open(t.Context(), backend.OpenOptions{}))(t)
	conns = append(conns, <-made)
	close(conns[0].(*mute).dead)
	wait.Receive(t, "another connection", made)
	must.Get(session.Commit(t.Context(), nil, backend.CompareAndSet("/a", nil, 0)))(t)
	assert.Equal(t, backend.Live, session.State())
	require.NoError(t, session.Close(t.Context()))
}

// A mute connection loses all that is sent once it is dead.
type mute struct {
	net.Conn
	dead chan struct{}
}

func (m *mute) Write(p []byte) (int, error) {
	select {
	case <-m.dead:
		return len(p), nil
	default:
		return m.Conn.Write(p)
	}
}

func TestCredentials(t *testing.T) {
	pair := must.Get(nkeys.CreateUser())(t)
	public, seed := must.Get(pair.PublicKey())(t), must.Get(pair.Seed())(t)
	file := filepath.Join(t.TempDir(), "seed")
	require.NoError(t, os.WriteFile(file, seed, 0o600))
	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte(secret+"\n"), 0o600))
	for name, c := range map[string]struct {
		server server.Options
		own    nats.Option
		set    []string
	}{
		"password":      {server.Options{Username: "me", Password: secret}, nats.UserInfo("me", secret), []string{"NATS_USER", "me", "NATS_PASSWORD", secret}},
		"password-file": {server.Options{Username: "me", Password: secret}, nats.UserInfo("me", secret), []string{"NATS_USER", "me", "NATS_PASSWORD_FILE", password}},
		"token":         {server.Options{Authorization: secret}, nats.Token(secret), []string{"NATS_USER", secret}},
		"nkey":          {server.Options{Nkeys: []*server.NkeyUser{{Nkey: public}}}, nats.Nkey(public, pair.Sign), []string{"NATS_NKEY", file}},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, c.server)
			create(t, s, c.own)
			url := "nats://" + s.Addr().String() + "/elections"
			err := opens(t, url)
			require.ErrorIs(t, err, backend.ErrUnavailable)
			assert.ErrorContains(t, err, "Authorization Violation")
			for i := 0; i < len(c.set); i += 2 {
				t.Setenv(c.set[i], c.set[i+1])
			}
			require.NoError(t, opens(t, url))
		})
	}
}

func TestTLS(t *testing.T) {
	ca := must.Get(certtest.New())(t)
	files := ca.ForTest(t, "me")
	cert := must.Get(ca.Issue("server"))(t)
	s := start(t, server.Options{TLS: true, TLSVerify: true, TLSTimeout: 5, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: ca.Pool(), ClientAuth: tls.RequireAndVerifyClientCert}})
	create(t, s, nats.RootCAs(files.CA), nats.ClientCert(files.Cert, files.Key))
	url := "nats://" + s.Addr().String() + "/elections"
	require.ErrorContains(t, opens(t, url), "certificate")
	t.Setenv("NATS_CA", files.CA)
	require.Error(t, opens(t, url))
	t.Setenv("NATS_CERT", files.Cert)
	t.Setenv("NATS_KEY", files.Key)
	require.NoError(t, opens(t, url))

	plain := start(t, server.Options{})
	require.ErrorContains(t, opens(t, "nats://"+plain.Addr().String()+"/elections"), "secure connection not available")
}

// A right that is missing is named.
func TestRights(t *testing.T) {
	allow := []string{"$KV.elections.elector", "$JS.API.STREAM.MSG.GET.KV_elections", "$JS.API.STREAM.INFO.KV_elections", "$JS.API.CONSUMER.CREATE.KV_elections.>", "$JS.API.INFO", "$JS.API.CONSUMER.DELETE.KV_elections.>", "$JS.FC.>"}
	user := func(name string, allow []string) *server.User {
		return &server.User{Username: name, Password: secret, Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: allow}, Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
		}}
	}
	s := start(t, server.Options{Users: []*server.User{{Username: "root", Password: secret}, user("all", allow), user("none", allow[2:]), user("reader", allow[1:])}})
	create(t, s, nats.UserInfo("root", secret))
	url := "nats://" + s.Addr().String() + "/elections"
	t.Setenv("NATS_PASSWORD", secret)
	t.Setenv("NATS_USER", "all")
	require.NoError(t, opens(t, url))
	for name, lacks := range map[string]string{"none": allow[1], "reader": allow[0]} {
		t.Setenv("NATS_USER", name)
		err := opens(t, url)
		require.ErrorIs(t, err, backend.ErrDenied, name)
		assert.ErrorContains(t, err, lacks)
	}
}
