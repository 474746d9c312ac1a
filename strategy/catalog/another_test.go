package catalog_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/must"
)

// anotherSource is a strategy with a name of its own.
const anotherSource = `// Package invented is a strategy of a test.
package invented

import "github.com/elector-go/elector/strategy/unfair"

type Strategy struct{ unfair.Strategy }

func (Strategy) Name() string { return "invented" }
`

// TestAnother adds a strategy to a copy of the repository in the three places that CONTRIBUTING.md names. All
// that takes strategies from the catalog finds it, and nothing asks for a fourth place.
func TestAnother(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles a copy of the repository: make test-all")
	}
	copied := copyOfTheRepository(t)
	in := func(file string) string { return filepath.Join(copied, filepath.FromSlash(file)) }
	insert := func(file, before, text string) {
		first, rest, ok := strings.Cut(string(must.Get(os.ReadFile(in(file)))(t)), before)
		require.True(t, ok, "%s has no %q", file, before)
		require.NoError(t, os.WriteFile(in(file), []byte(first+text+before+rest), 0o600))
	}
	require.NoError(t, os.Mkdir(in("strategy/invented"), 0o700))
	require.NoError(t, os.WriteFile(in("strategy/invented/invented.go"), []byte(anotherSource), 0o600))
	insert("strategy/catalog/catalog.go", "\t}\n}\n\n// Variants", "\t\t{invented.Strategy{}, strategy.Traits{Seat: true, Herd: true}},\n")
	insert("strategy/catalog/catalog.go", "\t\"github.com/elector-go/elector/strategy/fair\"", "\t\"github.com/elector-go/elector/strategy/invented\"\n")
	insert("docs/strategies.md", "| fair |", "| invented | … |\n")

	goes := func(at string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = in(at), append(os.Environ(), "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	goes(".", "test", "./conformance", "-run", "TestCosts", "-args", "-update")
	goes(".", "test", "-short", "./strategy/catalog", "./conformance", "./inspect")
	goes(".", "test", "-short", "-run", "TestPage|TestMakefile", ".")
	goes("cmd/elector", "test", "-short", "./internal/compare", "./internal/page", "./internal/cli", "./internal/run")
	for _, tests := range [][]string{
		{"./internal/elections", "-run", "^TestMemory$/^invented,_own"},
		{"./conformance/explore", "-run", "^TestExhausted$/^invented$/^a_fault$"},
		{"./internal/mutants", "-run", "^TestMutants$/^invented$", "-args", "-only", "nothing more than the control"},
	} {
		said := goes(".", append([]string{"test", "-short", "-v"}, tests...)...)
		if !strings.Contains(said, "/invented") {
			t.Errorf("go test %s does not find the strategy:\n%s", tests[0], said)
		}
	}
	if said := goes("cmd/elector", "run", ".", "help", "run"); !strings.Contains(said, "invented") {
		t.Errorf("elector run does not name the strategy:\n%s", said)
	}
}

// copyOfTheRepository copies all files that are tracked or new.
func copyOfTheRepository(t *testing.T) (to string) {
	t.Helper()
	root, to := filepath.Join("..", ".."), t.TempDir()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Skipf("no repository: git ls-files: %v", err)
	}
	for _, file := range strings.Fields(string(out)) {
		text, err := os.ReadFile(filepath.Join(root, file))
		if os.IsNotExist(err) {
			continue // deleted, and not yet committed
		}
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(to, file)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(to, file), text, 0o600))
	}
	require.NoError(t, exec.CommandContext(t.Context(), "git", "init", "-q", to).Run()) // for git ls-files
	return to
}
