package etcd_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/etcd"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/servicetest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/catalog"
)

// as makes a client use a user's credentials.
func as(user string) func(*clientv3.Config) {
	return func(cfg *clientv3.Config) { cfg.Username, cfg.Password = user, "secret" }
}

// guarded is a server with authentication. The users ann and bob may access only /a and /b, and what is
// below, and eve nothing at all.
type guarded struct {
	t    *testing.T
	ctx  context.Context
	addr string
	root *clientv3.Client
}

const (
	mayRead  = clientv3.PermissionType(clientv3.PermRead)
	mayWrite = clientv3.PermissionType(clientv3.PermReadWrite)
)

func newGuarded(t *testing.T, args ...string) *guarded {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	t.Cleanup(cancel)
	// By default a busy processor takes more than a second to check a password.
	g := &guarded{t: t, ctx: ctx, addr: etcdtest.Single(t, append(args, "--bcrypt-cost=4")...).Members[0].Addr()}
	g.root = etcdtest.Operator(t, g.addr)
	for _, user := range []string{"root", "ann", "bob", "eve"} {
		must.Get(g.root.RoleAdd(ctx, user))(t)
		must.Get(g.root.UserAdd(ctx, user, "secret"))(t)
		must.Get(g.root.UserGrantRole(ctx, user, user))(t)
	}
	g.grant("ann", "/a", "/a0", mayWrite)
	g.grant("bob", "/b", "/b0", mayWrite)
	must.Get(g.root.AuthEnable(ctx))(t)
	g.root = g.process("root").Client
	return g
}

func (g *guarded) grant(user, from, end string, what clientv3.PermissionType) {
	g.t.Helper()
	must.Get(g.root.RoleGrantPermission(g.ctx, user, from, end, what))(g.t)
}

func (g *guarded) process(user string) *etcdtest.Process {
	g.t.Helper()
	return etcdtest.NewProcess(g.t, []string{g.addr}, as(user))
}

// setUp opens a user's session and, if dir is not empty, makes the directory.
func (g *guarded) setUp(user, dir string) *fixture {
	g.t.Helper()
	f := &fixture{Fixture: servicetest.NewFixture(g.t), Process: g.process(user)}
	f.S = f.open(30 * time.Second)
	if dir != "" {
		f.Enter(dir)
	}
	return f
}

// A user with access to one range of keys needs no other.
func TestAuthByKeyRanges(t *testing.T) {
	g := newGuarded(t)
	f, ctx := g.setUp("ann", "/a/d"), g.ctx
	f.put(f.S, "/a/deep/down/x", "")

	// Each op, without a fault and with its reply or its request lost.
	for name, lose := range map[string]func(etcdtest.Match){
		"no fault": func(etcdtest.Match) {}, "lost reply": f.LoseReply, "lost request": f.LoseRequest,
	} {
		t.Run(name, func(t *testing.T) {
			f.T = t
			lose(etcdtest.MatchKind(backend.OpEnqueue))
			first := f.Enqueue(f.S)
			lose(etcdtest.MatchKind(backend.OpEnqueue))
			second := f.Enqueue(f.S)
			lose(etcdtest.MatchKind(backend.OpCreateEphemeral))
			seat := f.seat(f.S)
			lose(etcdtest.MatchKind(backend.OpCompareAndSet))
			record := f.put(f.S, f.Dir+"/record/"+name, name)
			lose(etcdtest.MatchKind(backend.OpUpdate))
			seat = f.Commit(f.S, backend.Update(seat, []byte(name)))[0]
			f.Lists(f.S, first, second)
			f.Follows(f.S, second, first)
			waiting := f.Awaits(f.S, first, second)
			lose(etcdtest.MatchKind(backend.OpDelete))
			f.Commit(f.S, backend.Delete(first))
			wait.Value(f.T, waiting)
			_, err := f.S.Commit(ctx, []backend.Condition{backend.IfExists(second)}, backend.Delete(seat), backend.Delete(record))
			require.NoError(t, err)
			f.Discard(f.S, second)
		})
	}
	f.T = t

	// Elsewhere every call is refused.
	for what, ask := range map[string]func() error{
		"get":        func() error { _, err := f.S.Get(ctx, "/b"); return err },
		"list":       func() error { _, err := f.S.List(ctx, "/b"); return err },
		"await list": func() error { _, err := f.S.AwaitList(ctx, backend.Listing{Dir: "/b"}); return err },
		"await":      func() error { _, err := f.S.Await(ctx, backend.Entry{Key: "/b/x"}); return err },
		"guard": func() error {
			_, err := f.S.Commit(ctx, []backend.Condition{backend.IfExists(backend.Entry{Key: "/b", Rev: 1})})
			return err
		},
	} {
		err := ask()
		require.ErrorIs(t, err, backend.ErrDenied, what)
		require.ErrorIs(t, err, rpctypes.ErrPermissionDenied, what)
	}
	for _, op := range []backend.Op{
		backend.CompareAndSet("/b/x", nil, 0), backend.CreateEphemeral("/b/x", nil), backend.Enqueue("/b", nil), backend.CompareAndSet("/c", nil, 0),
		backend.Update(backend.Entry{Key: "/b", Rev: 1}, nil), backend.Delete(backend.Entry{Key: "/b", Rev: 1}),
	} {
		f.Refused(f.S, op, backend.ErrDenied, rpctypes.ErrPermissionDenied)
	}
	f.AwaitState(f.S, backend.Live)
	require.NoError(t, f.S.Close(ctx))

	// Elections, each below its own user's key.
	for _, item := range catalog.All() {
		strategy := item.Strategy
		e := f.Stand(elector.Config{Backend: f.Backend, Strategy: strategy, Election: "/a/" + strategy.Name(), TTL: 30 * time.Second})
		term := must.Get(e.Campaign(ctx))(t)
		must.Get(term.Commit(ctx, elector.Put("/a/written-by-"+strategy.Name(), nil)))(t)
		_, err := term.Commit(ctx, elector.Put("/b/x", nil))
		require.ErrorIs(t, err, backend.ErrDenied)
		require.NoError(t, e.Close(ctx))
		_, err = f.Stand(elector.Config{Backend: f.Backend, Strategy: strategy, Election: "/b/" + strategy.Name(), TTL: 30 * time.Second}).Campaign(ctx)
		require.ErrorIs(t, err, backend.ErrDenied)
	}
}

// The connection for heartbeats uses the client's credentials.
func TestAuthOfHeartbeats(t *testing.T) {
	server := newGuarded(t).addr
	f := setUpOn(t, 20*time.Second, as("root"), server, server)
	f.Enqueue(f.S)
	f.beats()
}

// Credentials that the servers refuse return ErrDenied, and are not tried for ever.
func TestAuthRefused(t *testing.T) {
	g := newGuarded(t)
	_, err := etcdtest.NewProcess(t, []string{g.addr}, nil).Backend.Open(g.ctx, backend.OpenOptions{})
	require.ErrorIs(t, err, backend.ErrDenied, "no user at all")

	// A user that loses its rights while it has a session.
	f := g.setUp("ann", "/a/d")
	must.Get(g.root.RoleRevokePermission(g.ctx, "ann", "/a", "/a0"))(t)
	_, err = f.S.Get(g.ctx, f.Dir)
	require.ErrorIs(t, err, backend.ErrDenied)
	f.Refused(f.S, backend.Enqueue(f.Dir, nil), backend.ErrDenied)
}

// A refused commit names the rights that it needs, and with these it is done.
func TestDeniedCommitSaysWhatItNeeds(t *testing.T) {
	g := newGuarded(t)
	f := g.setUp("bob", "")
	denied := func(says string, ops ...backend.Op) {
		t.Helper()
		_, err := f.S.Commit(g.ctx, nil, ops...)
		require.ErrorIs(t, err, backend.ErrDenied)
		require.ErrorIs(t, err, rpctypes.ErrPermissionDenied)
		require.ErrorContains(t, err, says)
	}

	// Missing parents are created.
	record := backend.CompareAndSet("/c/fresh", nil, 0)
	g.grant("bob", "/c/fresh", "/c/fresh0", mayWrite)
	denied(`(it needs read on "/c", readwrite on "/c/fresh" to "/c/fresh.")`, record)
	g.grant("bob", "/c", "", mayRead)
	denied(`(it needs readwrite on "/c", readwrite on "/c/fresh" to "/c/fresh.")`, record)
	g.grant("bob", "/c", "", mayWrite)
	f.Commit(f.S, record)
	denied(`readwrite on "/x/" to "/x0"`, backend.Enqueue("/x", nil))

	// A key is written beside its fence, and deleted only if nothing is below it.
	g.grant("bob", "/c/state", "", mayWrite)
	state := backend.CompareAndSet("/c/state", nil, 0)
	denied(`readwrite on "/c/state" to "/c/state."`, state)
	g.grant("bob", "/c/state", "/c/state.", mayWrite)
	made := f.Commit(f.S, state)[0]
	denied(`read on "/c/state/" to "/c/state0"`, backend.Delete(made))
	g.grant("bob", "/c/state/", "/c/state0", mayRead)
	f.Commit(f.S, backend.Delete(made))

	// A long list of rights is cut short.
	var many []backend.Op
	for i := range 20 {
		many = append(many, backend.CompareAndSet(fmt.Sprintf("/d/%02d", i), nil, 0))
	}
	denied("and 14 more)", many...)
}

// A stream of watches keeps the token with which it was opened; when that runs out the session leaves
// it.
func TestTokenOfTheWatchesRunsOut(t *testing.T) {
	g := newGuarded(t, "--auth-token-ttl=2")
	f, other, ctx := g.setUp("ann", "/a/d"), g.setUp("ann", "/a/other"), g.ctx
	first, second := f.Enqueue(f.S), other.Enqueue(other.S)
	waiting := f.armed(first)
	// The session finds out by itself, and leaves the stream. This watch keeps the stream, and its
	// token.
	f.Client.Watch(clientv3.WithRequireLeader(ctx), first.Key)
	refused := func() bool { // by a watch that is made on the same stream
		probe, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
		defer cancel()
		answer, made := <-f.Client.Watch(probe, second.Key, clientv3.WithCreatedNotify())
		return !made || answer.Err() != nil
	}
	require.Eventually(t, refused, wait.Patience, 4*time.Second, "the token runs out while nothing is asked")

	listing := other.List(f.S)
	before := f.WatchesMade()
	gone := f.Awaits(f.S, second)
	listed := f.AwaitsList(f.S, listing)
	wait.For(t, "watches", func() bool { return f.WatchesMade() >= before+2 })
	wait.Pending(f.T, waiting)
	f.Discard(other.S, second)
	wait.Value(f.T, gone)
	wait.Value(f.T, listed)
	f.Discard(f.S, first)
	wait.Value(f.T, waiting)
}

// A user that may only read cannot help an entry into its place, but sees it when it is there.
func TestReaderMeetsAnEntryOnItsWay(t *testing.T) {
	g := newGuarded(t)
	g.grant("eve", "/a", "/a0", mayRead)
	f, slow, reader := g.setUp("ann", "/a/d"), g.setUp("ann", "/a/other"), g.setUp("eve", "").S
	first := f.Enqueue(f.S)
	arriving, release := slow.heldUp(f.Dir)
	f.Discard(f.S, first)
	l := f.List(reader)
	for _, key := range l.Keys {
		f.Get(reader, key) // what is listed exists
	}
	waiting := f.AwaitsList(reader, l)
	release()
	made := wait.Value(f.T, arriving)
	assert.Equal(t, []string{made[0].Key}, wait.Value(f.T, waiting).Keys)
}

const prefix = "some/where"

// namespaced returns a process whose client keeps all keys below a prefix.
func namespaced(t testing.TB, servers []string) *etcdtest.Process {
	t.Helper()
	p := etcdtest.NewClient(t, servers, nil)
	p.Client.KV = namespace.NewKV(p.Client.KV, prefix)
	p.Client.Watcher = namespace.NewWatcher(p.Client.Watcher, prefix)
	p.Client.Lease = namespace.NewLease(p.Client.Lease, prefix)
	p.Backend = etcdtest.NewBackend(t, p.Client)
	return p
}

// All rules hold with a client that keeps its keys below a prefix.
func TestConformanceNamespaced(t *testing.T) {
	servertest.Long(t, "another minute: all of TestConformanceSingle, below a prefix")
	servers := etcdtest.Single(t)
	conformance.TestBackendParallel(t, func(t testing.TB) *conformance.Service {
		svc := servers.Service(ttl)(t)
		svc.Name = "etcd, namespaced"
		svc.Client = func(t testing.TB) *conformance.Client { return namespaced(t, servers.Addrs()).Conformance() }
		svc.Delete = func(key string) error { return etcdtest.DeleteAll(servers.Addrs(), prefix+key) }
		svc.Put = func(key string, value []byte) error { return etcdtest.PutAll(servers.Addrs(), prefix+key, value) }
		return svc
	})
}

// No key is written outside the namespace, and conditions work in it.
func TestNamespaceIsKept(t *testing.T) {
	t.Parallel()
	server := etcdtest.Single(t)
	f := setUpWith(t, 30*time.Second, namespaced(t, server.Addrs()))
	f.Enqueue(f.S)
	f.LoseReply(etcdtest.MatchKind(backend.OpEnqueue))
	e := f.Enqueue(f.S)
	cmps := must.Get(etcd.Cmps(f.Ctx, f.S, backend.IfExists(e)))(t)
	answer := must.Get(f.Client.Txn(f.Ctx).If(cmps...).Then(clientv3.OpPut(f.Dir+"/x", "")).Commit())(t)
	assert.True(t, answer.Succeeded)
	all := must.Get(f.operator().Get(f.Ctx, "\x00", clientv3.WithFromKey(), clientv3.WithKeysOnly()))(t)
	assert.NotEmpty(t, all.Kvs)
	for _, kv := range all.Kvs {
		assert.Regexp(t, "^"+prefix+"/", string(kv.Key))
	}
}

// A client with TLS works without further settings, and so does its connection for heartbeats.
func TestTLS(t *testing.T) {
	t.Parallel()
	proxy, config := proxytest.TLSForTest(t, shared.ForTest(t).Addr()) // ends after the session
	endpoint := "https://" + proxy.Addr()
	f := setUp(t, 30*time.Second, func(cfg *clientv3.Config) { cfg.Endpoints, cfg.TLS = []string{endpoint, endpoint}, config })
	f.beats()
	e, next := f.Enqueue(f.S), f.Enqueue(f.S)
	waiting := f.armed(e, next)
	proxy.Cut()
	f.AwaitState(f.S, backend.Live)
	f.Discard(f.S, e)
	wait.Value(f.T, waiting)

	// Strangers are not trusted.
	p := etcdtest.NewProcess(t, nil, func(cfg *clientv3.Config) {
		cfg.Endpoints, cfg.TLS = []string{endpoint}, config.Clone()
		cfg.TLS.RootCAs = nil
	})
	_, err := p.Backend.Open(f.Ctx, backend.OpenOptions{TTL: time.Hour}) // long enough for a handshake on any machine
	require.ErrorIs(t, err, backend.ErrUnavailable)
	require.ErrorContains(t, err, "certificate")
}

// If the fence may not be put, later commits do not wait for a commit that was given up.
func TestFenceThatMayNotBePut(t *testing.T) {
	g := newGuarded(t)
	g.grant("bob", "/a", "/a0", mayRead)
	g.grant("bob", "/a/one", "", mayWrite)
	owner := g.setUp("ann", "/a")
	one := owner.put(owner.S, "/a/one", "")

	f := g.setUp("bob", "/b")
	sent := f.DelayRequest(etcdtest.MatchKind(backend.OpUpdate), 5*time.Second)
	short, end := context.WithCancel(g.ctx)
	defer end()
	late := wait.Later(func() ([]backend.Entry, error) { return f.S.Commit(short, nil, backend.Update(one, []byte("late"))) })
	wait.For(t, "it is on its way", sent)
	end()
	_, err := wait.Returned(f.T, late)
	require.ErrorIs(t, err, backend.ErrIndeterminate)
	f.Commit(f.S, backend.Update(one, []byte("later")))
}

// A user that may not write a key of a session may not end the session.
func TestWillWithoutTheRight(t *testing.T) {
	g := newGuarded(t)
	f := g.setUp("ann", "/a/d")
	f.Enqueue(f.S)
	w := must.Get(f.S.Will())(t)
	require.ErrorIs(t, backend.Execute(g.ctx, g.process("bob").Backend, w), backend.ErrDenied)
	assert.Equal(t, backend.Live, f.S.State())
	require.NoError(t, backend.Execute(g.ctx, g.process("ann").Backend, w))
}

// A user that may read the entry, and nothing below it, sees no strangers, and gets no error for that.
func TestSurveyWithoutRights(t *testing.T) {
	g := newGuarded(t)
	g.grant("eve", "/e", "", mayRead)
	s := g.setUp("eve", "").S
	survey := func(key string) (backend.Entry, error) {
		e, strangers, err := s.Survey(g.ctx, key, nil)
		assert.Empty(t, strangers)
		return e, err
	}
	e, err := survey("/e")
	require.NoError(t, err)
	assert.False(t, e.Exists())
	for _, key := range []string{"/e", "/e/below"} {
		_, err = g.root.Put(g.ctx, key, "x")
		require.NoError(t, err)
	}
	e = must.Get(survey("/e"))(t)
	assert.Equal(t, "x", string(e.Value))
	_, err = survey("/f")
	require.ErrorIs(t, err, backend.ErrDenied)
}
