//go:build !linux

package main

import (
	"errors"
	"os"
	"syscall"
)

var errLinux = errors.New("campaigns of faults need Linux, for they stop processes and have none outlive them")

func childAttr() *syscall.SysProcAttr { return nil }

func descendantAttr(bool) *syscall.SysProcAttr { return nil }

func pauseProcess(*os.Process) error  { return errLinux }
func resumeProcess(*os.Process) error { return errLinux }
