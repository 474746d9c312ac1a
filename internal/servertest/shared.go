package servertest

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/elector-go/elector/internal/must"
)

// Shared is a server that the tests of one program share. Tests use separate keys and must not stop or
// pause it. Main closes it.
type Shared[S closable] struct{ start func() (S, error) }

// used holds the servers that Main closes.
var used struct {
	mu      sync.Mutex
	servers []closable
}

// Share returns a server that start starts on first use.
func Share[S closable](start func() (S, error)) *Shared[S] {
	// A failure is kept: waiting for it again in every test helps nobody.
	return &Shared[S]{sync.OnceValues(func() (S, error) {
		s, err := start()
		if err == nil {
			used.mu.Lock()
			used.servers = append(used.servers, s)
			used.mu.Unlock()
		}
		return s, err
	})}
}

// ForTest returns the server, and starts it for the first test. If the server could not be started, the
// test fails.
func (s *Shared[S]) ForTest(tb testing.TB) S {
	tb.Helper()
	return must.Get(s.start())(tb)
}

// Main runs the tests, closes the shared servers, and returns the exit code: 1 if the tests passed but a
// server could not be closed. TestMain calls it:
//
//	func TestMain(m *testing.M) { os.Exit(servertest.Main(m)) }
func Main(m *testing.M) int {
	code := m.Run()
	for _, s := range used.servers {
		if err := s.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	return code
}

var sharedZooKeeper = Share(func() (*ZooKeeper, error) {
	return StartZooKeeper(ZooKeeperConfig{NoSync: true, QuickStart: true})
})

// SharedZooKeeper returns the standalone server that the tests of this binary share, with NoSync and
// QuickStart. See Shared.
func SharedZooKeeper(tb testing.TB) *ZooKeeper {
	tb.Helper()
	return sharedZooKeeper.ForTest(tb)
}
