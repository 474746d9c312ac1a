package zookeeper_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
)

// The tests named TestPitfallNN cover what the client library does wrong, or leaves to its user, and
// how this package handles it. Some have no test here, as rules of the suite cover them:
//
//	03  an expiry is not learnt without contact: session/suspended-too-long, session/late-requests
//	06  watches over a disconnection and an expiry: session/suspended-briefly, session/expired
//	08  events that come faster than they are read: session/close
//	10  calls block on a full queue: errors/unanswered
//	11  "connection closed" says nothing of the outcome: lost-reply/once, lost-request/once
//	13  closing says nothing of the service, and may take long: errors/unanswered, session/close
//	18  calls after Close: session/close
//	19  the sequence starts again with its directory, and is no token: await/operator, write/revisions

func TestPitfall01ConnectReturnsAtOnce(t *testing.T) {
	f := process(t, []string{servertest.SharedZooKeeper(t).Addr()}, func(cfg *zookeeper.Config) { cfg.ConnectTimeout = cfg.SessionTimeout })
	f.Proxies[0].StallToClient()
	opening := wait.Later(func() (*backend.Session, error) { return f.Backend.Open(f.Ctx, backend.OpenOptions{}) })
	wait.For(t, "it connects", func() bool { return len(f.Proxies[0].Links()) == 1 })
	select {
	case r := <-opening:
		t.Fatalf("open returned %v before the session was granted", r)
	default:
	}
	f.Proxies[0].Unstall()
	s := wait.Value(f.T, opening)
	assert.Equal(t, backend.Live, s.State())
	assert.Equal(t, fmt.Sprintf("%016x", uint64(zookeeper.Conn(s).SessionID())), s.ID())
	require.NoError(t, s.Close(f.Ctx))
}

// The rule session/expired covers that an expired session stays lost. The library's own connection is
// another way to write.
func TestPitfall02NewSessionAfterExpiry(t *testing.T) {
	t.Parallel()
	f := setUp(t, nil)
	unpinned := f.counts(func(opcode int32, payload []byte) bool {
		return opcode == proxytest.OpConnect && strings.HasPrefix(string(payload[16:]), strings.Repeat("\x00", 8))
	})
	conn := zookeeper.Conn(f.S)
	made := must.Get(conn.Create(f.Dir+"/users", nil, 0, zk.WorldACL(zk.PermAll)))(t)
	assert.Equal(t, f.Dir+"/users", made, "what a session changes in its own creates, it leaves in a user's")
	f.Expire()
	wait.For(t, "the session is lost", func() bool { return f.S.State() == backend.Lost })
	_, err := conn.Create(f.Dir+"/x", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.Error(t, err)
	require.NoError(t, f.S.Close(f.Ctx))
	assert.Zero(t, unpinned(), "requests for another session")
	assert.Equal(t, 1, f.Sessions())
}

func TestPitfall04GrantedTimeout(t *testing.T) {
	t.Parallel()
	f := setUpOn(t, servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, TickTime: 10 * time.Second}), pings)
	for asked, granted := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 20 * time.Second, // two ticks
		30 * time.Second:       30 * time.Second,
		24 * time.Hour:         time.Minute,
	} {
		before := time.Now()
		s := must.Get(f.Backend.Open(f.Ctx, backend.OpenOptions{TTL: asked}))(t)
		assert.Equal(t, granted, s.TTL(), "asked for %v", asked)
		// The window counts from the grant.
		assert.False(t, s.Deadline().Before(before.Add(granted*3/4)))
		assert.False(t, s.Deadline().After(time.Now().Add(granted*3/4)))
		require.NoError(t, s.Close(f.Ctx))
	}
}

func TestPitfall05SuspendedBeforeTheWindowEnds(t *testing.T) {
	servertest.Long(t, "a machine that loses no second: so much is left of the window")
	f := setUp(t, func(cfg *zookeeper.Config) {
		pings(cfg)
		cfg.SessionTimeout = 12 * time.Second // a second of the window is left then
	})
	f.Proxies[0].Stall()
	f.AwaitState(f.S, backend.Suspended)
	assert.True(t, time.Now().Before(f.S.Deadline()), "declared dead after the end of the window")
	f.Proxies[0].Cut()
	f.Proxies[0].Unstall()
	f.AwaitState(f.S, backend.Live)
}

func TestPitfall07WatchesThatAreNotSetAgain(t *testing.T) {
	var log logged
	f := setUp(t, func(cfg *zookeeper.Config) {
		cfg.MaxRequest = 16 << 10
		cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	away := f.another(nil)
	// More watches than fit into a request of the client library's buffer: setting them again would
	// fail, and be only logged. The library has none to set.
	var known []backend.Entry
	for i := range 50 {
		dir := fmt.Sprintf("%s/%s%d", f.Dir, strings.Repeat("d", 400), i)
		known = append(known, away.Commit(away.S, backend.CompareAndSet(dir, nil, 0), backend.Enqueue(dir, nil))[1])
	}
	waiting := f.awaits(known...)
	f.Get(f.S, f.Dir) // earlier replies have been handled
	f.Suspend()
	require.NoError(t, away.S.Discard(f.Ctx, known[17]))
	f.Resume()
	got := wait.Value(f.T, waiting)
	assert.False(t, got[17].Exists())
	assert.True(t, got[18].Same(known[18]))
	wait.For(t, "what the library says of both links is logged", func() bool { return log.count("authenticated") > 1 })
	assert.Zero(t, log.count("Failed to set previous watches"))
}

func TestPitfall09OneWatchPerPath(t *testing.T) {
	f := setUp(t, pings)
	e, before := f.Enqueue(f.S), f.Enqueue(f.S)
	requests := f.requests()
	for range 50 {
		ctx, cancel := context.WithTimeout(f.Ctx, time.Millisecond)
		_, err := f.S.Await(ctx, e, before)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	assert.LessOrEqual(t, len(requests()), 2, "one read for each path, for all calls together")
	wait.For(t, "a watch", func() bool { return f.watchesOf(e.Key) == 1 })
	require.NoError(t, f.S.Discard(f.Ctx, e))
	got := must.Get(f.S.Await(f.Ctx, e))(t)
	assert.False(t, got[0].Exists())
	assert.Zero(t, f.watchesOf(e.Key), "a watch stays on a node that is gone")
}

// The rule read/foreign covers that foreign names are harmless.
func TestPitfall12ForeignChildrenAndLostReplies(t *testing.T) {
	f := setUp(t, nil)
	admin := f.admin()
	// Another session's entry with this session's number in its name.
	fake := fmt.Sprintf("e-%s-%016x-%010d", f.S.ID(), 1, 0)
	for _, name := range []string{"_c_", "_c_x", "e-", "n_0000000001", "lock-0000000001", fake} {
		require.NoError(t, zktest.PutAll(admin, f.Dir+"/"+name, nil))
	}
	f.LoseReply(zktest.MatchKind(backend.OpEnqueue))
	e := f.Enqueue(f.S)
	assert.Equal(t, f.S.ID(), e.Session)
	f.Lists(f.S, backend.Entry{Key: f.Dir + "/" + fake}, e)
	f.Follows(f.S, e, backend.Entry{}) // the other is persistent, so it would never go: no candidate waits for it
}

func TestPitfall14CredentialsAfterReconnect(t *testing.T) {
	f := setUp(t, func(cfg *zookeeper.Config) { cfg.Auth = []zookeeper.Auth{zookeeper.Digest("ann", "secret")} })
	stranger := f.another(nil).S
	f.Refused(stranger, backend.Enqueue(f.Dir, nil), backend.ErrDenied, zk.ErrNoAuth)
	_, err := stranger.Commit(f.Ctx, nil, backend.CompareAndSet("/of-a-stranger", nil, 0), backend.CompareAndSet(f.Dir+"/x", nil, 0))
	require.ErrorIs(t, err, backend.ErrDenied)
	require.ErrorContains(t, err, f.Dir+"/x: access denied", "the node that was refused is named")
	_, err = stranger.List(f.Ctx, f.Dir)
	require.ErrorIs(t, err, backend.ErrDenied)
	for range 3 {
		f.Cut()
		f.Enqueue(f.S)
	}

	refused := process(t, f.Servers, func(cfg *zookeeper.Config) {
		cfg.Auth = []zookeeper.Auth{{Scheme: "nonsense", Credentials: []byte("x")}}
	})
	_, err = refused.Backend.Open(f.Ctx, backend.OpenOptions{})
	require.ErrorIs(t, err, backend.ErrDenied)
	require.ErrorIs(t, err, zk.ErrAuthFailed)
}

func TestPitfall15OneLookupFails(t *testing.T) {
	f := process(t, []string{servertest.SharedZooKeeper(t).Addr()}, func(cfg *zookeeper.Config) {
		cfg.Servers = append(cfg.Servers, "no-such-host.invalid:2181", "neither.invalid:2181")
	})
	s := f.open()
	f.Cut()
	if _, err := s.Get(f.Ctx, "/test"); err != nil {
		require.ErrorIs(t, err, backend.ErrNoEntry)
	}

	none := process(t, nil, func(cfg *zookeeper.Config) { cfg.Servers = []string{"no-such-host.invalid:2181"} })
	_, err := none.Backend.Open(f.Ctx, backend.OpenOptions{})
	require.ErrorIs(t, err, backend.ErrUnavailable)
	var dns *net.DNSError
	require.ErrorAs(t, err, &dns)
}

func TestPitfall16RevisionsAreCzxids(t *testing.T) {
	f := setUp(t, nil)
	admin := f.admin()
	made := f.Commit(f.S, backend.Enqueue(f.Dir, []byte("a")), backend.CreateEphemeral(f.Dir+"/seat", []byte("b")), backend.CompareAndSet(f.Dir+"/sub", []byte("c"), 0))
	made = append(made, f.Commit(f.S, backend.CompareAndSet(f.Dir+"/alone", nil, 0))...)
	made = append(made, f.Enqueue(f.S), f.create(f.S, f.Dir+"/chair"))
	for _, e := range made {
		_, stat, err := admin.Get(e.Key)
		require.NoError(t, err)
		assert.Equal(t, uint64(stat.Czxid), e.Rev, e.Key)
		assert.EqualValues(t, stat.Version+1, e.Version, e.Key)
	}
	children := must.First(admin.Children(f.Dir))(t)
	assert.Len(t, children, 6, "nothing but the entries stays")
}

func TestPitfall17LargeLists(t *testing.T) {
	t.Parallel()
	f := setUp(t, nil)
	admin := f.admin()
	// 1.8 MB of names: more than the library's buffer of 1.5 MB, and more than the server accepts in a
	// request.
	const batch, batches = 250, 8
	for i := range batches {
		var ops []any
		for j := range batch {
			path := fmt.Sprintf("%s/%s%05d", f.Dir, strings.Repeat("x", 900), i*batch+j)
			ops = append(ops, &zk.CreateRequest{Path: path, Acl: zk.WorldACL(zk.PermAll)})
		}
		must.Get(admin.Multi(ops...))(t)
	}
	e := f.Enqueue(f.S)
	f.Lists(f.S, e)

	small := f.another(func(cfg *zookeeper.Config) { cfg.MaxResponse = 64 << 10 })
	_, err := small.S.List(f.Ctx, f.Dir)
	require.ErrorContains(t, err, "over Config.MaxResponse")
	small.Get(small.S, e.Key) // the session continues
}

// A read right after a reconnection may show less than what the lost commit has done, and a deposed
// leader also replies to a sync.
func TestPitfall20VoteBeforeResolving(t *testing.T) {
	f := setUp(t, pings)
	requests := f.requests()
	f.LoseReply(zktest.MatchKind(backend.OpEnqueue))
	f.Enqueue(f.S)
	assert.Equal(t, []int32{
		proxytest.OpCreate2, proxytest.OpConnect,
		proxytest.OpMulti, proxytest.OpChildren2, proxytest.OpGetData,
	}, requests()[:5]) // then it looks for what was done late
}

// In a fair handover the waiting candidate learns of it by the event, and finds that it is the oldest,
// without any request.
func TestHandoverTakesNoRoundTrip(t *testing.T) {
	f := setUp(t, pings)
	leader := f.another(nil)
	first := f.Enqueue(leader.S)
	own := f.Enqueue(f.S)
	last := f.Enqueue(f.open())
	f.Follows(f.S, own, first)
	waiting := f.awaits(own, first)
	requests := f.requests()
	require.NoError(t, leader.S.Close(f.Ctx))
	got := wait.Value(f.T, waiting)
	assert.True(t, got[0].Same(own))
	assert.False(t, got[1].Exists())
	assert.Empty(t, requests(), "asked after the event")
	f.Follows(f.S, own, backend.Entry{})
	assert.Empty(t, requests(), "asked who is before it, though nobody was left")
	assert.Zero(t, f.watchesOf(last.Key))
}
