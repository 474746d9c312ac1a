//go:build unix

package program

import (
	"fmt"
	"syscall"
)

// EnoughFiles returns an error if n files cannot be open. Go programs raise their limit to the hard limit
// by themselves; a server that is started from here inherits it.
func EnoughFiles(n int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if uint64(limit.Cur) < uint64(n) {
		return fmt.Errorf("%d open files are allowed, %d are needed: raise ulimit -Hn, or take fewer candidates", limit.Cur, n)
	}
	return nil
}
