package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/internal/servertest"
)

// binary is the program that a reader of the README runs.
var binary string

func TestMain(m *testing.M) {
	code, err := build(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func build(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "replicas")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "replicas")
	args := []string{"build", "-o", binary}
	if raced() {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		return 1, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return m.Run(), nil
}

// raced tells whether the test was built with the race detector: then the program is, too.
func raced() bool {
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == "-race" && s.Value == "true" {
			return true
		}
	}
	return false
}

// TestDemo looks for what the demonstration is to show.
func TestDemo(t *testing.T) {
	servertest.Long(t, "three processes that are killed")
	t.Parallel()
	server := servertest.EtcdForTest(t, servertest.EtcdConfig{NoSync: true})
	out, err := exec.Command(binary, "demo", "-backend", "etcd://"+server.Addr()+"?timeout=10s").CombinedOutput()
	t.Logf("%s", out)
	assert.NoError(t, err)
	rest := string(out)
	for _, next := range []string{
		"PRIMARY, token ", "=== kill -9 of the primary", "PRIMARY, token ", "has taken over", "=== the lead is moved to",
		"is asked to go by", "which is to lead next, has everything", "PRIMARY, token ", "All of them are in the log, in order.",
	} {
		_, after, found := strings.Cut(rest, next)
		assert.True(t, found, "%q does not come next", next)
		rest = after
	}
}

func TestBadFlags(t *testing.T) {
	const server, all = "-backend zk://127.0.0.1:1", "-nodes a=127.0.0.1:1,b=127.0.0.1:2"
	for _, c := range []struct{ args, says string }{
		{"", "no command"},
		{"nod", `unknown command "nod"`},
		{"node", "-nodes is missing"},
		{"node -id a -data d " + server, "-nodes is missing"},
		{"node -id a " + server + " " + all, "-data is missing"},
		{"node -id x -data d " + server + " " + all, `-id "x" is none of the nodes`},
		{"node -id a -data d " + all, "-backend is missing"},
		{"node -id a -data d -backend mem:// " + all, "takes several"},
		{"node -id a -data d -backend zk://h?timeuot=1s " + all, `unknown parameter "timeuot"`},
		{"node -id a -data d -election x " + server + " " + all, "-election: "},
		{"node -id a -data d -step 0s " + server + " " + all, "-step 0s is too short"},
		{"node -id a -data /dev/null/x " + server + " " + all, "not a directory"},
		{"node -nodes a=127.0.0.1", `"a=127.0.0.1" is not of the form id=host:port`},
		{"node -nodes a=127.0.0.1:1,,", "is not of the form"},
		{"node -nodes a=127.0.0.1:1,a=127.0.0.1:2", `two of the ID "a"`},
		{"node -nodes a=127.0.0.1:1 -observers a=127.0.0.1:2", `-observers: there are two of the ID "a"`},
		{"append", "-nodes is missing"},
		{"append more " + all, `unexpected argument "more"`},
		{"log " + all, "is none of the nodes"},
		{"log -id a " + all, "refused"},
		{"move " + server, "-to is missing"},
		{"demo -backend nonsense", "not a URL"},
		{"demo -backend mem://", "takes several"},
		{"demo -x", "not defined: -x"},
	} {
		out, err := exec.Command(binary, strings.Fields(c.args)...).CombinedOutput()
		assert.Error(t, err, c.args)
		assert.Contains(t, string(out), c.says, c.args)
	}
}
