package networktest

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ForTest makes a network that is closed when the test ends, after the servers that the test starts on it.
// With -short, or if this process may not have networks, it skips the test and says why. If only a program
// is missing, the test fails.
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

// IfAny is ForTest, except that it returns nil and the reason where ForTest skips the test.
func IfAny(tb testing.TB, hosts int) (*Network, error) {
	tb.Helper()
	if testing.Short() {
		return nil, errors.New("make test-all tries networks")
	}
	w, err := New(hosts)
	if errors.Is(err, ErrNoNetwork) {
		return nil, err
	}
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, w.Close(), "close the network") })
	return w, nil
}
