package zookeeper_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/certtest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/tlsfiles"
)

// withTLS makes servers accept TLS on their usual port, with clients' certificates.
func withTLS(files certtest.Files) servertest.ZooKeeperConfig {
	return servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, Extra: []string{
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory", "client.portUnification=true",
		"authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider", // secureClientPort would set it
		"ssl.keyStore.location=" + files.Both, "ssl.keyStore.type=PEM", "ssl.trustStore.location=" + files.CA, "ssl.trustStore.type=PEM",
	}}
}

// ofFiles returns what a client reads for each link.
func ofFiles(f certtest.Files) tlsfiles.Files {
	return tlsfiles.Files{CA: f.CA, Cert: f.Cert, Key: f.Key}
}

// With the scheme "auth" a node belongs to the subject of the client's certificate.
func TestACLOfACertificate(t *testing.T) {
	t.Parallel()
	a := must.Get(certtest.New())(t)
	server := servertest.ZooKeeperForTest(t, withTLS(a.ForTest(t, "server")))
	open := func(acl []zk.ACL, files *tlsfiles.Files) *backend.Session {
		cfg := zookeeper.Config{Servers: []string{server.Addr()}, SessionTimeout: 30 * time.Second, ACL: acl}
		if files != nil {
			cfg.GetTLS = files.Config
		}
		s := must.Get(must.Get(zookeeper.New(cfg))(t).Open(t.Context(), backend.OpenOptions{}))(t)
		t.Cleanup(func() { assert.NoError(t, s.Close(context.Background())) })
		return s
	}
	create := func(s *backend.Session, key string) error {
		return must.Err(s.Commit(t.Context(), nil, backend.CompareAndSet(key, nil, 0)))
	}
	anns, bobs := ofFiles(a.ForTest(t, "ann")), ofFiles(a.ForTest(t, "bob"))
	ann := open(zk.AuthACL(zk.PermAll), &anns)
	require.NoError(t, create(ann, "/anns"))
	acl, _, err := zookeeper.Conn(ann).GetACL("/anns")
	require.NoError(t, err)
	assert.Equal(t, []zk.ACL{{Scheme: "x509", ID: "CN=ann", Perms: zk.PermAll}}, acl)

	renewed := ofFiles(a.ForTest(t, "ann"))
	assert.NoError(t, create(open(zk.AuthACL(zk.PermAll), &renewed), "/anns/again"), "the name counts")
	for name, other := range map[string]*backend.Session{"of bob": open(acl, &bobs), "without a certificate": open(nil, nil)} {
		err := create(other, "/anns/"+name[:1])
		assert.ErrorIs(t, err, backend.ErrDenied, name)
		assert.ErrorContains(t, err, "none of Config.Auth, Config.SASL and a client certificate", name)
	}
	assert.ErrorIs(t, create(open(zk.AuthACL(zk.PermAll), nil), "/nobodys"), backend.ErrDenied)
}

// The authority of an ensemble and its clients is replaced under a term: first all trust the old one and the
// new one, then all have certificates of the new one, then nobody trusts the old one. Each time one member
// after the other is restarted.
func TestAuthorityIsTakenAway(t *testing.T) {
	t.Parallel()
	before, after := must.Get(certtest.New())(t), must.Get(certtest.New())(t)
	server, client := before.ForTest(t, "server"), before.ForTest(t, "client")
	next, clientNext := after.ForTest(t, "server"), after.ForTest(t, "client")
	c := servertest.EnsembleForTest(t, 3, withTLS(server))
	b := must.Get(zookeeper.New(zookeeper.Config{
		Servers: c.Addrs(), SessionTimeout: 20 * time.Second, GetTLS: ofFiles(client).Config, ACL: zk.AuthACL(zk.PermAll),
	}))(t)
	e := must.Get(elector.New(elector.Config{Backend: b, Strategy: fair.Strategy{}, Election: "/jobs/one", ID: "me"}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*wait.Patience)
	defer cancel()
	term := must.Get(e.Campaign(ctx))(t)

	read := func(paths ...string) (all []byte) {
		for _, path := range paths {
			all = append(all, must.Get(os.ReadFile(path))(t)...)
		}
		return all
	}
	oldCA, newCA := read(server.CA), read(next.CA)
	for step, files := range []map[string][]byte{
		{server.CA: slices.Concat(oldCA, newCA), client.CA: slices.Concat(oldCA, newCA)},
		{server.Both: read(next.Both), client.Cert: read(clientNext.Cert), client.Key: read(clientNext.Key)},
		{server.CA: newCA, client.CA: newCA},
	} {
		for path, text := range files {
			require.NoError(t, os.WriteFile(path, text, 0o600))
		}
		for _, m := range c.Members {
			require.NoError(t, m.Restart())
			must.Get(c.WaitLeader(wait.Patience))(t)
			wait.For(t, "a write", func() bool {
				return must.Err(term.Commit(ctx, elector.Put("/jobs/state", []byte{byte(step)}))) == nil || !term.Valid()
			})
			require.True(t, term.Valid(), "step %d: %v", step, context.Cause(term.Context()))
		}
	}
	stranger := ofFiles(before.ForTest(t, "client"))
	stranger.CA = client.CA
	old := must.Get(zookeeper.New(zookeeper.Config{Servers: c.Addrs(), GetTLS: stranger.Config}))(t)
	assert.ErrorIs(t, must.Err(old.Open(ctx, backend.OpenOptions{})), backend.ErrUnavailable, "the old authority is no longer trusted")
	require.NoError(t, term.Resign(ctx))
	require.NoError(t, e.Close(ctx))
}
