//go:build unix

package process

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// orphanEnv makes the test binary start a child process, print its ID, and wait to be killed.
const orphanEnv = "PROCESS_ORPHAN_LOG"

func TestMain(m *testing.M) {
	if log := os.Getenv(orphanEnv); log != "" {
		p := New(Spec{Name: "sleep", Path: "/bin/sleep", Args: []string{"60"}, LogPath: log})
		if err := p.Start(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.PID())
		time.Sleep(time.Minute)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
