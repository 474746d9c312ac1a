package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCopiedRecipesCompile: each recipe does with the files that docs/recipes.md says, and so does its program.
func TestCopiedRecipesCompile(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	program := regexp.MustCompile("(?s)## Copy a recipe\n.*?```go\n(.*?)```").FindSubmatch(text)
	require.NotNil(t, program)
	more := make(map[string][]string) // files
	for _, needs := range regexp.MustCompile("`(\\w+\\.go)` needs\\s+`(\\w+\\.go)`").FindAllStringSubmatch(string(text), -1) {
		more[needs[1]] = append(more[needs[1]], needs[2])
	}
	require.Len(t, more, 3)
	dir, err := filepath.Abs("copied") // only in the overlay
	require.NoError(t, err)
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	write := func(path, text string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "x.go")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		overlay.Replace[filepath.Join(dir, path)] = file
	}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		name := strings.TrimSuffix(file, ".go")
		if strings.HasSuffix(name, "_test") || strings.HasPrefix(name, "try_") || slices.Contains(frame, file) {
			continue
		}
		if !strings.Contains(string(text), "`"+file+"` needs no other file") {
			more[file] = append(more[file], "common.go")
		}
		for _, copied := range append(more[file], file) {
			text, err := os.ReadFile(copied)
			require.NoError(t, err)
			write(filepath.Join(name, copied), strings.Replace(string(text), "package main", "package "+name, 1))
		}
	}
	write("program/program.go", `package program
import ("context"; "github.com/elector-go/elector/backend"; "github.com/elector-go/elector/backend/dial"
	locks "github.com/elector-go/elector/examples/recipes/copied/lock")
func run(ctx context.Context, hostname string, report func(held context.Context, token uint64) error) error {
`+string(program[1])+"}\n")
	list := filepath.Join(t.TempDir(), "overlay.json")
	require.NoError(t, os.WriteFile(list, encode(overlay), 0o600))
	out, err := exec.Command("go", "build", "-overlay", list, "./copied/...").CombinedOutput()
	assert.NoError(t, err, "%s", out)
}
