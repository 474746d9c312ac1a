package servertest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// buildServer builds a server from its sources with the go command, or finds it in Go's build cache, and
// returns the path of its executable. folder is below internal/servers and holds the go.mod with the
// server's version; pkg is the server's main package. It blocks for minutes the first time and for seconds
// later: call it once per process.
func buildServer(folder, pkg string) (string, error) {
	// go list finds the folder, not runtime.Caller, which knows no folder in a binary built with -trimpath.
	// Tests run within the module.
	root, err := runGo(folder, "list", "-m", "-f", "{{.Dir}}", "github.com/elector-go/elector")
	if err != nil {
		return "", err
	}
	return runGo(folder, "-C", filepath.Join(root, "internal", "servers", folder), "tool", "-n", pkg)
}

// runGo returns the standard output of a go command. If the command fails, the server is not available.
func runGo(server string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	// As in scripts/setup.sh, so that the cache has what setup built.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("servertest: %s: %w: it is built from its sources, and 'go %s' failed: %w\n%s",
			server, ErrNotInstalled, strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(stdout.String()), nil
}
