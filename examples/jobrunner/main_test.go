package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/elector-go/elector/internal/servertest"
)

// TestMain makes this program a jobrunner when the test starts it as one.
func TestMain(m *testing.M) {
	if os.Getenv("JOBRUNNER") != "" {
		main()
		return
	}
	os.Exit(servertest.Main(m))
}

// The leader is killed, and the other process continues: no step is left out, and none is finished twice. The
// last one may not be printed, if its process died just then. SIGTERM ends the other with 0.
func TestTakeover(t *testing.T) {
	url := "etcd://" + servertest.EtcdForTest(t, servertest.EtcdConfig{NoSync: true}).Addr() + "?timeout=4s"
	out, into, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	runners := make(map[string]*exec.Cmd)
	for _, id := range []string{"first", "second"} {
		r := exec.Command(os.Args[0], "-backend", url, "-id", id, "-http", "localhost:0")
		r.Env, r.Stdout, r.Stderr = append(os.Environ(), "JOBRUNNER=yes"), into, os.Stderr
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Process.Kill() })
		runners[id] = r
	}
	step, id, killed := 0, "", ""
	for lines := bufio.NewScanner(out); (step < 10 || id == killed) && lines.Scan(); {
		last, before := step, id
		if _, err := fmt.Sscanf(lines.Text(), "finished step %d by %s", &step, &id); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		if step != last+1 && (step != last+2 || id == before) {
			t.Fatalf("step %d by %s comes after step %d by %s", step, id, last, before)
		}
		if step >= 5 && killed == "" {
			killed = id
			if err := runners[killed].Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := runners[id].Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := runners[id].Wait(); err != nil {
		t.Error("after SIGTERM:", err)
	}
}
