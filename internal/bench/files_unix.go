//go:build unix

package main

import (
	"fmt"
	"syscall"
)

// enoughFiles tells whether n connections fit into the limit of open files. Go
// programs have raised theirs to the hard limit by themselves.
func enoughFiles(n int) error {
	const others = 200
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if need := uint64(n + others); uint64(limit.Cur) < need {
		return fmt.Errorf("%d open files are allowed, %d are needed: raise ulimit -Hn", limit.Cur, need)
	}
	return nil
}
