//go:build unix

package servertest

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"
)

// orphanEnv makes the test binary start a child process, print its id, and
// wait to be killed.
const orphanEnv = "SERVERTEST_ORPHAN_LOG"

func TestMain(m *testing.M) {
	if log := os.Getenv(orphanEnv); log != "" {
		p := newProcess(processSpec{Name: "sleep", Path: "/bin/sleep", Args: []string{"60"}, LogPath: log})
		if err := p.start(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.pid())
		time.Sleep(time.Minute)
		os.Exit(1)
	}
	if how := os.Getenv(talkerEnv); how != "" {
		talk(how)
		os.Exit(0)
	}
	os.Exit(Main(m))
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// gone reports whether there is no such process and no such process group.
func gone(pid int) bool {
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) && errors.Is(syscall.Kill(-pid, 0), syscall.ESRCH)
}
