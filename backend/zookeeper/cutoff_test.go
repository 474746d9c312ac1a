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
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// cutOff starts an ensemble with one follower that reaches the leader through a proxy, and returns that
// follower, the leader and the proxy.
func cutOff(t *testing.T, extra ...string) (follower, leader *servertest.ZooKeeper, link *proxytest.Proxy) {
	t.Helper()
	e := servertest.EnsembleForTest(t, 3, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, Extra: extra})
	leader = must.Get(e.WaitLeader(wait.Patience))(t)
	follower = e.Followers()[0]
	path := filepath.Join(follower.Dir(), "zoo.cfg")
	text := must.Get(os.ReadFile(path))(t)
	line := regexp.MustCompile(fmt.Sprintf(`(?m)^server\.%d=127\.0\.0\.1:(\d+):(.+)$`, leader.ID()))
	found := line.FindSubmatch(text)
	require.NotNil(t, found, string(text))
	link = proxytest.ForTest(t, "127.0.0.1:"+string(found[1]))
	text = line.ReplaceAll(text, fmt.Appendf(nil, "server.%d=%s:%s", leader.ID(), link.Addr(), found[2]))
	require.NoError(t, follower.Stop())
	require.NoError(t, os.WriteFile(path, text, 0o644))
	require.NoError(t, follower.Start())
	still := must.Get(e.WaitLeader(wait.Patience))(t)
	require.Same(t, leader, still)
	require.Positive(t, link.Accepted(), "the follower does not go through the proxy")
	return follower, leader, link
}

func TestCutOffFollower(t *testing.T) {
	follower, leader, link := cutOff(t, "syncLimit=100")
	near := setUpOn(t, follower, sessionTimeout(6*time.Second))
	far := process(t, []string{leader.Addr()}, nil)
	e, other := near.Enqueue(near.S), far.open()
	must.Get(other.Get(far.Ctx, e.Key))(t)
	link.Stall()
	cut := time.Now()
	got := must.Get(other.Await(far.Ctx, e))(t)
	require.False(t, got[0].Exists())
	left := time.Until(near.S.Deadline())
	t.Logf("removed %v after the cut; the session is %v and has %v left", time.Since(cut), near.S.State(), left)
	wait.For(t, "the session is lost", func() bool { return near.S.State() == backend.Lost })
	link.Unstall()
	require.Negative(t, left, "the service has removed the entry while the window was open")
}

// If a follower forwards an abandoned write after its session has moved to another server, the leader
// refuses it: it does not undo what the session has written there.
func TestLateForward(t *testing.T) {
	follower, leader, link := cutOff(t, "syncLimit=150")
	f := process(t, []string{follower.Addr(), leader.Addr()}, nil)
	first, second := f.Proxies[0], f.Proxies[1]
	second.Refuse(true)
	f.begin()
	made := f.Get(f.S, f.Dir)

	link.StallToServer()
	short, end := context.WithCancel(f.Ctx)
	defer end()
	defer first.OnRequest(func(opcode int32, _ []byte) {
		if opcode == proxytest.OpSetData {
			time.AfterFunc(100*time.Millisecond, end) // the follower has it then
		}
	})()
	_, err := f.S.Commit(short, nil, backend.Update(made, []byte("late")))
	require.ErrorIs(t, err, backend.ErrIndeterminate)
	second.Refuse(false)
	first.Refuse(true)
	first.Cut()
	later := f.Commit(f.S, backend.Update(made, []byte("later")))[0]
	link.Unstall()

	// All requests that the follower receives from now on come after it has forwarded all earlier ones.
	first.Refuse(false)
	other := setUpOn(t, follower, nil)
	got := other.Get(other.S, made.Key)
	require.Equal(t, "later", string(got.Value))
	require.True(t, got.Same(later), "%+v", got)
}
