//go:build unix

package compare

import (
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFiles holds that candidates on the embedded service use no open files: many systems allow a process
// fewer than there are candidates.
func TestFiles(t *testing.T) {
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	low := limit
	low.Cur = 2*otherFiles - 1
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low))
	t.Cleanup(func() { assert.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)) })
	synctest.Test(t, func(t *testing.T) {
		c := config()
		c.Strategies, c.N, c.Changes = []string{"fair"}, []int{2 * otherFiles}, 1
		_, err := Run(t.Context(), c)
		assert.NoError(t, err)
	})
}
