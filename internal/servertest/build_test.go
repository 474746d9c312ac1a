package servertest

import (
	"errors"
	"strings"
	"testing"
)

func TestBuildFailureShowsWhatGoSays(t *testing.T) {
	for folder, says := range map[string]string{
		"etcd":   "no such tool",
		"nobody": "no such file or directory",
	} {
		_, err := buildServer(folder, "example.com/nobody")
		if !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", folder, err)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := buildServer("etcd", "go.etcd.io/etcd/server/v3"); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("no go: %v", err)
	}
}
