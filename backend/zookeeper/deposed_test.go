package zookeeper_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
)

// apart is an ensemble of three whose members can be cut off from each other, and one process
// that can be led from one to the other.
type apart struct {
	*zktest.Process
	network  *networktest.Network
	ensemble *servertest.Ensemble
	leader   int
	rest     []int
	removed  *lines // how many entries were found to be made late
}

// lines counts what is written to it with some text.
type lines struct {
	text []byte
	n    atomic.Int64
}

func (c *lines) Write(p []byte) (int, error) {
	if bytes.Contains(p, c.text) {
		c.n.Add(1)
	}
	return len(p), nil
}

func setUpApart(t *testing.T) *apart {
	t.Helper()
	a := &apart{network: networktest.ForTest(t, 3), removed: &lines{text: []byte("long after its link had broken")}}
	a.ensemble = servertest.EnsembleForTest(t, 3, servertest.ZooKeeperConfig{
		NoSync: true, QuickStart: true, HeapMB: 128, Network: a.network,
		TickTime: 2 * time.Second, Extra: []string{"syncLimit=15", "initLimit=15"}, // they wait for each other for 30 s
	})
	a.Process = zktest.NewProcess(t, a.ensemble.Addrs(), func(cfg *zookeeper.Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(a.removed, nil))
	})
	leader, err := a.ensemble.Leader()
	require.NoError(t, err)
	a.leader = leader.Host()
	for host := range a.ensemble.Members {
		if host != a.leader {
			a.rest = append(a.rest, host)
		}
	}
	return a
}

// only leaves one member that the process can reach.
func (a *apart) only(host int) {
	for i, x := range a.Proxies {
		if x.Refuse(i != host); i != host {
			x.Cut()
		}
	}
}

// An Enqueue is done by a new leader, and its reply is lost. Then it is given up, and the session
// goes to the old leader, which is cut off and does not know it: it answers a sync by itself, and
// shows nothing of the entry. What is in doubt must not be taken for settled there: the entry
// would stand in the session for ever.
func TestLostReplyAtADeposedLeader(t *testing.T) {
	p := setUpApart(t)
	network, ensemble, only, old, rest := p.network, p.ensemble, p.only, p.leader, p.rest
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	defer cancel()
	only(old)
	s, err := p.Backend.Open(ctx, backend.OpenOptions{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.Close(context.Background())) }()
	const dir = "/deposed"
	_, err = s.Commit(ctx, nil, backend.CompareAndSet(dir, nil, 0))
	require.NoError(t, err)

	// The old leader hears of nothing.
	for _, host := range rest {
		require.NoError(t, network.Cut(old, host))
	}
	for _, host := range rest {
		require.NoError(t, network.Reset(host, old))
	}
	wait.For(t, "the others have a leader", func() bool {
		for _, host := range rest {
			mode, err := ensemble.Members[host].Mode()
			if err != nil || mode != "leader" && mode != "follower" {
				return false
			}
		}
		return true
	})
	held, release := p.Proxies[rest[0]].HoldReply(func(op int32, _ []byte) bool {
		return op != proxytest.OpConnect && op != proxytest.OpPing
	})
	defer release()
	only(rest[0])
	wait.For(t, "the old link is given up", func() bool { return s.State() != backend.Live })
	giving, give := context.WithCancel(ctx)
	given := make(chan error, 1)
	go func() {
		_, err := s.Commit(giving, nil, backend.Enqueue(dir, []byte("ghost")))
		given <- err
	}()
	for done := false; !done; {
		select {
		case request := <-held:
			done = request.Opcode == proxytest.OpMulti && strings.Contains(string(request.Payload), dir)
		case <-ctx.Done():
			t.Fatal("the commit has not come to the new leader")
		}
	}
	give()
	require.ErrorIs(t, <-given, backend.ErrIndeterminate)
	looked := make(chan struct{}, 1)
	stop := p.Proxies[old].OnRequest(func(op int32, _ []byte) {
		if op == proxytest.OpSync || op == proxytest.OpMulti {
			select {
			case looked <- struct{}{}:
			default:
			}
		}
	})
	only(old)
	release()
	select {
	case <-looked:
	case <-ctx.Done():
		t.Fatal("the session is not at the old leader")
	}
	time.Sleep(500 * time.Millisecond) // so that it may look there, were it to trust it
	stop()
	require.NoError(t, network.Heal())
	only(rest[1])
	wait.For(t, "the entry goes", func() bool {
		l, err := s.List(ctx, dir)
		return err == nil && len(l.Keys) == 0
	})
	assert.NotEqual(t, backend.Lost, s.State())
}

// An Enqueue waits in a follower's connection to the leader, and is done when the session has
// been at another server, where it was sent again, and comes back. Nobody has asked for a second
// entry: it would stand in the session for ever, and block the election. An Update that is done late
// does nothing.
func TestRequestWaitsInAFollower(t *testing.T) {
	p := setUpApart(t)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	defer cancel()
	p.only(p.rest[0])
	s, err := p.Backend.Open(ctx, backend.OpenOptions{})
	require.NoError(t, err)
	crowd := zktest.Operator(t, p.ensemble.Addrs()[p.rest[0]])
	// Whether the leader handles the session's return first is a matter of its threads.
	rounds := 0
	for ; rounds < 10 && p.removed.n.Load() == 0; rounds++ {
		p.waits(ctx, t, s, crowd, fmt.Sprintf("/waiting%d", rounds))
	}
	t.Logf("%d late entries removed in %d rounds", p.removed.n.Load(), rounds)
	require.NoError(t, s.Close(ctx))
}

// waits is one round: see TestRequestWaitsInAFollower.
func (a *apart) waits(ctx context.Context, t *testing.T, s *backend.Session, crowd *zk.Conn, dir string) {
	t.Helper()
	follower := a.rest[0]
	_, err := s.Commit(ctx, nil, backend.CompareAndSet(dir, nil, 0))
	require.NoError(t, err)
	made, err := s.Commit(ctx, nil, backend.Enqueue(dir, []byte("first")))
	require.NoError(t, err)
	first := made[0]
	seen := func(is func(op int32, payload string) bool) <-chan struct{} {
		seen := make(chan struct{})
		once := sync.OnceFunc(func() { close(seen) })
		t.Cleanup(a.Proxies[follower].OnRequest(func(op int32, payload []byte) {
			if is(op, string(payload)) {
				once()
			}
		}))
		return seen
	}
	enqueued := seen(func(op int32, payload string) bool {
		return op == proxytest.OpMulti && strings.Contains(payload, dir) && strings.Contains(payload, "second")
	})
	set := seen(func(op int32, payload string) bool {
		return op == proxytest.OpSetData && strings.Contains(payload, dir) && strings.Contains(payload, "early")
	})

	require.NoError(t, a.network.Drop(follower, a.leader))
	var asked sync.WaitGroup
	for i := range 1000 { // the leader has these to do before it comes to what follows them
		asked.Go(func() { _, _ = crowd.Set(dir, fmt.Appendf(nil, "%d", i), -1) })
	}
	second := later(func() ([]backend.Entry, error) { return s.Commit(ctx, nil, backend.Enqueue(dir, []byte("second"))) })
	early := later(func() ([]backend.Entry, error) { return s.Commit(ctx, nil, backend.Update(first, []byte("early"))) })
	<-enqueued
	<-set
	a.only(a.leader)
	got := <-second
	require.NoError(t, got.err)
	require.NoError(t, (<-early).err)
	_, err = s.Commit(ctx, nil, backend.Update(first, []byte("later")))
	require.NoError(t, err)
	back := seen(func(op int32, _ string) bool { return op == proxytest.OpConnect })
	a.only(follower)
	<-back
	time.Sleep(100 * time.Millisecond) // so that the session's return is on its way, too
	require.NoError(t, a.network.Heal())
	asked.Wait()
	// This is done after all that has waited.
	_, err = s.Commit(ctx, nil, backend.CompareAndSet(dir+"/end", nil, 0))
	require.NoError(t, err)
	wait.For(t, "no other entry", func() bool {
		l, err := s.List(ctx, dir)
		require.NoError(t, err)
		return slices.Equal(l.Keys, []string{first.Key, got.v[0].Key})
	})
	now, err := s.Get(ctx, first.Key)
	require.NoError(t, err)
	assert.Equal(t, "later", string(now.Value))
	for _, e := range []backend.Entry{first, got.v[0]} {
		require.NoError(t, s.Discard(ctx, e))
	}
}
