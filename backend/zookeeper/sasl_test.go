package zookeeper_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
)

// jaas has the users of the servers. Java reads the file in UTF-8.
const jaas = `Server {
	org.apache.zookeeper.server.auth.DigestLoginModule required
	user_ann="S3cr3t"
	user_bob="b-b"
	user_jürgen="größe, \"ł\"";
};
`

// secured returns a server that knows these users.
func secured(t *testing.T, extra ...string) *servertest.ZooKeeper {
	t.Helper()
	return servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, JAAS: jaas, Extra: extra})
}

// required makes a server close the link of a client at the first request that comes without SASL.
var required = []string{"enforce.auth.enabled=true", "enforce.auth.schemes=sasl"}

// sessionRequired is the older setting for that.
const sessionRequired = "sessionRequireClientSASLAuth=true"

func as(user, password string) func(*zookeeper.Config) {
	return func(cfg *zookeeper.Config) { cfg.SASL = zookeeper.DigestMD5(user, password) }
}

// denied checks that no session is opened, and returns why.
func (f *fixture) denied() error {
	f.T.Helper()
	_, err := f.Backend.Open(f.Ctx, backend.OpenOptions{})
	require.ErrorIs(f.T, err, backend.ErrDenied)
	assert.NotContains(f.T, err.Error(), "S3cr3t")
	return err
}

// What a user creates is that user's alone. A wrong password, a user that is not known, and none, are refused at
// once.
func TestSASLDigestMD5(t *testing.T) {
	t.Parallel()
	server := secured(t, required...)
	f := setUpOn(t, server, as("ann", "S3cr3t"))
	e := f.Enqueue(f.S)
	acl, _, err := zookeeper.Conn(f.S).GetACL(e.Key)
	require.NoError(t, err)
	assert.Equal(t, []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "ann"}}, acl)

	bob := process(t, f.Servers, as("bob", "b-b"))
	bob.S = bob.open()
	_, err = bob.S.Get(f.Ctx, e.Key)
	require.ErrorIs(t, err, backend.ErrDenied)
	require.ErrorContains(t, err, `this client has SASL with DIGEST-MD5 for "bob"`)

	again := f.another(as("ann", "S3cr3t"))
	f.Same(e, again.Get(again.S, e.Key))

	require.ErrorContains(t, process(t, f.Servers, as("ann", "S3cr3t-wrong")).denied(), "wrong password")
	require.ErrorContains(t, process(t, f.Servers, as("eve", "e-e")).denied(), "wrong password")

	// Characters beyond ASCII, and beyond ISO 8859-1.
	process(t, f.Servers, as("jürgen", `größe, "ł"`)).open()
}

// An ACL may name users of SASL.
func TestSASLACL(t *testing.T) {
	t.Parallel()
	server := secured(t)
	f := setUpOn(t, server, func(cfg *zookeeper.Config) {
		as("ann", "S3cr3t")(cfg)
		cfg.ACL = []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "ann"}, {Perms: zk.PermRead, Scheme: "sasl", ID: "bob"}}
	})
	e := f.Commit(f.S, backend.CompareAndSet(f.Dir+"/e", []byte("v"), 0))[0]
	bob := f.another(as("bob", "b-b"))
	bob.Same(e, bob.Get(bob.S, e.Key))
	bob.Refused(bob.S, backend.Update(e, []byte("w")), backend.ErrDenied)
	_, err := bob.S.Commit(f.Ctx, nil, backend.Update(e, []byte("w")))
	require.ErrorContains(t, err, `this client has SASL with DIGEST-MD5 for "bob"`)
	nobody := f.another(nil)
	err = must.Err(nobody.S.Get(f.Ctx, e.Key))
	require.ErrorIs(t, err, backend.ErrDenied)
	require.ErrorContains(t, err, "this client has no credentials")
}

// On each new link the session authenticates before anything else. So it keeps its rights, can be closed on a new
// link, and its will can be executed.
func TestSASLOnNewLinks(t *testing.T) {
	t.Parallel()
	f := setUpOn(t, secured(t, sessionRequired), as("ann", "S3cr3t"))
	e := f.Enqueue(f.S)
	for range 3 {
		sent := f.requests()
		f.Cut()
		f.Stands(f.S, e)
		require.Greater(t, len(sent()), 3)
		assert.Equal(t, []int32{102, 102}, sent()[1:3], "after the connect request: %v", sent())
	}

	w := must.Get(f.S.Will())(t)
	require.ErrorIs(t, backend.Execute(f.Ctx, process(t, f.Servers, nil).Backend, w), backend.ErrDenied)
	require.ErrorIs(t, backend.Execute(f.Ctx, process(t, f.Servers, as("ann", "S3cr3t-wrong")).Backend, w), backend.ErrDenied)
	f.AwaitState(f.S, backend.Live)
	require.NoError(t, backend.Execute(f.Ctx, process(t, f.Servers, as("ann", "S3cr3t")).Backend, w))
	f.S = f.open()
	f.Gone(f.S, e.Key)

	f.Suspend()
	f.AwaitState(f.S, backend.Suspended)
	closing := f.closes(f.S)
	must.Get(f.S.AwaitState(f.Ctx, backend.Suspended))(t)
	f.Resume()
	wait.Value(t, closing)
}

// Servers that take no SASL, or no such user and continue, are refused: the client would have no rights.
func TestSASLNotTaken(t *testing.T) {
	t.Parallel()
	f := process(t, []string{servertest.SharedZooKeeper(t).Addr()}, as("ann", "S3cr3t"))
	require.ErrorContains(t, f.denied(), "it has no JAAS file with a section Server")

	lenient := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{
		NoSync: true, QuickStart: true, JAAS: jaas, SystemProperties: map[string]string{"zookeeper.allowSaslFailedClients": "true"},
	})
	f = process(t, []string{lenient.Addr()}, as("ann", "S3cr3t-wrong"))
	require.ErrorContains(t, f.denied(), "zookeeper.allowSaslFailedClients")

	// And a server that wants SASL of a client that has none.
	for _, server := range []*servertest.ZooKeeper{secured(t, required...), secured(t, sessionRequired)} {
		for _, auth := range [][]zookeeper.Auth{nil, {zookeeper.Digest("ann", "S3cr3t")}} {
			f = process(t, []string{server.Addr()}, func(cfg *zookeeper.Config) { cfg.Chroot, cfg.Auth = "/a", auth })
			require.ErrorContains(t, f.denied(), "Config.SASL")
		}
	}
}

// A server that no longer knows the user takes no link of the session. The term lasts as long as its window, and says
// why it ends. If the user is known again in time, the session continues.
func TestSASLRefusedInMidTerm(t *testing.T) {
	servertest.Long(t, "as long as a session timeout, and a server that is started again")
	t.Parallel()
	server := secured(t, required...)
	f := setUpOn(t, server, func(cfg *zookeeper.Config) {
		as("ann", "S3cr3t")(cfg)
		cfg.SessionTimeout = 30 * time.Second
	})
	e := f.Enqueue(f.S)
	restart := func(text string) {
		require.NoError(t, server.SetJAAS(text))
		require.NoError(t, server.Kill())
		require.NoError(t, server.Start())
	}
	restart(strings.ReplaceAll(jaas, "S3cr3t", "changed"))
	wait.For(t, "it is refused", func() bool { return f.S.State() == backend.Suspended })
	time.Sleep(500 * time.Millisecond)
	assert.True(t, time.Now().Before(f.S.Deadline()), "the machine is too slow for this test")
	restart(jaas)
	f.AwaitState(f.S, backend.Live)
	f.Stands(f.S, e)

	restart(strings.ReplaceAll(jaas, "S3cr3t", "changed"))
	f.LostAtDeadline()
	require.ErrorContains(t, process(t, f.Servers, as("ann", "S3cr3t")).denied(), "wrong password")
}

// Three members. The one that the leader is connected to is killed, three times; each time the term is held, and the
// session authenticates at another one.
func TestSASLEnsemble(t *testing.T) {
	ensemble := servertest.EnsembleForTest(t, 3, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, HeapMB: 128, JAAS: jaas, Extra: required})
	f := process(t, ensemble.Addrs(), func(cfg *zookeeper.Config) {
		as("ann", "S3cr3t")(cfg)
		cfg.SessionTimeout = 10 * time.Second
	})
	f.begin()
	e := f.Stand(elector.Config{Backend: f.Backend, Strategy: fair.Strategy{}, Election: f.Dir + "/e"})
	term := f.Campaign(e)
	tokens := f.counts(proxytest.MatchOp(proxytest.OpSASL))
	for range 3 {
		at := -1
		for i, p := range f.Proxies {
			if len(p.Links()) > 0 {
				at = i
			}
		}
		before := tokens()
		require.NoError(t, ensemble.Members[at].Kill())
		wait.For(t, "a session authenticates elsewhere", func() bool { return tokens() >= before+2 })
		f.AwaitState(f.S, backend.Live)
		require.NoError(t, ensemble.Members[at].Start())
		require.True(t, term.Valid(), "%v", context.Cause(term.Context()))
	}
	require.NoError(t, term.Resign(f.Ctx))
}
