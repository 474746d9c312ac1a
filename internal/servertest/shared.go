package servertest

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// Shared is a server that the tests of one program share. Tests keep to keys of their own
// and must not stop or pause it. TestMain closes it in the end.
type Shared[S closable] struct {
	start func() (S, error)

	once   sync.Once
	server S
	err    error
	used   chan struct{} // closed when server and err are set
}

// Share returns a server that is started by start on first use.
func Share[S closable](start func() (S, error)) *Shared[S] {
	return &Shared[S]{start: start, used: make(chan struct{})}
}

// ForTest returns the server, and starts it for the first test. A test fails if the server
// could not be started.
func (s *Shared[S]) ForTest(tb testing.TB) S {
	tb.Helper()
	// A failure is kept: waiting for the same one in every test helps nobody.
	s.once.Do(func() {
		defer close(s.used)
		s.server, s.err = s.start()
	})
	if s.err != nil {
		tb.Fatal(s.err)
	}
	return s.server
}

// Close closes the server, if a test has used it, and blocks until it is gone. It returns the
// exit code of the tests, or 1 if the server could not be closed.
func (s *Shared[S]) Close(code int) int {
	select {
	case <-s.used:
	default:
		return code
	}
	if s.err != nil {
		return code
	}
	if err := s.server.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

var sharedZooKeeper = Share(func() (*ZooKeeper, error) {
	return StartZooKeeper(ZooKeeperConfig{NoSync: true, QuickStart: true})
})

// SharedZooKeeper returns the test binary's common standalone server, with NoSync and
// QuickStart. See Shared. TestMain stops it in the end:
//
//	func TestMain(m *testing.M) { os.Exit(servertest.Main(m)) }
func SharedZooKeeper(tb testing.TB) *ZooKeeper {
	tb.Helper()
	return sharedZooKeeper.ForTest(tb)
}

// Main runs the tests, closes that server, and returns the exit code, as Shared.Close does.
func Main(m *testing.M) int { return sharedZooKeeper.Close(m.Run()) }
