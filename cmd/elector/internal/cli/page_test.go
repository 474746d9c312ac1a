package cli

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each command has help with its exit codes and examples, and docs/command.md tells of it.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/command.md")
	require.NoError(t, err)
	for _, c := range newRoot().Commands() {
		assert.Contains(t, string(page), "| `elector "+c.Name(), c.Name())
		assert.Contains(t, c.Long, "EXIT STATUS", c.Name())
		assert.NotEmpty(t, c.Example, c.Name())
	}
}
