package networktest

import (
	"errors"
	"testing"
)

// ForTest makes a network that is closed when the test ends, after the servers
// that the test starts on it later. Where this process may not have networks, the test
// is skipped, and says why. Where only a program is missing it fails.
func ForTest(tb testing.TB, hosts int) *Network {
	tb.Helper()
	if testing.Short() {
		tb.Skip("it takes a network of its own: make test-all")
	}
	w, err := IfAny(tb, hosts)
	if err != nil {
		tb.Skipf("SKIPPED, so that no fault BETWEEN servers is tried here: %v", err)
	}
	return w
}

// IfAny is ForTest for a test that can do without: where that skips, this
// returns why there is no network.
func IfAny(tb testing.TB, hosts int) (*Network, error) {
	tb.Helper()
	if testing.Short() {
		return nil, errors.New("make test-all tries networks")
	}
	w, err := New(hosts)
	switch {
	case err == nil:
	case errors.Is(err, ErrNoNetwork):
		return nil, err
	default:
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := w.Close(); err != nil {
			tb.Errorf("close the network: %v", err)
		}
	})
	return w, nil
}
