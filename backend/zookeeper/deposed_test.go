package zookeeper_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/zktest"
)

// An Enqueue is done by a new leader, and its reply is lost. Then it is given up, and the session
// goes to the old leader, which is cut off and does not know it: it answers a sync by itself, and
// shows nothing of the entry. What is in doubt must not be taken for settled there: the entry
// would stand in the session for ever.
func TestLostReplyAtADeposedLeader(t *testing.T) {
	network := servertest.NetworkForTest(t, 3)
	ensemble := servertest.EnsembleForTest(t, 3, servertest.ZooKeeperConfig{
		NoSync: true, QuickStart: true, HeapMB: 128, Network: network,
		TickTime: 2 * time.Second, Extra: []string{"syncLimit=10", "initLimit=10"}, // it leads on for 20 s
	})
	ctx, cancel := context.WithTimeout(t.Context(), 80*time.Second)
	defer cancel()
	p := zktest.NewProcess(t, ensemble.Addrs(), func(cfg *zookeeper.Config) { cfg.SessionTimeout = 20 * time.Second })
	only := func(host int) {
		for i, x := range p.Proxies {
			if x.Refuse(i != host); i != host {
				x.Cut()
			}
		}
	}
	leader, err := ensemble.Leader()
	require.NoError(t, err)
	old := leader.Host()
	var rest []int
	for host := range ensemble.Members {
		if host != old {
			rest = append(rest, host)
		}
	}
	only(old)
	s, err := p.Backend.Open(ctx, backend.OpenOptions{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.Close(context.Background())) }()
	const dir = "/deposed"
	_, err = s.Commit(ctx, nil, backend.Put(dir, nil, 0))
	require.NoError(t, err)

	// The old leader hears of nothing.
	for _, host := range rest {
		require.NoError(t, network.Cut(old, host))
	}
	for _, host := range rest {
		require.NoError(t, network.Reset(host, old))
	}
	eventually(t, "the others have a leader", func() bool {
		for _, host := range rest {
			mode, err := ensemble.Members[host].Mode()
			if err != nil || mode != "leader" && mode != "follower" {
				return false
			}
		}
		return true
	})
	held, release := p.Proxies[rest[0]].HoldReply(func(op int32, _ []byte) bool {
		return op != servertest.OpConnect && op != servertest.OpPing
	})
	defer release()
	only(rest[0])
	eventually(t, "the old link is given up", func() bool { return s.State() != backend.Live })
	giving, give := context.WithCancel(ctx)
	given := make(chan error, 1)
	go func() {
		_, err := s.Commit(giving, nil, backend.Enqueue(dir, []byte("ghost")))
		given <- err
	}()
	for done := false; !done; {
		select {
		case request := <-held:
			done = request.Opcode == servertest.OpMulti && strings.Contains(string(request.Payload), dir)
		case <-ctx.Done():
			t.Fatal("the commit has not come to the new leader")
		}
	}
	give()
	require.ErrorIs(t, <-given, backend.ErrIndeterminate)
	looked := make(chan struct{}, 1)
	stop := p.Proxies[old].OnRequest(func(op int32, _ []byte) {
		if op == servertest.OpSync || op == servertest.OpMulti {
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
	eventually(t, "the entry goes", func() bool {
		l, err := s.List(ctx, dir)
		return err == nil && len(l.Keys) == 0
	})
	assert.NotEqual(t, backend.Lost, s.State())
}
