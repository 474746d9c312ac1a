//go:build unix

package servertest

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/process"
	"github.com/elector-go/elector/internal/wait"
)

var (
	fast       = ZooKeeperConfig{NoSync: true, QuickStart: true, HeapMB: 128}
	fastEtcd   = EtcdConfig{NoSync: true}
	fastConsul = ConsulConfig{NoSync: true}
)

// kv is a server of any kind to which the tests write keys.
type kv interface {
	Member
	Dir() string
	PID() int
	Restart() error

	put(key string) error
	has(key string) (bool, error)
}

type comparableKV interface {
	kv
	comparable
}

// each runs a test for each kind in parallel: the tests mostly wait.
func each(t *testing.T, test map[string]func(t *testing.T)) {
	for name, f := range test {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			f(t)
			t.Logf("%v in all", time.Since(begin))
		})
	}
}

func TestLifecycle(t *testing.T) {
	each(t, map[string]func(t *testing.T){
		"zookeeper":  func(t *testing.T) { checkLifecycle(t, ZooKeeperForTest(t, fast)) },
		"etcd":       func(t *testing.T) { checkLifecycle(t, EtcdForTest(t, fastEtcd)) },
		"consul":     func(t *testing.T) { checkLifecycle(t, ConsulForTest(t, fastConsul)) },
		"kubernetes": func(t *testing.T) { checkLifecycle(t, KubeAPIForTest(t, KubeAPIConfig{NoSync: true})) },
	})
}

func TestCluster(t *testing.T) {
	each(t, map[string]func(t *testing.T){
		"zookeeper": func(t *testing.T) { checkCluster(t, EnsembleForTest(t, 3, fast)) },
		"etcd":      func(t *testing.T) { checkCluster(t, EtcdClusterForTest(t, 3, fastEtcd)) },
		"consul":    func(t *testing.T) { checkCluster(t, ConsulClusterForTest(t, 3, fastConsul)) },
	})
}

func TestClusterOnNetwork(t *testing.T) {
	each(t, map[string]func(t *testing.T){
		"zookeeper": func(t *testing.T) {
			cfg := fast
			cfg.Network = networktest.ForTest(t, 3)
			checkCutOff(t, cfg.Network, EnsembleForTest(t, 3, cfg))
		},
		"etcd": func(t *testing.T) {
			cfg := fastEtcd
			cfg.Network = networktest.ForTest(t, 5)
			checkCutOff(t, cfg.Network, EtcdClusterForTest(t, 5, cfg))
		},
		"consul": func(t *testing.T) {
			cfg := fastConsul
			cfg.Network = networktest.ForTest(t, 4)
			c := ConsulClusterForTest(t, 3, cfg)
			agent := ConsulAgentForTest(t, c.Members, cfg)
			require.Equal(t, 3, agent.Host(), "the agent's")
			require.NoError(t, agent.put("by-agent"))
			checkHas(t, c.Members[0], "by-agent", true)
			require.NoError(t, agent.Close())
			checkCutOff(t, cfg.Network, c)
		},
	})
}

func TestStartFailureShowsTheLog(t *testing.T) {
	for inLog, start := range map[string]func() error{
		"nonsense": func() error {
			cfg := fast
			cfg.Extra = []string{"tickTime=nonsense"}
			_, err := StartZooKeeper(cfg)
			return err
		},
		"no-such-flag": func() error {
			_, err := StartEtcd(EtcdConfig{NoSync: true, Args: []string{"--no-such-flag"}})
			return err
		},
		"no_such_key": func() error {
			_, err := StartConsul(ConsulConfig{NoSync: true, Config: "no_such_key = 1"})
			return err
		},
	} {
		if err := start(); !errors.Is(err, process.ErrNotRunning) || !strings.Contains(err.Error(), inLog) {
			t.Errorf("%s: error %v", inLog, err)
		}
	}
}

func checkHas(t *testing.T, s kv, key string, want bool) {
	t.Helper()
	got := must.Get(s.has(key))(t)
	require.Equal(t, want, got, "%s has %s", s.Name(), key)
}

// checkLifecycle takes a server that is alone from one state to the next.
func checkLifecycle(t *testing.T, s kv) {
	t.Helper()
	require.NoError(t, s.put("kept"))
	require.Error(t, s.Start(), "started twice")

	addr, pid := s.Addr(), s.PID()
	require.NoError(t, s.Kill())
	require.False(t, s.Running() || !process.Gone(pid), "running after Kill")
	require.Error(t, s.put("lost"), "a killed server answers")
	begin := time.Now()
	require.NoError(t, s.Start())
	t.Logf("back %v after a kill", time.Since(begin))
	require.False(t, s.Addr() != addr || s.PID() == pid, "not the same server again")
	checkHas(t, s, "kept", true)
	begin = time.Now()
	require.NoError(t, s.Stop())
	t.Logf("stopped in %v", time.Since(begin))
	require.NoError(t, s.Restart())
	checkHas(t, s, "kept", true)

	require.NoError(t, s.Pause())
	answered := make(chan error, 1)
	go func() {
		_, err := s.has("kept")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("a paused server answered: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	require.NoError(t, s.Resume())
	require.NoError(t, <-answered)
	require.NoError(t, s.Pause())
	require.NoError(t, s.Wipe()) // works on a paused server
	require.NoError(t, s.Start())
	checkHas(t, s, "kept", false)

	pid = s.PID()
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	if _, err := os.Stat(s.Dir()); !os.IsNotExist(err) || !process.Gone(pid) {
		t.Fatalf("Close left something behind: %v", err)
	}
	require.ErrorIs(t, s.Start(), ErrClosed)
}

// checkCluster takes the leader, the quorum and the data from a cluster of three.
func checkCluster[S comparableKV](t *testing.T, c *Cluster[S]) {
	t.Helper()
	old := must.Get(c.Leader())(t)
	if len(c.Addrs()) != 3 || len(c.Followers()) != 2 {
		t.Fatalf("members at %v, of which %d follow", c.Addrs(), len(c.Followers()))
	}
	require.NoError(t, old.put("before"))

	begin := time.Now()
	require.NoError(t, old.Kill())
	leader := must.Get(c.WaitLeader(wait.Patience))(t)
	t.Logf("new leader %v after the kill", time.Since(begin))
	require.False(t, leader == old, "a dead server leads")
	checkHas(t, leader, "before", true)

	begin = time.Now()
	require.NoError(t, leader.Pause())
	_, err := c.Leader()
	require.ErrorIs(t, err, ErrNotServing, "one of three servers leads")
	for _, s := range c.Members {
		if s == old || s == leader {
			continue
		}
		_, late := any(s).(*ZooKeeper) // a follower serves until syncLimit
		wait.For(t, "the one of three says that it does not serve", func() bool {
			err := s.WaitReady(time.Second)
			require.False(t, err == nil && !late, "one of three servers serves")
			return errors.Is(err, ErrNotServing)
		})
	}
	require.NoError(t, leader.Resume())
	t.Logf("without a quorum for %v", time.Since(begin))

	begin = time.Now()
	require.NoError(t, old.Wipe())
	require.NoError(t, c.Start())
	t.Logf("complete again after %v", time.Since(begin))
	checkHas(t, old, "before", true)
	for _, s := range c.Members {
		require.NoError(t, s.Kill())
	}
	begin = time.Now()
	require.NoError(t, c.Start())
	t.Logf("all back after %v", time.Since(begin))
	checkHas(t, old, "before", true)
	// The member that came back is a full one: with it there is a quorum.
	for _, s := range c.Members {
		if s != old {
			require.NoError(t, s.Kill())
			break
		}
	}
	leader = must.Get(c.WaitLeader(wait.Patience))(t)
	checkHas(t, leader, "before", true)

	var pids []int
	for _, s := range c.Members {
		require.NoError(t, s.Wipe())
	}
	begin = time.Now()
	require.NoError(t, c.Start())
	t.Logf("founded again in %v", time.Since(begin))
	for _, s := range c.Members {
		checkHas(t, s, "before", false)
		pids = append(pids, s.PID())
	}
	require.NoError(t, c.Close())
	for _, pid := range pids {
		assert.False(t, pid == 0 || !process.Gone(pid), "process %d is left after Close", pid)
	}
}

// checkCutOff cuts the leader off, waits for another one, heals the network and waits until all serve.
func checkCutOff[S comparableKV](t *testing.T, w *networktest.Network, c *Cluster[S]) {
	t.Helper()
	old := must.Get(c.Leader())(t)
	for i, s := range c.Members {
		require.Equal(t, i, s.Host(), "the member's")
	}
	begin := time.Now()
	require.NoError(t, w.CutOff(old.Host()))
	// A Consul leader dials the member that is cut off, for ten seconds each time, before it answers
	// consistent reads.
	for {
		leader := must.Get(c.WaitLeader(wait.Patience))(t)
		if leader != old {
			break
		}
		require.False(t, time.Since(begin) > wait.Patience, "the one that is cut off leads for good")
	}
	t.Logf("new leader %v after the cut", time.Since(begin))
	require.NoError(t, w.Heal())
	begin = time.Now()
	for _, s := range c.Members {
		require.NoError(t, s.WaitReady(wait.Patience))
	}
	t.Logf("all serve %v after it was healed", time.Since(begin))
	require.NoError(t, c.Close())
	require.NoError(t, w.Close())
	left := must.Get(w.Names())(t)
	assert.Empty(t, left)
}
