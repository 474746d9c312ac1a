//go:build unix

package servertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/wait"
)

// checkCutOff cuts the leader off and awaits another, and that all serve when it is over.
func checkCutOff[S interface {
	member
	comparable
	Host() int
}](t *testing.T, w *networktest.Network, c *cluster[S]) {
	t.Helper()
	old, err := c.Leader()
	require.NoError(t, err)
	for i, s := range c.Members {
		if s.Host() != i {
			t.Fatalf("member %d has host %d", i, s.Host())
		}
	}
	begin := time.Now()
	require.NoError(t, w.CutOff(old.Host()))
	// A leader of Consul's dials the one that is cut off, ten seconds each time, before it
	// answers consistent reads.
	for {
		leader, err := c.WaitLeader(wait.Patience)
		require.NoError(t, err)
		if leader != old {
			break
		}
		if time.Since(begin) > wait.Patience {
			t.Fatal("the one that is cut off leads for good")
		}
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
	left, err := w.Names()
	require.NoError(t, err)
	if len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestEnsembleOnNetwork(t *testing.T) {
	t.Parallel() // it mostly waits
	cfg := fast
	cfg.Network = networktest.ForTest(t, 3)
	checkCutOff(t, cfg.Network, EnsembleForTest(t, 3, cfg).cluster)
}

func TestEtcdClusterOnNetwork(t *testing.T) {
	t.Parallel() // it mostly waits
	cfg := fastEtcd
	cfg.Network = networktest.ForTest(t, 5)
	checkCutOff(t, cfg.Network, EtcdClusterForTest(t, 5, cfg).cluster)
}

func TestConsulClusterOnNetwork(t *testing.T) {
	t.Parallel() // it mostly waits
	cfg := ConsulConfig{NoSync: true, Network: networktest.ForTest(t, 4)}
	c := ConsulClusterForTest(t, 3, cfg)
	agent := ConsulAgentForTest(t, c.Members, cfg)
	if agent.Host() != 3 {
		t.Fatalf("the agent has host %d", agent.Host())
	}
	require.NoError(t, agent.put("by-agent"))
	checkHas(t, c.Members[0], "by-agent", true)
	require.NoError(t, agent.Close())
	checkCutOff(t, cfg.Network, c.cluster)
}
