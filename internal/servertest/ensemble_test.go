//go:build unix

package servertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/wait"
)

func TestEnsemble(t *testing.T) {
	begin := time.Now()
	e := EnsembleForTest(t, 3, fast)
	t.Logf("started in %v", time.Since(begin))
	old, err := e.Leader()
	require.NoError(t, err)
	if got := len(e.Followers()); got != 2 || len(e.Addrs()) != 3 {
		t.Fatalf("%d followers at %v", got, e.Addrs())
	}
	conn := connect(t, 20*time.Second, e.Addrs()...)
	create(t, conn, "/before", 0)

	begin = time.Now()
	require.NoError(t, old.Kill())
	leader, err := e.WaitLeader(wait.Patience)
	require.NoError(t, err)
	t.Logf("new leader %v after the kill", time.Since(begin))
	if leader == old {
		t.Fatal("a dead server leads")
	}
	if !exists(t, conn, "/before") {
		t.Fatal("data lost with the leader")
	}

	begin = time.Now()
	require.NoError(t, leader.Pause())
	if _, err := e.Leader(); err == nil {
		t.Fatal("one of three servers leads")
	}
	require.NoError(t, leader.Resume())
	require.NoError(t, old.Wipe())
	require.NoError(t, e.Start())
	t.Logf("complete again after %v", time.Since(begin))
	if !exists(t, connect(t, 20*time.Second, old.Addr()), "/before") {
		t.Fatal("a wiped server did not learn from the others")
	}

	var pids []int
	for _, z := range e.Members {
		pids = append(pids, z.PID())
	}
	require.NoError(t, e.Close())
	for _, pid := range pids {
		if pid == 0 || !gone(pid) {
			t.Errorf("process %d is left after Close", pid)
		}
	}
}
