// Package scripts has tests of the scripts beside it.
package scripts

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// output returns what a program prints in a folder, to its standard error, too.
func output(t *testing.T, dir, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func must(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	out, err := output(t, dir, name, args...)
	require.NoError(t, err, out)
	return out
}

// repository is a repository of its own with what is in the working tree, committed or not. Modules come from
// this machine's cache: what other modules are is no matter here.
func repository(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("releases are made on Linux")
	}
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOSUMDB", "off")
	root := t.TempDir()
	must(t, "..", "sh", "-c", `git ls-files -z --cached --others --exclude-standard | tar -cf - --null --files-from=- --ignore-failed-read | tar -xf - -C "$0"`, root)
	must(t, root, "git", "init", "--quiet", "--initial-branch=main")
	must(t, root, "git", "config", "user.name", "release test")
	must(t, root, "git", "config", "user.email", "test@localhost")
	must(t, root, "git", "add", ".")
	must(t, root, "git", "commit", "--quiet", "-m", "the working tree")
	return root
}

// TestRelease releases the working tree in a clone, installs the command from there by "go install …@latest" into
// an empty module cache, and runs it.
func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds every module from nothing: make test-all")
	}
	root := repository(t)
	said := must(t, root, "sh", "scripts/release.sh", "v0.9.1")
	for _, want := range []string{
		"github.com/elector-go/elector@latest is v0.9.1\n",
		"go install github.com/elector-go/elector/cmd/elector@latest: elector version v0.9.1, go",
		"git push origin v0.9.1 ", // which all others require
		" metrics/prometheus/v0.9.1", " metrics/otel/v0.9.1", " adapter/gocron/v0.9.1", " adapter/controllerruntime/v0.9.1", " backend/nats/v0.9.1",
		" cmd/elector/v0.9.1", // which requires metrics/prometheus
	} {
		assert.Contains(t, said, want)
	}
	assert.NotContains(t, said, "/examples/")
	assert.NotContains(t, said, "/internal/")
	assert.Empty(t, must(t, root, "git", "tag"), "a trial changes nothing")

	must(t, root, "sh", "scripts/release.sh", "v0.9.1", "tag")
	// The library's tag is on the branch, the others' are beside it, and replace nothing.
	assert.Equal(t, must(t, root, "git", "rev-parse", "main"), must(t, root, "git", "rev-parse", "v0.9.1^{commit}"))
	mod := must(t, root, "git", "show", "cmd/elector/v0.9.1:cmd/elector/go.mod")
	assert.NotContains(t, mod, "replace")
	assert.Contains(t, mod, "github.com/elector-go/elector v0.9.1")
	assert.Contains(t, mod, "github.com/elector-go/elector/metrics/prometheus v0.9.1")
	assert.Empty(t, must(t, root, "git", "status", "--porcelain"))

	again, err := output(t, root, "sh", "scripts/release.sh", "v0.9.1")
	assert.Error(t, err)
	assert.Contains(t, again, "there is a tag v0.9.1 already")
}

// TestDist holds that an archive has the command, which says its version, and the licences of what is in it, and
// that the same commit makes the same archives.
func TestDist(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the command for two systems: make test-all")
	}
	root := repository(t)
	dist := t.TempDir()
	make := func() string {
		return must(t, root, "sh", "scripts/dist.sh", "v0.9.2", dist, runtime.GOOS+"/"+runtime.GOARCH, "windows/amd64")
	}
	sums := make()
	t.Setenv("TZ", "Asia/Tokyo")
	assert.Equal(t, sums, make())
	must(t, dist, "sha256sum", "-c", "--strict", "SHA256SUMS")
	assert.Len(t, strings.Split(sums, "\n"), 2)

	name := "elector_0.9.2_" + runtime.GOOS + "_" + runtime.GOARCH + ".tar.gz"
	assert.Contains(t, sums, name)
	must(t, dist, "tar", "-xzf", name)
	assert.Contains(t, must(t, dist, "./elector", "--version"), "elector version v0.9.2, go")
	licences, err := os.ReadFile(filepath.Join(dist, "THIRD_PARTY_LICENSES"))
	require.NoError(t, err)
	for _, want := range []string{"github.com/spf13/cobra v", "github.com/go-zookeeper/zk v", "go.etcd.io/etcd/client/v3 v", "\nGo go1.", "Apache License", "Redistribution and use"} {
		assert.Contains(t, string(licences), want)
	}
	assert.NotContains(t, string(licences), "github.com/elector-go/elector v", "that is no third party")

	zipped, err := zip.OpenReader(filepath.Join(dist, "elector_0.9.2_windows_amd64.zip"))
	require.NoError(t, err)
	defer zipped.Close()
	var names []string
	for _, f := range zipped.File {
		names = append(names, f.Name)
	}
	assert.Equal(t, []string{"LICENSE", "THIRD_PARTY_LICENSES", "command.md", "elector.exe"}, names)
}

// TestRefused holds what is found before anything is done.
func TestRefused(t *testing.T) {
	root := repository(t)
	dist := filepath.Join(t.TempDir(), "dist")
	for script, versions := range map[string][]string{
		"release": {"", "0.1.0", "v1", "v0.1", "v2.0.0", "v0.1.0+linux"},
		"dist":    {"", "0.1.0", "v1", "v0.1", "v0.1.0+linux"},
	} {
		for _, version := range versions {
			said, err := output(t, root, "sh", "scripts/"+script+".sh", version, dist)
			assert.Error(t, err)
			assert.Contains(t, said, "say it as v0.1.0", "%s %q", script, version)
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, "new"), nil, 0o666))
	for _, script := range []string{"release", "dist"} {
		said, err := output(t, root, "sh", "scripts/"+script+".sh", "v0.1.0", dist)
		assert.Error(t, err)
		assert.Contains(t, said, "commit first", script)
	}
}
