package etcd_test

import (
	"context"
	"fmt"
	"sync"
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
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/catalog"
)

// as makes the client that of a user.
func as(user string) func(*clientv3.Config) {
	return func(cfg *clientv3.Config) { cfg.Username, cfg.Password = user, "secret" }
}

// guarded starts a server with authentication. The users ann and bob may touch
// nothing but /a and /b, and what is below.
func guarded(t *testing.T, ctx context.Context, args ...string) *servertest.Etcd {
	t.Helper()
	// By default a busy processor takes a second and more to check a password.
	server := etcdtest.Single(t, append(args, "--bcrypt-cost=4")...).Members[0]
	operator := etcdtest.Operator(t, server.Addr())
	add := func(user, role string) {
		_, err := operator.UserAdd(ctx, user, "secret")
		require.NoError(t, err)
		_, err = operator.UserGrantRole(ctx, user, role)
		require.NoError(t, err)
	}
	_, err := operator.RoleAdd(ctx, "root")
	require.NoError(t, err)
	add("root", "root")
	for user, top := range map[string]string{"ann": "/a", "bob": "/b"} {
		_, err := operator.RoleAdd(ctx, user)
		require.NoError(t, err)
		_, err = operator.RoleGrantPermission(ctx, user, top, top+"0", clientv3.PermissionType(clientv3.PermReadWrite))
		require.NoError(t, err)
		add(user, user)
	}
	_, err = operator.AuthEnable(ctx)
	require.NoError(t, err)
	return server
}

// A user that may touch one range of keys alone finds all that it needs there.
func TestAuthByKeyRanges(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	server := guarded(t, ctx)
	p := etcdtest.NewProcess(t, []string{server.Addr()}, as("ann"))
	f := &fixture{t: t, ctx: ctx, Process: p, dir: "/a/d"}
	f.s = f.open(30 * time.Second)
	f.commit(f.s, backend.CompareAndSet(f.dir, nil, 0))
	f.commit(f.s, backend.CompareAndSet("/a/deep/down/x", nil, 0))

	// Each op, and each with its reply or its request lost.
	for name, lose := range map[string]func(etcdtest.Match){
		"no fault": func(etcdtest.Match) {}, "lost reply": f.LoseReply, "lost request": f.LoseRequest,
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			lose(etcdtest.MatchKind(backend.OpEnqueue))
			first := f.enqueue(f.s)
			lose(etcdtest.MatchKind(backend.OpEnqueue))
			second := f.enqueue(f.s)
			lose(etcdtest.MatchKind(backend.OpCreateEphemeral))
			seat := f.commit(f.s, backend.CreateEphemeral(f.dir+"/seat", nil))[0]
			lose(etcdtest.MatchKind(backend.OpCompareAndSet))
			record := f.commit(f.s, backend.CompareAndSet(f.dir+"/record/"+name, []byte(name), 0))[0]
			lose(etcdtest.MatchKind(backend.OpUpdate))
			seat = f.commit(f.s, backend.Update(seat, []byte(name)))[0]
			l, err := f.s.List(ctx, f.dir)
			require.NoError(t, err)
			assert.Equal(t, []string{first.Key, second.Key}, l.Keys)
			before, err := f.s.Predecessor(ctx, second)
			require.NoError(t, err)
			assert.True(t, before.Same(first))
			waiting := f.awaits(f.s, first, second)
			lose(etcdtest.MatchKind(backend.OpDelete))
			f.commit(f.s, backend.Delete(first))
			_, err = receive(f, waiting)
			require.NoError(t, err)
			_, err = f.s.Commit(ctx, []backend.Condition{backend.IfExists(second)}, backend.Delete(seat), backend.Delete(record))
			require.NoError(t, err)
			require.NoError(t, f.s.Discard(ctx, second))
		})
	}
	f.t = t

	// Elsewhere it is refused, whatever is asked.
	denied := func(what string, err error) {
		t.Helper()
		require.ErrorIs(t, err, backend.ErrDenied, what)
		require.ErrorIs(t, err, rpctypes.ErrPermissionDenied, what)
	}
	_, err := f.s.Get(ctx, "/b")
	denied("get", err)
	_, err = f.s.List(ctx, "/b")
	denied("list", err)
	_, err = f.s.AwaitList(ctx, backend.Listing{Dir: "/b"})
	denied("await list", err)
	_, err = f.s.Await(ctx, backend.Entry{Key: "/b/x"})
	denied("await", err)
	for _, op := range []backend.Op{
		backend.CompareAndSet("/b/x", nil, 0), backend.CreateEphemeral("/b/x", nil), backend.Enqueue("/b", nil), backend.CompareAndSet("/c", nil, 0),
		backend.Update(backend.Entry{Key: "/b", Rev: 1}, nil), backend.Delete(backend.Entry{Key: "/b", Rev: 1}),
	} {
		_, err = f.s.Commit(ctx, nil, op)
		denied(op.Kind.String(), err)
	}
	_, err = f.s.Commit(ctx, []backend.Condition{backend.IfExists(backend.Entry{Key: "/b", Rev: 1})})
	denied("guard", err)
	f.state(backend.Live)
	require.NoError(t, f.s.Close(ctx))

	// Elections, each below its own user's key.
	for _, item := range catalog.All() {
		strategy := item.Strategy
		e := newElector(f, f.Backend, strategy, "/a/"+strategy.Name(), "1")
		term, err := e.Campaign(ctx)
		require.NoError(t, err)
		_, err = term.Commit(ctx, elector.Put("/a/written-by-"+strategy.Name(), nil))
		require.NoError(t, err)
		_, err = term.Commit(ctx, elector.Put("/b/x", nil))
		require.ErrorIs(t, err, backend.ErrDenied)
		require.NoError(t, e.Close(ctx))
		_, err = newElector(f, f.Backend, strategy, "/b/"+strategy.Name(), "1").Campaign(ctx)
		require.ErrorIs(t, err, backend.ErrDenied)
	}
}

// Credentials that the servers don't take are said to be so, and not tried for ever.
func TestAuthRefused(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	server := guarded(t, ctx)
	_, err := etcdtest.NewProcess(t, []string{server.Addr()}, nil).Backend.Open(ctx, backend.OpenOptions{})
	require.ErrorIs(t, err, backend.ErrDenied, "no user at all")

	// A user that is removed while it has a session.
	f := setUpUser(t, ctx, server.Addr(), "ann", "/a/d")
	root := etcdtest.NewClient(t, []string{server.Addr()}, as("root")).Client
	_, err = root.RoleRevokePermission(ctx, "ann", "/a", "/a0")
	require.NoError(t, err)
	_, err = f.s.Get(ctx, f.dir)
	require.ErrorIs(t, err, backend.ErrDenied)
	_, err = f.s.Commit(ctx, nil, backend.Enqueue(f.dir, nil))
	require.ErrorIs(t, err, backend.ErrDenied)
}

// A commit that is refused says which rights it takes: the servers do not. With these it is done.
func TestDeniedCommitSaysWhatItNeeds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	server := guarded(t, ctx)
	root := etcdtest.NewClient(t, []string{server.Addr()}, as("root")).Client
	grant := func(from, end string, kind clientv3.PermissionType) {
		t.Helper()
		_, err := root.RoleGrantPermission(ctx, "bob", from, end, kind)
		require.NoError(t, err)
	}
	read, readwrite := clientv3.PermissionType(clientv3.PermRead), clientv3.PermissionType(clientv3.PermReadWrite)
	p := etcdtest.NewProcess(t, []string{server.Addr()}, as("bob"))
	f := &fixture{t: t, ctx: ctx, Process: p}
	f.s = f.open(30 * time.Second)
	denied := func(says string, op backend.Op) {
		t.Helper()
		_, err := f.s.Commit(ctx, nil, op)
		require.ErrorIs(t, err, backend.ErrDenied)
		require.ErrorIs(t, err, rpctypes.ErrPermissionDenied)
		require.ErrorContains(t, err, says)
	}

	// The parents are made where they are missing.
	record := backend.CompareAndSet("/c/fresh", nil, 0)
	grant("/c/fresh", "/c/fresh0", readwrite)
	denied(`(it needs read on "/c", readwrite on "/c/fresh" to "/c/fresh.")`, record)
	grant("/c", "", read)
	denied(`(it needs readwrite on "/c", readwrite on "/c/fresh" to "/c/fresh.")`, record)
	grant("/c", "", readwrite)
	f.commit(f.s, record)
	denied(`readwrite on "/x/" to "/x0"`, backend.Enqueue("/x", nil))

	// A key is written beside its fence, and deleted where nothing is below it.
	grant("/c/state", "", readwrite)
	state := backend.CompareAndSet("/c/state", nil, 0)
	denied(`readwrite on "/c/state" to "/c/state."`, state)
	grant("/c/state", "/c/state.", readwrite)
	made := f.commit(f.s, state)[0]
	denied(`read on "/c/state/" to "/c/state0"`, backend.Delete(made))
	grant("/c/state/", "/c/state0", read)
	f.commit(f.s, backend.Delete(made))

	// What many keys need is cut short.
	var many []backend.Op
	for i := range 20 {
		many = append(many, backend.CompareAndSet(fmt.Sprintf("/d/%02d", i), nil, 0))
	}
	_, err := f.s.Commit(ctx, nil, many...)
	require.ErrorIs(t, err, backend.ErrDenied)
	require.ErrorContains(t, err, "and 14 more)")
}

// A stream of watches keeps the token with which it was opened. When that has run out no
// watch can be added to it.
func TestTokenOfTheWatchesRunsOut(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	server := guarded(t, ctx, "--auth-token-ttl=2")
	f := setUpUser(t, ctx, server.Addr(), "ann", "/a/d")
	other := setUpUser(t, ctx, server.Addr(), "ann", "/a/other")
	first, second := f.enqueue(f.s), other.enqueue(other.s)
	waiting := f.armed(first)
	// The session finds out by itself, and leaves the stream. This keeps it, and its token.
	f.Client.Watch(clientv3.WithRequireLeader(ctx), first.Key)
	refused := func() bool { // by a watch that is made on the same stream
		probe, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
		defer cancel()
		answer, made := <-f.Client.Watch(probe, second.Key, clientv3.WithCreatedNotify())
		return !made || answer.Err() != nil
	}
	require.Eventually(t, refused, wait.Patience, 4*time.Second, "the token runs out while nothing is asked")

	listing, err := f.s.List(ctx, other.dir)
	require.NoError(t, err)
	before := f.WatchesMade()
	gone := f.awaits(f.s, second)
	listed := later(func() (backend.Listing, error) { return f.s.AwaitList(ctx, listing) })
	wait.For(t, "watches", func() bool { return f.WatchesMade() >= before+2 })
	still(f, waiting)
	require.NoError(t, other.s.Discard(ctx, second))
	_, err = receive(f, gone)
	require.NoError(t, err)
	_, err = receive(f, listed)
	require.NoError(t, err)
	require.NoError(t, f.s.Discard(ctx, first))
	_, err = receive(f, waiting)
	require.NoError(t, err)
}

// Who may only read cannot help an entry into its place. It hears of it when it is there.
func TestReaderMeetsAnEntryOnItsWay(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	server := guarded(t, ctx)
	root := etcdtest.NewClient(t, []string{server.Addr()}, as("root")).Client
	_, err := root.UserAdd(ctx, "eve", "secret")
	require.NoError(t, err)
	_, err = root.RoleAdd(ctx, "eve")
	require.NoError(t, err)
	_, err = root.RoleGrantPermission(ctx, "eve", "/a", "/a0", clientv3.PermissionType(clientv3.PermRead))
	require.NoError(t, err)
	_, err = root.UserGrantRole(ctx, "eve", "eve")
	require.NoError(t, err)

	f := setUpUser(t, ctx, server.Addr(), "ann", "/a/d")
	slow := setUpUser(t, ctx, server.Addr(), "ann", "/a/other")
	reader := (&fixture{t: t, ctx: ctx, Process: etcdtest.NewProcess(t, []string{server.Addr()}, as("eve"))}).open(30 * time.Second)
	first := f.enqueue(f.s)
	reached, release := make(chan struct{}), make(chan struct{})
	slow.beforeSecondStep(sync.OnceFunc(func() { close(reached); <-release }))
	arriving := later(func() ([]backend.Entry, error) { return slow.s.Commit(ctx, nil, backend.Enqueue(f.dir, nil)) })
	<-reached
	require.NoError(t, f.s.Discard(ctx, first))
	l, err := reader.List(ctx, f.dir)
	require.NoError(t, err)
	for _, key := range l.Keys {
		_, err = reader.Get(ctx, key)
		assert.NoError(t, err, "what is listed is there")
	}
	waiting := later(func() (backend.Listing, error) { return reader.AwaitList(ctx, l) })
	close(release)
	made, err := receive(f, arriving)
	require.NoError(t, err)
	l, err = receive(f, waiting)
	require.NoError(t, err)
	assert.Equal(t, []string{made[0].Key}, l.Keys)
}

func setUpUser(t *testing.T, ctx context.Context, server, user, dir string) *fixture {
	t.Helper()
	f := &fixture{t: t, ctx: ctx, Process: etcdtest.NewProcess(t, []string{server}, as(user)), dir: dir}
	f.s = f.open(30 * time.Second)
	f.commit(f.s, backend.CompareAndSet(dir, nil, 0))
	return f
}

const prefix = "some/where"

// namespaced is a process whose client keeps all keys below a prefix.
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

// No key is written outside the namespace, and the condition works in it.
func TestNamespaceIsKept(t *testing.T) {
	t.Parallel()
	server := etcdtest.Single(t)
	f := setUpWith(t, 30*time.Second, namespaced(t, server.Addrs()))
	f.enqueue(f.s)
	f.LoseReply(etcdtest.MatchKind(backend.OpEnqueue))
	e := f.enqueue(f.s)
	cmps, err := etcd.Cmps(f.ctx, f.s, backend.IfExists(e))
	require.NoError(t, err)
	answer, err := f.Client.Txn(f.ctx).If(cmps...).Then(clientv3.OpPut(f.dir+"/x", "")).Commit()
	require.NoError(t, err)
	assert.True(t, answer.Succeeded)
	all, err := f.operator().Get(f.ctx, "\x00", clientv3.WithFromKey(), clientv3.WithKeysOnly())
	require.NoError(t, err)
	assert.NotEmpty(t, all.Kvs)
	for _, kv := range all.Kvs {
		assert.Regexp(t, "^"+prefix+"/", string(kv.Key))
	}
}

// A client with TLS needs nothing of this package.
func TestTLS(t *testing.T) {
	t.Parallel()
	proxy, config, err := proxytest.NewTLS(sharedServer(t).Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = proxy.Close() }) // after the session
	f := setUpOn(t, 30*time.Second, func(cfg *clientv3.Config) {
		cfg.Endpoints, cfg.TLS = []string{"https://" + proxy.Addr()}, config
	})
	e, next := f.enqueue(f.s), f.enqueue(f.s)
	waiting := f.armed(e, next)
	proxy.Cut()
	f.state(backend.Live)
	require.NoError(t, f.s.Discard(f.ctx, e))
	_, err = receive(f, waiting)
	require.NoError(t, err)

	// Strangers are not trusted.
	p := etcdtest.NewProcess(t, nil, func(cfg *clientv3.Config) {
		cfg.Endpoints, cfg.TLS = []string{"https://" + proxy.Addr()}, config.Clone()
		cfg.TLS.RootCAs = nil
	})
	_, err = p.Backend.Open(f.ctx, backend.OpenOptions{TTL: time.Hour}) // which is time for a handshake on any machine
	require.ErrorIs(t, err, backend.ErrUnavailable)
	require.ErrorContains(t, err, "certificate")
}

// Where the fence may not be put, a commit that was given up cannot be kept from coming. Later
// ones do not wait for that.
func TestFenceThatMayNotBePut(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	server := guarded(t, ctx)
	root := etcdtest.NewClient(t, []string{server.Addr()}, as("root")).Client
	_, err := root.RoleGrantPermission(ctx, "bob", "/a", "/a0", clientv3.PermissionType(clientv3.PermRead))
	require.NoError(t, err)
	_, err = root.RoleGrantPermission(ctx, "bob", "/a/one", "", clientv3.PermissionType(clientv3.PermReadWrite))
	require.NoError(t, err)
	owner := setUpUser(t, ctx, server.Addr(), "ann", "/a")
	one := owner.commit(owner.s, backend.CompareAndSet("/a/one", nil, 0))[0]

	f := setUpUser(t, ctx, server.Addr(), "bob", "/b")
	sent := f.DelayRequest(etcdtest.MatchKind(backend.OpUpdate), 5*time.Second)
	short, end := context.WithCancel(ctx)
	defer end()
	late := later(func() ([]backend.Entry, error) { return f.s.Commit(short, nil, backend.Update(one, []byte("late"))) })
	wait.For(t, "it is on its way", sent)
	end()
	_, err = receive(f, late)
	require.ErrorIs(t, err, backend.ErrIndeterminate)
	f.commit(f.s, backend.Update(one, []byte("later")))
}
