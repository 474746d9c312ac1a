package zookeeper_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
)

func TestPitfall10CallsEndWithTheirContext(t *testing.T) {
	f := setUp(t, nil)
	e := f.enqueue(f.s)
	f.Proxies[0].Stall()
	// More than the library's queue holds (16).
	ctx, cancel := context.WithTimeout(f.ctx, 200*time.Millisecond)
	defer cancel()
	var reads []<-chan result[backend.Entry]
	for range 40 {
		reads = append(reads, later(func() (backend.Entry, error) { return f.s.Get(ctx, e.Key) }))
	}
	writing := later(func() ([]backend.Entry, error) { return f.s.Commit(ctx, nil, backend.Enqueue(f.dir, nil)) })
	for _, read := range reads {
		_, err := receive(f, read)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	_, err := receive(f, writing)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, backend.ErrIndeterminate)
	assert.NotEqual(t, backend.Lost, f.s.State(), "they did not wait for the end of the session")
	f.Proxies[0].Unstall()
	// The late result is cleaned up.
	wait.For(t, "no ghost", func() bool {
		l, err := f.s.List(f.ctx, f.dir)
		require.NoError(t, err)
		return len(l.Keys) == 1 && l.Keys[0] == e.Key
	})
}

func TestPitfall11ConnectionClosedIsUnknown(t *testing.T) {
	f := setUp(t, nil)
	for _, lose := range []func(func(int32, []byte) bool){f.LoseReply, f.LoseRequest} {
		lose(zktest.MatchKind(backend.OpEnqueue))
		e := f.enqueue(f.s)
		l, err := f.s.List(f.ctx, f.dir)
		require.NoError(t, err)
		assert.Equal(t, []string{e.Key}, l.Keys, "once, and no more")
		got, err := f.s.Get(f.ctx, e.Key)
		require.NoError(t, err)
		assert.True(t, got.Same(e))
		require.NoError(t, f.s.Discard(f.ctx, e))
	}
}

func TestPitfall12ForeignChildrenAndLostReplies(t *testing.T) {
	f := setUp(t, nil)
	admin := zktest.Operator(t, f.server.Addr())
	for _, name := range []string{"_c_", "_c_x", "e-", "n_0000000001", "lock-0000000001"} {
		require.NoError(t, zktest.PutAll(admin, f.dir+"/"+name, nil))
	}
	// Another's entry with this session's number in its name, but not its own.
	fake := fmt.Sprintf("e-%s-%016x-%010d", f.s.ID(), 1, 0)
	require.NoError(t, zktest.PutAll(admin, f.dir+"/"+fake, nil))
	f.LoseReply(zktest.MatchKind(backend.OpEnqueue))
	e := f.enqueue(f.s)
	assert.Equal(t, f.s.ID(), e.Session)
	l, err := f.s.List(f.ctx, f.dir)
	require.NoError(t, err)
	assert.Equal(t, []string{f.dir + "/" + fake, e.Key}, l.Keys)
	// It is persistent, so it would never go: nobody waits for it.
	before, err := f.s.Predecessor(f.ctx, e)
	require.NoError(t, err)
	assert.False(t, before.Exists(), "%+v", before)
}

func TestPitfall13CloseIsBoundedAndHonest(t *testing.T) {
	f := setUp(t, sessionTimeout(time.Minute))
	e := f.enqueue(f.s)
	other := f.open()
	require.NoError(t, f.s.Close(f.ctx))
	_, err := other.Get(f.ctx, e.Key)
	require.ErrorIs(t, err, backend.ErrNoEntry, "close has confirmed, so it is gone")

	e = f.enqueue(other)
	f.Proxies[0].Stall()
	ctx, cancel := context.WithTimeout(f.ctx, 200*time.Millisecond)
	defer cancel()
	err = other.Close(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "did not confirm")
	// Called again it waits for the goroutines, and knows no more.
	err = other.Close(f.ctx)
	assert.ErrorContains(t, err, "did not confirm")
	assert.True(t, time.Now().Before(other.Deadline()), "it waited for the end of the window")
	f.Proxies[0].Unstall()
}

func TestPitfall14CredentialsAfterReconnect(t *testing.T) {
	f := setUp(t, func(cfg *zookeeper.Config) { cfg.Auth = []zookeeper.Auth{zookeeper.Digest("ann", "secret")} })
	foreign := zktest.NewProcess(t, []string{f.server.Addr()}, nil)
	stranger, err := foreign.Backend.Open(f.ctx, backend.OpenOptions{})
	require.NoError(t, err)
	defer stranger.Close(f.ctx)
	_, err = stranger.Commit(f.ctx, nil, backend.Enqueue(f.dir, nil))
	require.ErrorIs(t, err, backend.ErrDenied)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	_, err = stranger.Commit(f.ctx, nil, backend.CompareAndSet("/of-a-stranger", nil, 0), backend.CompareAndSet(f.dir+"/x", nil, 0))
	require.ErrorIs(t, err, backend.ErrDenied)
	require.ErrorContains(t, err, f.dir+"/x: access denied", "the node that was refused is named")
	_, err = stranger.List(f.ctx, f.dir)
	require.ErrorIs(t, err, backend.ErrDenied)
	for range 3 {
		f.Cut()
		f.enqueue(f.s)
	}

	refused := zktest.NewProcess(t, f.Servers, func(cfg *zookeeper.Config) {
		cfg.Auth = []zookeeper.Auth{{Scheme: "nonsense", Credentials: []byte("x")}}
	})
	_, err = refused.Backend.Open(f.ctx, backend.OpenOptions{})
	require.ErrorIs(t, err, backend.ErrDenied)
	require.ErrorIs(t, err, zk.ErrAuthFailed)
}

func TestPitfall15OneLookupFails(t *testing.T) {
	server := servertest.SharedZooKeeper(t)
	p := zktest.NewProcess(t, []string{server.Addr()}, func(cfg *zookeeper.Config) {
		cfg.Servers = append(cfg.Servers, "no-such-host.invalid:2181", "neither.invalid:2181")
	})
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	s, err := p.Backend.Open(ctx, backend.OpenOptions{})
	require.NoError(t, err)
	defer s.Close(ctx)
	p.Cut()
	_, err = s.Get(ctx, "/test")
	if err != nil {
		require.ErrorIs(t, err, backend.ErrNoEntry)
	}

	none := zktest.NewProcess(t, nil, func(cfg *zookeeper.Config) { cfg.Servers = []string{"no-such-host.invalid:2181"} })
	_, err = none.Backend.Open(ctx, backend.OpenOptions{})
	require.ErrorIs(t, err, backend.ErrUnavailable)
	var dns *net.DNSError
	require.ErrorAs(t, err, &dns)
}

func TestPitfall16RevisionsAreCzxids(t *testing.T) {
	f := setUp(t, nil)
	admin := zktest.Operator(t, f.server.Addr())
	made := f.commit(f.s, backend.Enqueue(f.dir, []byte("a")), backend.CreateEphemeral(f.dir+"/seat", []byte("b")), backend.CompareAndSet(f.dir+"/sub", []byte("c"), 0))
	made = append(made, f.commit(f.s, backend.CompareAndSet(f.dir+"/alone", nil, 0))...)
	made = append(made, f.enqueue(f.s))
	made = append(made, f.commit(f.s, backend.CreateEphemeral(f.dir+"/chair", nil))...)
	for _, e := range made {
		_, stat, err := admin.Get(e.Key)
		require.NoError(t, err)
		assert.Equal(t, uint64(stat.Czxid), e.Rev, e.Key)
		assert.EqualValues(t, stat.Version+1, e.Version, e.Key)
	}
	children, _, err := admin.Children(f.dir)
	require.NoError(t, err)
	assert.Len(t, children, 6, "nothing but the entries stays")
}

func TestPitfall17LargeLists(t *testing.T) {
	t.Parallel()
	f := setUp(t, nil)
	admin := zktest.Operator(t, f.server.Addr())
	// 1.8 MB of names: more than the library's buffer of 1.5 MB, and more than the
	// server takes in a request.
	const batch, batches = 250, 8
	for i := range batches {
		var ops []any
		for j := range batch {
			path := fmt.Sprintf("%s/%s%05d", f.dir, strings.Repeat("x", 900), i*batch+j)
			ops = append(ops, &zk.CreateRequest{Path: path, Acl: zk.WorldACL(zk.PermAll)})
		}
		_, err := admin.Multi(ops...)
		require.NoError(t, err)
	}
	e := f.enqueue(f.s)
	l, err := f.s.List(f.ctx, f.dir)
	require.NoError(t, err)
	assert.Equal(t, []string{e.Key}, l.Keys)

	small := zktest.NewProcess(t, f.Servers, func(cfg *zookeeper.Config) {
		cfg.MaxResponse = 64 << 10
	})
	s, err := small.Backend.Open(f.ctx, backend.OpenOptions{})
	require.NoError(t, err)
	defer s.Close(f.ctx)
	_, err = s.List(f.ctx, f.dir)
	require.ErrorContains(t, err, "over Config.MaxResponse")
	_, err = s.Get(f.ctx, e.Key)
	require.NoError(t, err, "the session goes on")

	_, err = f.s.Commit(f.ctx, nil, backend.Enqueue(f.dir, make([]byte, 1<<20)))
	require.ErrorIs(t, err, backend.ErrTooLarge)
	require.ErrorContains(t, err, "over the server's limit of 1048575 (Config.MaxRequest)")
	// About the largest that fits does, so that the limit is the server's own.
	for size := 1<<20 - 1; ; size -= 16 {
		made, err := f.s.Commit(f.ctx, nil, backend.Enqueue(f.dir, make([]byte, size)))
		if err == nil {
			assert.Greater(t, size, 1<<20-1024)
			assert.EqualValues(t, 1, made[0].Version)
			break
		}
		require.ErrorIs(t, err, backend.ErrTooLarge)
	}
	assert.Equal(t, backend.Live, f.s.State())
}

func TestPitfall18CallsAfterClose(t *testing.T) {
	f := setUp(t, nil)
	e := f.enqueue(f.s)
	waiting := later(func() ([]backend.Entry, error) { return f.s.Await(f.ctx, e) })
	require.NoError(t, f.s.Close(f.ctx))
	_, err := receive(f, waiting)
	require.ErrorIs(t, err, backend.ErrSessionLost)
	for name, do := range map[string]func() error{
		"get":         func() error { _, err := f.s.Get(f.ctx, e.Key); return err },
		"list":        func() error { _, err := f.s.List(f.ctx, f.dir); return err },
		"await":       func() error { _, err := f.s.Await(f.ctx, e); return err },
		"await list":  func() error { _, err := f.s.AwaitList(f.ctx, backend.Listing{Dir: f.dir}); return err },
		"predecessor": func() error { _, err := f.s.Predecessor(f.ctx, e); return err },
		"commit":      func() error { _, err := f.s.Commit(f.ctx, nil, backend.Enqueue(f.dir, nil)); return err },
		"drop":        func() error { return f.s.Discard(f.ctx, e) },
	} {
		require.ErrorIs(t, do(), backend.ErrSessionLost, name)
	}
	require.NoError(t, f.s.Close(f.ctx))
}

// Pitfall 19 in the server: the sequence begins anew when a directory is made
// anew, so it is no token; the revision rises all the same.
func TestPitfall19SequenceRestarts(t *testing.T) {
	f := setUp(t, nil)
	first := f.enqueue(f.s)
	require.NoError(t, zktest.DeleteAll(zktest.Operator(t, f.server.Addr()), f.dir))
	f.commit(f.s, backend.CompareAndSet(f.dir, nil, 0))
	second := f.enqueue(f.s)
	assert.Equal(t, first.Key[len(first.Key)-10:], second.Key[len(second.Key)-10:])
	assert.Greater(t, second.Rev, first.Rev)
	_, err := f.s.Commit(f.ctx, []backend.Condition{backend.IfExists(first)}, backend.Enqueue(f.dir, nil))
	require.ErrorIs(t, err, backend.ErrCondition)
}

// A read right after a reconnection may show less than what the lost commit has done, and a sync
// is answered by a deposed leader, too.
func TestPitfall20VoteBeforeResolving(t *testing.T) {
	f := setUp(t, pings)
	requests := f.countRequests()
	f.LoseReply(zktest.MatchKind(backend.OpEnqueue))
	f.enqueue(f.s)
	assert.Equal(t, []int32{
		proxytest.OpMulti, proxytest.OpConnect,
		proxytest.OpMulti, proxytest.OpChildren2, proxytest.OpGetData,
	}, requests.all()[:5]) // then it looks for what was done late
}

// A fair handover: the one candidate that waits learns of it by the event, and
// finds that it is the oldest, without asking anything.
func TestHandoverTakesNoRoundTrip(t *testing.T) {
	f := setUp(t, pings)
	leading := zktest.NewProcess(t, []string{f.server.Addr()}, nil)
	leader, err := leading.Backend.Open(f.ctx, backend.OpenOptions{})
	require.NoError(t, err)
	first := f.enqueue(leader)
	own := f.enqueue(f.s)
	last := f.enqueue(f.open())
	before, err := f.s.Predecessor(f.ctx, own)
	require.NoError(t, err)
	assert.True(t, before.Same(first))
	waiting := later(func() ([]backend.Entry, error) { return f.s.Await(f.ctx, own, before) })
	wait.For(t, "watches", func() bool {
		return watchesOf(t, f.server, own.Key) == 1 && watchesOf(t, f.server, first.Key) == 1
	})
	requests := f.countRequests()
	require.NoError(t, leader.Close(f.ctx))
	got, err := receive(f, waiting)
	require.NoError(t, err)
	assert.True(t, got[0].Same(own))
	assert.False(t, got[1].Exists())
	assert.Empty(t, requests.all(), "asked after the event")
	before, err = f.s.Predecessor(f.ctx, own)
	require.NoError(t, err)
	assert.False(t, before.Exists())
	assert.Empty(t, requests.all(), "asked who is before it, though nobody was left")
	assert.Zero(t, watchesOf(t, f.server, last.Key))
}
