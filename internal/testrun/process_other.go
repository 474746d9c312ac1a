//go:build !linux

package main

import "os/exec"

// interruptible leaves the command in the terminal's group of processes, which all hear of its Ctrl-C.
// Of other signals only go test hears.
func interruptible(*exec.Cmd) {}

// endWithParent does nothing: a program outlives its meter if that is killed.
func endWithParent(*exec.Cmd) {}
