package nats_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/process"
	"github.com/elector-go/elector/internal/wait"
)

// TestCommand uses the command elector: it runs a program, shows who leads, and checks the bucket. A process that
// is killed has its session ended by its companion, so the next one leads long before the session timeout; a
// server that is killed and comes back costs no term.
func TestCommand(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("companions take Linux")
	}
	server := members(t, 1)[0]
	url := "nats://" + server.addr + "/elections?timeout=1m"
	dir := t.TempDir()
	elector := filepath.Join(dir, "elector")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", elector, ".")
	build.Dir, build.Env = "../../cmd/elector", append(os.Environ(), "GOWORK=off")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	say := func(status int, args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, elector, args...)
		cmd.Env = append(os.Environ(), "ELECTOR_URL="+url)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		require.True(t, err == nil || errors.As(err, &exit), err)
		require.Equal(t, status, cmd.ProcessState.ExitCode(), string(out))
		return string(out)
	}
	assert.Contains(t, say(1, "doctor"), "nats kv add elections --replicas 3 --storage file")

	js := connect(t, "nats://"+server.addr)
	must.Get(js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "weak", Storage: jetstream.MemoryStorage, TTL: time.Hour, MaxBytes: 1 << 20}))(t)
	must.Get(js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "elections"}))(t)
	weak := say(0, "doctor", "nats://"+server.addr+"/weak")
	for _, check := range []string{"replicas", "storage", "age", "size"} {
		assert.Regexp(t, `(?m)^warn +service +`+check+` `, weak)
	}
	good := say(0, "doctor")
	assert.Regexp(t, `(?m)^unknown +service +sync `, good)
	assert.Regexp(t, `(?m)^ok +service +rights `, good)
	assert.Equal(t, 2, strings.Count("\n"+good, "\nwarn"), "one server is one replica, and the verdict says so:\n%s", good)

	run := func(id string) *process.Process {
		return process.ForTest(t, process.Spec{
			Name: id, Path: elector, Args: []string{"run", "--id", id, url, "/jobs/one", "--", "sleep", "1000"}, LogPath: filepath.Join(dir, id),
		})
	}
	first := run("first")
	leads := func(id string) func() bool {
		return func() bool {
			cmd := exec.CommandContext(t.Context(), elector, "status", url, "/jobs/one")
			out, _ := cmd.Output()
			return bytes.Contains(out, fmt.Append(nil, "leader    ", id, "\n"))
		}
	}
	wait.For(t, "the first leads", leads("first"))
	run("second")
	wait.For(t, "the second stands", func() bool { return strings.Contains(say(0, "candidates", "/jobs/one"), "second") })
	assert.Contains(t, say(0, "ls"), "/jobs/one")

	require.NoError(t, server.Kill())
	require.NoError(t, server.begin())
	wait.For(t, "the service is back", leads("first"))

	began := time.Now()
	require.NoError(t, must.Get(os.FindProcess(first.PID()))(t).Kill()) // alone, not its group
	wait.For(t, "the second leads", leads("second"))
	assert.Less(t, time.Since(began), 20*time.Second, "the session timeout is a minute")
}
