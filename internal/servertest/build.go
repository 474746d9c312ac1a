package servertest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// buildServer builds a server from its sources with the go command, or finds it
// in Go's build cache, and returns the path of its executable. folder is below
// internal/servers and holds the go.mod with the server's version; pkg is the
// server's main package. It blocks for minutes the first time and for seconds
// later, so it is to be called once per process.
func buildServer(folder, pkg string) (string, error) {
	// Asked of go, and not taken from runtime.Caller, because that knows no
	// folder in a binary built with -trimpath. Tests run within the module.
	root, err := runGo(folder, "list", "-m", "-f", "{{.Dir}}", "github.com/elector-go/elector")
	if err != nil {
		return "", err
	}
	return runGo(folder, "-C", filepath.Join(root, "internal", "servers", folder), "tool", "-n", pkg)
}

// runGo returns what the go command prints on its standard output. A failure
// means that the server is not to be had.
func runGo(server string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	// As in scripts/setup.sh, so that what that has built is found in the cache.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("servertest: %s: %w: it is built from its sources, and 'go %s' failed: %w\n%s",
			server, ErrNotInstalled, strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(stdout.String()), nil
}
