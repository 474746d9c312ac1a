//go:build unix

package servertest

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/process"
	"github.com/elector-go/elector/internal/wait"
)

// kv is a server as the tests of etcd and Consul use it.
type kv interface {
	member
	Dir() string
	PID() int
	Start() error
	Kill() error
	Stop() error
	Restart() error
	Pause() error
	Resume() error
	Wipe() error

	put(key string) error
	has(key string) (bool, error)
}

func checkHas(t *testing.T, s kv, key string, want bool) {
	t.Helper()
	got, err := s.has(key)
	require.NoError(t, err)
	if got != want {
		t.Fatalf("%s has %s: %v", s.Name(), key, got)
	}
}

// checkLifecycle takes a server that is alone from one state to the next.
func checkLifecycle(t *testing.T, s kv) {
	t.Helper()
	require.NoError(t, s.put("kept"))
	if s.Start() == nil {
		t.Fatal("started twice")
	}

	addr, pid := s.Addr(), s.PID()
	require.NoError(t, s.Kill())
	if s.Running() || !gone(pid) {
		t.Fatal("running after Kill")
	}
	if err := s.put("lost"); err == nil {
		t.Fatal("a killed server answers")
	}
	begin := time.Now()
	require.NoError(t, s.Start())
	t.Logf("back %v after a kill", time.Since(begin))
	if s.Addr() != addr || s.PID() == pid {
		t.Fatal("not the same server again")
	}
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
	require.NoError(t, s.Wipe()) // works on a paused one
	require.NoError(t, s.Start())
	checkHas(t, s, "kept", false)

	pid = s.PID()
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	if _, err := os.Stat(s.Dir()); !os.IsNotExist(err) || !gone(pid) {
		t.Fatalf("Close left something behind: %v", err)
	}
	if err := s.Start(); !errors.Is(err, ErrClosed) {
		t.Fatalf("Start after Close: %v", err)
	}
}

// checkCluster takes leader, quorum and data from a cluster of three.
func checkCluster[S interface {
	kv
	comparable
}](t *testing.T, c *cluster[S]) {
	t.Helper()
	old, err := c.Leader()
	require.NoError(t, err)
	if len(c.Addrs()) != 3 {
		t.Fatalf("members at %v", c.Addrs())
	}
	require.NoError(t, old.put("before"))

	begin := time.Now()
	require.NoError(t, old.Kill())
	leader, err := c.WaitLeader(wait.Patience)
	require.NoError(t, err)
	t.Logf("new leader %v after the kill", time.Since(begin))
	if leader == old {
		t.Fatal("a dead server leads")
	}
	checkHas(t, leader, "before", true)

	begin = time.Now()
	require.NoError(t, leader.Pause())
	if _, err := c.Leader(); !errors.Is(err, ErrNotServing) {
		t.Fatalf("one of three servers leads: %v", err)
	}
	for _, s := range c.Members {
		if s == old || s == leader {
			continue
		}
		wait.For(t, "the one of three says that it does not serve", func() bool {
			err := s.WaitReady(time.Second)
			if err == nil {
				t.Fatal("one of three servers serves")
			}
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
	// The one that came back is a member in full: with it there is a quorum.
	for _, s := range c.Members {
		if s != old {
			require.NoError(t, s.Kill())
			break
		}
	}
	leader, err = c.WaitLeader(wait.Patience)
	require.NoError(t, err)
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
		if pid == 0 || !gone(pid) {
			t.Errorf("process %d is left after Close", pid)
		}
	}
}

func checkStartFailure(t *testing.T, err error, inLog string) {
	t.Helper()
	if !errors.Is(err, process.ErrNotRunning) || !strings.Contains(err.Error(), inLog) {
		t.Fatalf("error %v", err)
	}
}
