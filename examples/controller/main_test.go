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
	"github.com/stretchr/testify/require"
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
	dir, err := os.MkdirTemp("", "controller")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "controller")
	args := []string{"build", "-o", binary}
	if raced() {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		return 1, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return m.Run(), nil
}

// raced tells whether the test was built with the race detector: then the program is,
// too.
func raced() bool {
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == "-race" && s.Value == "true" {
			return true
		}
	}
	return false
}

// TestDemo looks for what each scene of the demonstration is to show, on fake time. The brokers talk at
// the same time, so the order within a scene is not given.
func TestDemo(t *testing.T) {
	var out string
	inCluster(t, 0, func(c *cluster) {
		require.NoError(c, demo(c.Context(), c.say))
		out = strings.Join(c.lines, "\n")
	})
	rest := out
	for _, scene := range []struct {
		begins string
		shows  []string
	}{
		{"three brokers", []string{"broker 1: IS THE CONTROLLER, epoch 1"}},
		{"=== topic orders", []string{"broker 2: leads orders-1, leader epoch 0 (controller epoch 1)"}},
		{"=== broker 2, the leader of orders-1, DIES", []string{
			"broker 2: leads orders-1 no more",
			"broker 3: leads orders-1, leader epoch 1 (controller epoch 1)",
		}},
		{"=== broker 2 COMES BACK", []string{
			"broker 2: registered",
			"broker 1: controller: orders-1: leader 3, ISR [2 3], leader epoch 2",
		}},
		{"=== broker 1, the controller, DIES", []string{
			"broker 1: commit refused: deposed",
			": IS THE CONTROLLER, epoch 2",
			"broker 2: leads orders-0, leader epoch 3 (controller epoch 2)",
		}},
		{"=== broker 3 DIES", []string{": controller: orders-2: OFFLINE, ISR [3], leader epoch 2"}},
		{"=== the end", nil},
	} {
		_, after, found := strings.Cut(rest, scene.begins)
		require.True(t, found, "%q does not come next in:\n%s", scene.begins, out)
		for _, line := range scene.shows {
			assert.Contains(t, after, line, "after %q", scene.begins)
		}
		rest = after
	}
}

func TestBadFlags(t *testing.T) {
	const server = "zk://127.0.0.1:1"
	for _, c := range []struct{ args, says string }{
		{"-broker 1", "mem:// is a demonstration that takes no other flags"},
		{"-backend mem:// -create a:1:1", "mem:// is a demonstration"},
		{"-backend " + server, "either -broker"},
		{"-backend " + server + " -broker 1 -create a:1:1", "either -broker"},
		{"-backend " + server + " -broker -4", "-broker -4 is no broker id"},
		{"-backend " + server + " -broker 2147483648", "is no broker id"},
		{"-backend " + server + " -broker one", "invalid value"},
		{"-backend " + server + " -broker 1 -unclean", "-unclean goes with -create"},
		{"-backend " + server + " -create a:1:1 -stubborn", "-stubborn goes with -broker"},
		{"-backend " + server + " -create orders", "there must be three parts"},
		{"-backend " + server + " -create orders:x:1", `parsing "x"`},
		{"-backend " + server + " -create orders:0:1", "there must be 1 to 1000 partitions"},
		{"-backend " + server + " -create orders:3:0", "there must be 1 to 100 replicas"},
		{"-backend " + server + " -create ../x:3:1", "the name must be"},
		{"-backend " + server + " -broker 1 more", `unexpected argument "more"`},
		{"-backend " + server + " -broker 1 -root /a/../b", `-root: key "/a/../b" has the segment ".."`},
		{"-backend " + server + " -broker 1 -root demo", "-root: "},
		{"-root /a", "mem:// is a demonstration"},
		{"-backend nonsense -broker 1", "not a URL"},
		{"-backend " + server + " -create a:1:1", "unavailable"},
	} {
		out, err := exec.Command(binary, strings.Fields(c.args)...).CombinedOutput()
		assert.Error(t, err, c.args)
		assert.Contains(t, string(out), c.says, c.args)
	}
}
