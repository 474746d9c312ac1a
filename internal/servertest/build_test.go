package servertest

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestBuildFailureShowsWhatGoSays(t *testing.T) {
	for folder, says := range map[string]string{
		"etcd":   "no such tool",
		"nobody": "no such file or directory",
	} {
		_, err := buildServer(folder, "example.com/nobody")
		assert.ErrorIs(t, err, ErrNotInstalled, folder)
		assert.ErrorContains(t, err, says, folder)
	}
	t.Setenv("PATH", t.TempDir())
	_, err := buildServer("etcd", "go.etcd.io/etcd/server/v3")
	assert.ErrorIs(t, err, ErrNotInstalled, "no go")
}
