package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests are a meter, too, as testrun is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == metered {
		main()
	}
	os.Exit(m.Run())
}

// fakeModule writes a module with a file per package, and returns its folder.
func fakeModule(t *testing.T, tests map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module fake\n\ngo 1.26\n"), 0o666))
	for pkg, text := range tests {
		require.NoError(t, os.Mkdir(filepath.Join(dir, pkg), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(dir, pkg, "a_test.go"), []byte("package "+pkg+"\n\n"+text), 0o666))
	}
	return dir
}

// The meters tell what go test -json does not.
func TestPrograms(t *testing.T) {
	long := "Test" + strings.Repeat("A", 600)
	s := stage{packages: []string{"..."}, module: fakeModule(t, map[string]string{
		// Together the names are longer than what go test -json takes for a line.
		"long": `import ("fmt"; "testing")
func ` + long + `(*testing.T) {}
func ` + long + `B(*testing.T) {}
func TestMain(m *testing.M) { fmt.Println("TestNothing at all"); m.Run(); fmt.Print("no line") }`,
		"lazy":   `import ("os"; "testing"); func TestX(*testing.T) {}; func TestMain(m *testing.M) { os.Exit(0) }`,
		"failed": `import ("os"; "testing"); func TestX(*testing.T) {}; func TestMain(m *testing.M) { m.Run(); println("no server"); os.Exit(1) }`,
		"panics": `import "testing"; func init() { panic("at once") }; func TestX(*testing.T) {}`,
	})}
	var screen strings.Builder
	o := outcome{screen: &screen, file: io.Discard}
	code, err := runStageIn(t, t.Context(), s, &o)
	require.NoError(t, err)
	assert.Equal(t, 1, code)
	o.takeVoid()
	assert.ElementsMatch(t, []name{{"fake/failed", ""}, {"fake/lazy", ""}, {"fake/panics", ""}}, o.broken)
	assert.Equal(t, &program{Tests: []string{long, long + "B"}}, o.programs["fake/long"].withoutTimes())
	assert.Equal(t, &program{Tests: []string{"TestX"}, Exit: 1}, o.programs["fake/failed"].withoutTimes())
	assert.Equal(t, &program{Exit: 2}, o.programs["fake/panics"].withoutTimes())
	for _, shown := range []string{"no server\n", "at once", "is m.Run missing"} {
		assert.Contains(t, screen.String(), shown)
	}
}

func (p *program) withoutTimes() *program { return &program{Tests: p.Tests, Exit: p.Exit} }

func runStageIn(t *testing.T, ctx context.Context, s stage, o *outcome) (code int, err error) {
	t.Chdir(t.TempDir())
	return runStage(ctx, s, o, json.NewEncoder(io.Discard))
}
