package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/servertest"
)

var (
	sharedEtcd = servertest.Share(func() (*servertest.Etcd, error) {
		return servertest.StartEtcd(servertest.EtcdConfig{NoSync: true})
	})
	sharedConsul = servertest.Share(func() (*servertest.Consul, error) {
		return servertest.StartConsul(servertest.ConsulConfig{NoSync: true})
	})
)

func TestMain(m *testing.M) { os.Exit(servertest.Main(m)) }

// onAll runs a test on each backend: on memory in a synctest bubble, and on a server of each service,
// which all tests share. So keys are to be below keyOf(t).
func onAll(t *testing.T, f func(t *testing.T, b backend.Backend)) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, memory.New(memory.Options{})) })
	})
	for name, url := range map[string]func(t *testing.T) string{
		"zookeeper": func(t *testing.T) string { return "zk://" + servertest.SharedZooKeeper(t).Addr() + "?timeout=1m" },
		"etcd":      func(t *testing.T) string { return "etcd://" + sharedEtcd.ForTest(t).Addr() + "?timeout=1m" },
		"consul":    func(t *testing.T) string { return "consul://" + sharedConsul.ForTest(t).Addr() + "?check=30s" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := dial.Open(t.Context(), url(t))
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, b.Close()) })
			f(t, &server{Backend: b})
		})
	}
}

// keyOf is the test's own, and another one when it is run again.
func keyOf(t *testing.T) string {
	run, _ := runs.LoadOrStore(t, rand.Text())
	return fmt.Sprintf("/recipes/%s-%v", strings.ReplaceAll(t.Name(), "/", "-"), run)
}

var runs sync.Map // by *testing.T

// open opens a session that ends with the test. To close it before is a crash of which the service
// hears at once.
func open(t *testing.T, b backend.Backend) *backend.Session {
	t.Helper()
	s, err := b.Open(t.Context(), backend.OpenOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Close(ctx) // it may be lost
	})
	return s
}

// A server is a backend on a real service. It counts the calls, and knows how many of those that are under
// way do not wait for a change.
type server struct {
	backend.Backend
	calls, busy atomic.Int64
}

func (b *server) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	s, err := b.Backend.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return s.Around(backend.Layer{Call: b.call}), nil
}

func (b *server) call(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
	b.calls.Add(1)
	if !c.Waits() {
		b.busy.Add(1)
		defer b.busy.Add(-1)
	}
	return next(ctx)
}

// settle returns when nobody has asked anything for some turns of the scheduler, however slow those are.
func (b *server) settle() {
	for calls, quiet := int64(0), 0; quiet < 20; quiet++ {
		time.Sleep(5 * time.Millisecond)
		if now := b.calls.Load(); now != calls || b.busy.Load() > 0 {
			calls, quiet = now, 0
		}
	}
}

// isBlocked holds that something still waits. By then all others wait, too, each in its place in the line.
func isBlocked[T any](t *testing.T, b backend.Backend, what string, done <-chan T) {
	t.Helper()
	if b, is := b.(*server); is {
		b.settle()
	} else {
		synctest.Wait()
	}
	select {
	case <-done:
		t.Fatalf("%s does not wait", what)
	default:
	}
}

// oneScreen is how many lines a recipe has at most, without blank ones and comments.
const oneScreen = 90

// frame are the files that are no recipes. How each is tried by hand is in files try_*.go.
var frame = []string{"main.go", "common.go"}

func TestEachRecipeFitsOnOneScreen(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "try_") || slices.Contains(frame, file) {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.LessOrEqual(t, linesOfCode(file, text), oneScreen, file)
	}
}

// linesOfCode counts the lines on which there is more than a comment.
func linesOfCode(name string, text []byte) int {
	fset := token.NewFileSet()
	file := fset.AddFile(name, -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	lines := make(map[int]bool)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue // put in by the scanner
		}
		first := fset.Position(pos).Line
		for i := range 1 + strings.Count(lit, "\n") {
			lines[first+i] = true
		}
	}
}

func TestLinesOfCode(t *testing.T) {
	assert.Equal(t, 5, linesOfCode("x.go", []byte("// Doc.\npackage x\n\nvar y = `a\nb\nc` // why\n/* a\nb */ var z = 1\n")))
}

// TestDemonstrations plays each. What it shows is for people; that it ends, and that no part fails, is
// held here.
func TestDemonstrations(t *testing.T) {
	for _, r := range recipes {
		t.Run(r.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				assert.NoError(t, run(ctx, []string{r.name}, &out))
				assert.NoError(t, ctx.Err(), "it ends by itself")
				t.Log(out.String())
			})
		})
	}
}

func TestHelp(t *testing.T) {
	for args, says := range map[string]string{
		"-h":                                "-fair",
		"lock -h":                           "in order of arrival",
		"-backend etcd://127.0.0.1 lock -h": "in order of arrival",
	} {
		var out bytes.Buffer
		assert.NoError(t, run(t.Context(), strings.Fields(args), &out), args)
		assert.Contains(t, out.String(), says, args)
	}
}

func TestMisuse(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"", "which recipe?"},
		{"barn", `there is no recipe "barn"`},
		{"lock /x", "nobody else can take part"},
		{"-backend etcd://127.0.0.1 lock", "lock takes [-fair] [-hold DURATION] KEY"},
		{"-backend etcd://127.0.0.1 lock /a /b", "lock takes"},
		{"-backend etcd://127.0.0.1 put /a", "put takes DIR ITEM..."},
		{"-backend etcd://127.0.0.1 lock -hold long /a", "lock: invalid value"},
		{"lock -backend etcd://127.0.0.1 /x", "-backend and -name come before the recipe"},
		{"lock -fair /x -backend etcd://127.0.0.1", "lock takes"},
		{"-backend etcd://127.0.0.1 lock a", "lock: key \"a\" is relative"},
		{"-backend barn://127.0.0.1 lock /a", "unknown scheme"},
		{"-backend etcd://127.0.0.1?timeuot=4s lock /a", "unknown parameter"},
		{"-server x", "flag provided but not defined: -server"},
	} {
		err := run(t.Context(), strings.Fields(c.args), io.Discard)
		assert.ErrorContains(t, err, c.says, c.args)
		assert.ErrorAs(t, err, new(usageError), c.args)
	}
}

// TestTasksWithoutAName: no controller could ever give them, and it would stand for its seat again and again.
func TestTasksWithoutAName(t *testing.T) {
	members, _ := find("members")
	for _, task := range []string{"", "a/b", "/a"} {
		part, operands, err := members.parse([]string{"/jobs", task, "print"})
		require.NoError(t, err)
		assert.ErrorAs(t, part(t.Context(), &participant{args: operands}), new(usageError), task)
	}
}

// TestStoppedAfterALostSession: of one that goes on in new sessions, Ctrl-C is no failure.
func TestStoppedAfterALostSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := memory.New(memory.Options{}).Client("a")
		for _, name := range []string{"config", "resolve"} {
			follows, _ := find(name)
			part, operands, err := follows.parse([]string{"/x"})
			require.NoError(t, err)
			ctx, stop := context.WithCancelCause(t.Context())
			p := &participant{args: operands, say: t.Logf}
			done := begin(func() (struct{}, error) { return struct{}{}, takePart(ctx, client, part, p) })
			synctest.Wait()
			client.Expire()
			synctest.Wait()
			stop(errors.New("interrupt"))
			done.wait(t)
			assert.Equal(t, backend.Lost, p.State())
		}
	})
}
