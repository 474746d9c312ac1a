package zookeeper_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
)

// cutOff makes an ensemble one of whose followers reaches the leader through a
// proxy, and returns that follower, the leader and the proxy.
func cutOff(t *testing.T, extra ...string) (follower, leader *servertest.ZooKeeper, link *proxytest.Proxy) {
	t.Helper()
	e := servertest.EnsembleForTest(t, 3, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, Extra: extra})
	leader, err := e.WaitLeader(wait.Patience)
	require.NoError(t, err)
	follower = e.Followers()[0]
	path := filepath.Join(follower.Dir(), "zoo.cfg")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	line := regexp.MustCompile(fmt.Sprintf(`(?m)^server\.%d=127\.0\.0\.1:(\d+):(\d+)$`, leader.ID()))
	found := line.FindSubmatch(text)
	require.NotNil(t, found, string(text))
	link = proxytest.ForTest(t, "127.0.0.1:"+string(found[1]))
	text = line.ReplaceAll(text, fmt.Appendf(nil, "server.%d=%s:%s", leader.ID(), link.Addr(), found[2]))
	require.NoError(t, follower.Stop())
	require.NoError(t, os.WriteFile(path, text, 0o644))
	require.NoError(t, follower.Start())
	still, err := e.WaitLeader(wait.Patience)
	require.NoError(t, err)
	require.Same(t, leader, still)
	require.Positive(t, link.Accepted(), "the follower does not go through the proxy")
	return follower, leader, link
}

func TestCutOffFollower(t *testing.T) {
	follower, leader, link := cutOff(t, "syncLimit=100")
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	near := zktest.NewProcess(t, []string{follower.Addr()}, sessionTimeout(6*time.Second))
	far := zktest.NewProcess(t, []string{leader.Addr()}, nil)
	s, err := near.Backend.Open(ctx, backend.OpenOptions{})
	require.NoError(t, err)
	defer s.Close(ctx)
	other, err := far.Backend.Open(ctx, backend.OpenOptions{})
	require.NoError(t, err)
	defer other.Close(ctx)
	dir := newRoot()
	made, err := s.Commit(ctx, nil, backend.CompareAndSet(dir, nil, 0), backend.Enqueue(dir, nil))
	require.NoError(t, err)
	_, err = other.Get(ctx, made[1].Key)
	require.NoError(t, err)
	link.Stall()
	cut := time.Now()
	got, err := other.Await(ctx, made[1])
	require.NoError(t, err)
	require.False(t, got[0].Exists())
	left := time.Until(s.Deadline())
	t.Logf("removed %v after the cut; the session is %v and has %v left", time.Since(cut), s.State(), left)
	for st := s.State(); st != backend.Lost; {
		st, _ = s.AwaitState(ctx, st)
		t.Logf("%v: %v", time.Since(cut), st)
	}
	link.Unstall()
	require.Negative(t, left, "the service has removed the entry while the window was open")
}
