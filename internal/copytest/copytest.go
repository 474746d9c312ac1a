// Package copytest changes a copy of the repository, as a contributor changes the repository itself, and
// runs what is there on it.
package copytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/must"
)

// A Copy is a copy of the repository. The test's end removes it.
type Copy struct {
	t   *testing.T
	dir string
}

// New copies all files that are tracked or new. It leaves the test to make test-all.
func New(t *testing.T) *Copy {
	t.Helper()
	if testing.Short() {
		t.Skip("it compiles a copy of the repository: make test-all")
	}
	top, err := exec.CommandContext(t.Context(), "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		t.Skipf("no repository: git rev-parse: %v", err)
	}
	root, c := strings.TrimSpace(string(top)), &Copy{t, t.TempDir()}
	list := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	for _, file := range strings.Fields(string(must.Get(list.Output())(t))) {
		text, err := os.ReadFile(filepath.Join(root, file))
		if os.IsNotExist(err) {
			continue // deleted, and not yet committed
		}
		require.NoError(t, err)
		c.Write(file, string(text))
	}
	require.NoError(t, exec.CommandContext(t.Context(), "git", "init", "-q", c.dir).Run()) // for git ls-files
	return c
}

func (c *Copy) path(file string) string { return filepath.Join(c.dir, filepath.FromSlash(file)) }

// Write writes a file.
func (c *Copy) Write(file, text string) {
	c.t.Helper()
	require.NoError(c.t, os.MkdirAll(filepath.Dir(c.path(file)), 0o700))
	require.NoError(c.t, os.WriteFile(c.path(file), []byte(text), 0o600))
}

// Read returns what is in a file.
func (c *Copy) Read(file string) string {
	c.t.Helper()
	return string(must.Get(os.ReadFile(c.path(file)))(c.t))
}

// Insert inserts text into a file, before the first place where it has these words.
func (c *Copy) Insert(file, before, text string) {
	c.t.Helper()
	first, rest, ok := strings.Cut(c.Read(file), before)
	require.True(c.t, ok, "%s has no %q", file, before)
	c.Write(file, first+text+before+rest)
}

// Go runs the go command in a module of the copy, and returns what it says. If it fails, so does the test.
func (c *Copy) Go(module string, args ...string) string {
	c.t.Helper()
	return c.Run(module, "go", args...)
}

// Run is Go for another command.
func (c *Copy) Run(folder, name string, args ...string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), name, args...)
	cmd.Dir, cmd.Env = c.path(folder), append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Finds runs tests of a module, and checks that some have the name of what was added.
func (c *Copy) Finds(added, module string, tests ...string) {
	c.t.Helper()
	said := c.Go(module, append([]string{"test", "-v"}, tests...)...)
	if !strings.Contains(said, "--- PASS: ") || !strings.Contains(said, "/"+added) {
		c.t.Errorf("go test %s does not find %s:\n%s", tests[0], added, said)
	}
}
