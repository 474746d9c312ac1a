//go:build linux || darwin

package history

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine returns the machine's monotonic clock, which all its processes share, or an error if there is
// no such clock.
func Machine() (Clock, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return Clock{}, fmt.Errorf("history: monotonic clock: %w", err)
	}
	return Clock{MachineClock, boot(), func() int64 {
		var t unix.Timespec
		// It cannot fail after it has succeeded once: the arguments are the same.
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
		return t.Nano()
	}}, nil
}

// boot distinguishes this run of this machine from others, as well as the system can.
func boot() string {
	if id, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		return strings.TrimSpace(string(id))
	}
	name, _ := os.Hostname() // without it all machines of this kind look the same
	return runtime.GOOS + " " + name
}
