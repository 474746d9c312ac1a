//go:build unix

package servertest

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/wait"
)

type sqlServer interface {
	closable
	Start() error
	Kill() error
	Restart() error
	Pause() error
	Resume() error
	Wipe() error
	WaitReady(timeout time.Duration) error
	PID() int
	Dir() string
}

// It serves again after whatever has become of it, and leaves nothing. Tests with a client are in
// internal/fencetest, as this module has no driver.
func checkSQL(t *testing.T, s sqlServer) {
	require.NoError(t, s.Kill())
	if s.WaitReady(time.Second) == nil {
		t.Fatal("serves after Kill")
	}
	require.NoError(t, s.Start())
	require.NoError(t, s.Pause())
	if s.WaitReady(300*time.Millisecond) == nil {
		t.Fatal("a paused server serves")
	}
	require.NoError(t, s.Resume())
	require.NoError(t, s.WaitReady(wait.Patience))
	require.NoError(t, s.Wipe())
	require.NoError(t, s.Start())
	pid := s.PID()
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	if _, err := os.Stat(s.Dir()); !os.IsNotExist(err) || !gone(pid) {
		t.Fatalf("Close left something behind: %v", err)
	}
	if err := s.Start(); !errors.Is(err, ErrClosed) {
		t.Fatalf("Start after Close: %v", err)
	}
}

func TestPostgresLifecycle(t *testing.T) {
	t.Parallel() // it mostly waits
	begin := time.Now()
	p := PostgresForTest(t, SQLConfig{})
	t.Logf("started in %v", time.Since(begin))
	checkSQL(t, p)
}

func TestMariaDBLifecycle(t *testing.T) {
	t.Parallel() // it mostly waits
	begin := time.Now()
	m := MariaDBForTest(t, SQLConfig{})
	t.Logf("started in %v", time.Since(begin))
	checkSQL(t, m)
}

func TestSQLStartFailureShowsTheLog(t *testing.T) {
	Long(t, "PostgreSQL and MariaDB")
	_, err := StartPostgres(SQLConfig{Args: []string{"-c", "no_such_setting=1"}})
	checkStartFailure(t, err, "no_such_setting")
	_, err = StartMariaDB(SQLConfig{Args: []string{"--no-such-flag"}})
	checkStartFailure(t, err, "no-such-flag")
}
