package kerberos_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/backend/zookeeper/kerberos"
	_ "github.com/elector-go/elector/backend/zookeeper/kerberos/dialkerberos"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
)

func TestMain(m *testing.M) { os.Exit(servertest.Main(m)) }

const realm = "ELECTOR.TEST"

// realmOf starts a KDC, and returns the settings of Kerberized ZooKeeper servers, and of a client, "ann".
func realmOf(t *testing.T, life time.Duration) (*servertest.KDC, servertest.ZooKeeperConfig, kerberos.Config) {
	t.Helper()
	kdc := servertest.KDCForTest(t, realm, life)
	servers := must.Get(kdc.Add("zookeeper/127.0.0.1"))(t)
	cfg := servertest.ZooKeeperConfig{
		NoSync: true, QuickStart: true, HeapMB: 128, JAAS: kdc.JAAS("zookeeper/127.0.0.1", servers),
		SystemProperties: map[string]string{"java.security.krb5.conf": kdc.Conf()},
		Extra:            []string{"enforce.auth.enabled=true", "enforce.auth.schemes=sasl"},
	}
	return kdc, cfg, kerberos.Config{Keytab: must.Get(kdc.Add("ann"))(t), Krb5Conf: kdc.Conf()}
}

func backendOf(t *testing.T, c kerberos.Config, servers ...string) *zookeeper.Backend {
	t.Helper()
	return must.Get(zookeeper.New(zookeeper.Config{Servers: servers, SessionTimeout: 10 * time.Second, SASL: must.Get(kerberos.New(c))(t)}))(t)
}

func open(t *testing.T, b backend.Backend) (*backend.Session, error) {
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	defer cancel()
	s, err := b.Open(ctx, backend.OpenOptions{})
	if err == nil {
		t.Cleanup(func() { _ = s.Close(context.Background()) })
	}
	return s, err
}

// A ticket from a keytab, and one from a credential cache. What is created is the principal's alone.
func TestKerberos(t *testing.T) {
	kdc, cfg, ann := realmOf(t, time.Hour)
	server := servertest.ZooKeeperForTest(t, cfg)
	b := backendOf(t, ann, server.Addr())
	s := must.Get(open(t, b))(t)
	e := must.Get(s.Commit(t.Context(), nil, backend.CompareAndSet("/e", nil, 0)))(t)[0]
	acl, _, err := zookeeper.Conn(s).GetACL("/e")
	require.NoError(t, err)
	assert.Equal(t, []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "ann@" + realm}}, acl)

	bob := kerberos.Config{Cache: filepath.Join(t.TempDir(), "cc"), Krb5Conf: kdc.Conf()}
	bobs := backendOf(t, bob, server.Addr())
	_, err = open(t, bobs)
	require.ErrorIs(t, err, backend.ErrUnavailable)
	require.ErrorContains(t, err, "call kinit")
	require.NoError(t, kdc.Init("bob", must.Get(kdc.Add("bob"))(t), bob.Cache))
	_, err = must.Get(open(t, bobs))(t).Get(t.Context(), e.Key)
	require.ErrorIs(t, err, backend.ErrDenied)
	require.ErrorContains(t, err, "SASL with GSSAPI for bob@"+realm)

	require.NoError(t, backend.Rehearse(t.Context(), b))
	w := must.Get(s.Will())(t)
	require.NoError(t, backend.Execute(t.Context(), b, w))

	// By URL.
	t.Setenv("KRB5_CONFIG", kdc.Conf())
	t.Setenv("KRB5_CLIENT_KTNAME", ann.Keytab)
	url := must.Get(dial.Open(t.Context(), fmt.Sprintf("zk://%s/below?sasl=gssapi", server.Addr())))(t)
	require.NoError(t, must.Get(open(t, url))(t).Close(t.Context()))
	require.NoError(t, url.Close())

	// By a JAAS file, as clients in Java have it, without sasl=.
	t.Setenv("KRB5_CLIENT_KTNAME", "/missing")
	file := filepath.Join(t.TempDir(), "jaas.conf")
	t.Setenv("ZOOKEEPER_AUTH_FILE", file)
	for _, options := range []string{
		fmt.Sprintf("useKeyTab=true keyTab=%q storeKey=true useTicketCache=false principal=\"ann@%s\"", ann.Keytab, realm),
		fmt.Sprintf("useTicketCache=true ticketCache=%q", bob.Cache),
	} {
		require.NoError(t, os.WriteFile(file, []byte("Client {\n com.sun.security.auth.module.Krb5LoginModule required\n "+options+";\n};\n"), 0o600))
		url := must.Get(dial.Open(t.Context(), fmt.Sprintf("zk://%s/", server.Addr())))(t)
		require.NoError(t, must.Get(open(t, url))(t).Close(t.Context()))
		require.NoError(t, url.Close())
	}
}

// Each error names what is wrong. Those that cannot pass are final.
func TestWrong(t *testing.T) {
	kdc, cfg, ann := realmOf(t, time.Hour)
	server := servertest.ZooKeeperForTest(t, cfg)
	old := ann
	gone := must.Get(kdc.Add("eve"))(t)
	require.NoError(t, kdc.Remove("eve"))
	ann.Keytab = must.Get(kdc.Add("ann"))(t)
	elsewhere := filepath.Join(t.TempDir(), "krb5.conf")
	require.NoError(t, os.WriteFile(elsewhere, []byte("[libdefaults]\n default_realm = X.TEST\n dns_lookup_kdc = false\n udp_preference_limit = 1\n[realms]\n X.TEST = {\n kdc = 127.0.0.1:1\n }\n"), 0o600))
	with := func(change func(*kerberos.Config)) kerberos.Config {
		c := ann
		change(&c)
		return c
	}
	for name, try := range map[string]struct {
		config kerberos.Config
		says   string
		final  bool
	}{
		"an old keytab":             {old, "the keytab is old", true},
		"a client that is unknown":  {kerberos.Config{Keytab: gone, Krb5Conf: ann.Krb5Conf}, "does not know the client eve@" + realm, true},
		"servers that are unknown":  {with(func(c *kerberos.Config) { c.ServerPrincipal = "zk/_HOST" }), "does not know the servers' principal zk/127.0.0.1@" + realm, true},
		"a realm without a KDC":     {with(func(c *kerberos.Config) { c.Krb5Conf = elsewhere }), "names no KDC", true},
		"a realm that is not known": {with(func(c *kerberos.Config) { c.ServerPrincipal = "zookeeper/_HOST@Y.TEST" }), "correct [domain_realm]", true},
	} {
		_, err := open(t, backendOf(t, try.config, server.Addr()))
		require.ErrorContains(t, err, try.says, name)
		assert.Equal(t, try.final, isDenied(err), "%s: %v", name, err)
	}

	// The server's key is another one.
	_ = must.Get(kdc.Add("zookeeper/127.0.0.1"))(t)
	_, err := open(t, backendOf(t, ann, server.Addr()))
	require.ErrorIs(t, err, backend.ErrDenied)

	// A server with DIGEST-MD5.
	plain := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{
		NoSync: true, QuickStart: true, JAAS: servertest.DigestJAAS("u", "p"),
	})
	_, err = open(t, backendOf(t, ann, plain.Addr()))
	require.ErrorIs(t, err, backend.ErrDenied)
	require.ErrorContains(t, err, "it wants another mechanism")

	require.NoError(t, kdc.Kill())
	_, err = open(t, backendOf(t, ann, server.Addr()))
	require.ErrorIs(t, err, backend.ErrUnavailable)
	require.ErrorContains(t, err, "no KDC answers")
}

func isDenied(err error) bool { return errors.Is(err, backend.ErrDenied) }

// Three members. Each is killed in turn while the KDC is away, and the term is held: its tickets are still good.
func TestKerberosEnsembleWithoutKDC(t *testing.T) {
	kdc, each := held(t, time.Hour)
	require.NoError(t, kdc.Kill())
	each()
}

// Each is killed in turn after the tickets have ended: others are fetched, and the term is held, too.
func TestKerberosEnsembleAfterTickets(t *testing.T) {
	const life = 10 * time.Second
	kdc, each := held(t, life)
	require.NoError(t, kdc.Kill())
	time.Sleep(life + time.Second)
	require.NoError(t, kdc.Start())
	each()
}

// held holds a term on three members, and returns a function that kills and starts one after the other and checks that
// the term is held, and at last resigns.
func held(t *testing.T, life time.Duration) (kdc *servertest.KDC, each func()) {
	t.Helper()
	kdc, cfg, ann := realmOf(t, life)
	ensemble := servertest.EnsembleForTest(t, 3, cfg)
	b := backendOf(t, ann, ensemble.Addrs()...)
	e := must.Get(elector.New(elector.Config{Backend: b, Strategy: fair.Strategy{}, Election: "/jobs/one", ID: "a"}))(t)
	t.Cleanup(func() { _ = e.Close(context.Background()) })
	term := must.Get(e.Campaign(t.Context()))(t)
	return kdc, func() {
		for _, m := range ensemble.Members {
			require.NoError(t, m.Kill())
			time.Sleep(time.Second)
			require.NoError(t, m.Start())
			require.NoError(t, term.Proclaim(t.Context(), []byte(m.Name())), "it has a link again")
			require.True(t, term.Valid(), "%v", context.Cause(term.Context()))
		}
		require.NoError(t, term.Resign(t.Context()))
	}
}

// A client of another realm is known by its principal there, once the servers' realm trusts that realm.
func TestTrust(t *testing.T) {
	servers, cfg, ann := realmOf(t, time.Hour)
	server := servertest.ZooKeeperForTest(t, cfg)
	kdc := servertest.KDCForTest(t, "CLIENTS.TEST", time.Hour)
	ann.Keytab, ann.Krb5Conf = must.Get(kdc.Add("ann"))(t), filepath.Join(t.TempDir(), "krb5.conf")
	require.NoError(t, os.WriteFile(ann.Krb5Conf, fmt.Appendf(nil, "include %s\ninclude %s\n[domain_realm]\n 127.0.0.1 = %s\n", kdc.Conf(), servers.Conf(), realm), 0o600))
	b := backendOf(t, ann, server.Addr())
	_, err := open(t, b)
	require.ErrorIs(t, err, backend.ErrDenied)
	require.ErrorContains(t, err, "correct [domain_realm] in "+ann.Krb5Conf)

	require.NoError(t, servers.Trusts(kdc))
	s := must.Get(open(t, b))(t)
	must.Get(s.Commit(t.Context(), nil, backend.CompareAndSet("/e", nil, 0)))(t)
	acl, _, err := zookeeper.Conn(s).GetACL("/e")
	require.NoError(t, err)
	assert.Equal(t, []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "ann@CLIENTS.TEST"}}, acl)
}

// The client's clock differs from the KDC's, or later from the server's. It is that of a bubble, in which time moves on at
// once; the others are not in it.
func TestClocks(t *testing.T) {
	kdc, cfg, ann := realmOf(t, time.Hour)
	server := servertest.ZooKeeperForTest(t, cfg)
	now := time.Now()
	says := "this machine's clock and the KDC's differ"
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			is := func(at time.Time) { time.Sleep(time.Until(at)) }
			m := must.Get(kerberos.New(ann))(t)
			start := func() error { return must.Err(m.Start(t.Context(), "127.0.0.1")) }
			is(now.Add(-10 * time.Minute))
			require.ErrorContains(t, start(), says)
			is(now.Add(2 * time.Minute))
			require.NoError(t, start())
			is(now.Add(10 * time.Minute)) // the ticket still lives, and the server refuses it
			b := must.Get(zookeeper.New(zookeeper.Config{Servers: []string{server.Addr()}, SASL: m}))(t)
			_, err := b.Open(t.Context(), backend.OpenOptions{})
			require.ErrorIs(t, err, backend.ErrUnavailable)
			require.ErrorContains(t, err, says)
		})
		require.NoError(t, kdc.RequirePreauth("ann")) // then the KDC finds it, otherwise the client
	}
}
