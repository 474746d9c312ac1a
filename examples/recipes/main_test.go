package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
)

// recipeFiles returns the files to copy: all except those of the program, which try the recipes by hand.
func recipeFiles(t *testing.T) []string {
	return slices.DeleteFunc(must.Get(filepath.Glob("*.go"))(t), func(file string) bool {
		return strings.HasSuffix(file, "_test.go") || file == "main.go" || file == "try.go"
	})
}

// TestEachRecipeFitsOnOneScreen: each has at most 90 lines, without blank lines and comments.
func TestEachRecipeFitsOnOneScreen(t *testing.T) {
	for _, file := range recipeFiles(t) {
		lines := regexp.MustCompile(`(?m)^\s*[^\s/]`).FindAll(must.Get(os.ReadFile(file))(t), -1)
		assert.True(t, len(lines) <= 90 || file == "common.go", "%s: %d lines", file, len(lines))
	}
}

// TestCopiedRecipesCompile: so does the program of docs/recipes.md that uses them.
func TestCopiedRecipesCompile(t *testing.T) {
	page := must.Get(os.ReadFile("../../docs/recipes.md"))(t)
	program := regexp.MustCompile("(?s)## Copy a recipe\n.*?```go\n(.*?)```").FindSubmatch(page)
	require.NotNil(t, program)
	overlay := make(map[string]string)
	write := func(path, text string) {
		file := filepath.Join(t.TempDir(), "x.go")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		overlay[must.Get(filepath.Abs(path))(t)] = file
	}
	for _, file := range recipeFiles(t) {
		text := string(must.Get(os.ReadFile(file))(t))
		write("copied/locks/"+file, strings.Replace(text, "package main", "package locks", 1))
	}
	write("copied/program/program.go", `package program
import ("context"; "github.com/elector-go/elector/backend"; "github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/examples/recipes/copied/locks")
func run(ctx context.Context, hostname string, report func(held context.Context, token uint64) error) error {
`+string(program[1])+"}\n")
	list := filepath.Join(t.TempDir(), "overlay.json")
	require.NoError(t, os.WriteFile(list, encode(map[string]any{"Replace": overlay}), 0o600))
	out, err := exec.Command("go", "build", "-overlay", list, "./copied/...").CombinedOutput()
	assert.NoError(t, err, "%s", out)
}

// TestDemonstrations holds that each demonstration ends without a failure. Its output is for people.
func TestDemonstrations(t *testing.T) {
	for _, r := range roles {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			assert.NoError(t, run(ctx, []string{r.name}, &out))
			assert.NoError(t, ctx.Err(), "%s does not end by itself", r.name)
			assert.Contains(t, out.String(), "starts: "+r.name)
		})
	}
}

func TestCommandLine(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-h"}, &out))
	assert.Contains(t, out.String(), "holds one of -n permits")
	for line, says := range map[string]string{
		"":                                     "which recipe?",
		"barn":                                 `there is no recipe "barn"`,
		"fair /x":                              "nobody else can take part",
		"-backend mem:// fair /x":              "nobody else can take part",
		"-backend etcd://127.0.0.1 fair":       "fair takes DIR",
		"-backend etcd://127.0.0.1 fair /a /b": "fair takes DIR",
		"-backend etcd://127.0.0.1 put /a":     "put takes DIR ITEM ...",
		"fair /x -backend etcd://127.0.0.1":    "flags before it",
		"-for long fair":                       "invalid value",
		"-n 0 double":                          "give 1 at least",
		"-backend etcd://127.0.0.1 fair a":     `key "a" is relative`,
		"-backend barn://127.0.0.1 fair /a":    "unknown scheme",
		"-backend etcd://127.0.0.1?timeuot=4s fair /a": "unknown parameter",
		"-server x": "flag provided but not defined: -server",
	} {
		err := run(t.Context(), strings.Fields(line), io.Discard)
		assert.ErrorContains(t, err, says, line)
		assert.ErrorAs(t, err, new(usageError), line)
	}
}

// TestTasksWithoutAName: no controller could ever give them, and it would stand for its seat again and again.
func TestTasksWithoutAName(t *testing.T) {
	for _, task := range []string{"", "a/b", "/a"} {
		onMemory(t, func(t *testing.T, svc *memory.Service, s *backend.Session) {
			p := &participant{Session: s, backend: svc, name: "a", args: []string{"/jobs", "print", task}, say: t.Logf}
			assert.ErrorAs(t, control(t.Context(), p), new(usageError), task)
		})
	}
}

// TestStoppedAfterALostSession: for a role that continues in new sessions, Ctrl-C is no failure.
func TestStoppedAfterALostSession(t *testing.T) {
	for _, name := range []string{"follow", "resolve"} {
		onMemory(t, func(t *testing.T, svc *memory.Service, _ *backend.Session) {
			client := svc.Client("a")
			_, r, p, err := parse([]string{"-backend", "mem://", name, "/x"})
			require.NoError(t, err)
			p.say = t.Logf
			ctx, stop := context.WithCancelCause(t.Context())
			done := begin(func() (any, error) { return nil, takePart(ctx, client, r, p) })
			synctest.Wait()
			client.Expire()
			done.blocks(t, name)
			stop(errors.New("interrupt"))
			done.wait(t)
			assert.Equal(t, backend.Lost, p.State())
		})
	}
}
