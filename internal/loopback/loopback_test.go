//go:build unix

package loopback

import (
	"context"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPortsAreDistinctAndLow(t *testing.T) {
	got, err := Ports(120) // more than two blocks
	require.NoError(t, err)
	defer Release(got...)
	seen := make(map[int]bool)
	for _, p := range got {
		require.False(t, seen[p] || p < firstPort || p >= lastPort, "port %d", p)
		seen[p] = true
	}
}

// Listen works while children start. Between its fork and its exec a child has a copy of every socket of
// its parent, so a port that was tried a moment ago may still be in use.
func TestListenWhileChildrenStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var children sync.WaitGroup
	defer children.Wait()
	defer cancel()
	for range 4 {
		children.Go(func() {
			for ctx.Err() == nil {
				if err := exec.Command("true").Run(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 300 {
		l, port, err := Listen()
		require.NoError(t, err)
		require.NoError(t, l.Close())
		Release(port)
	}
}
