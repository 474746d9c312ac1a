package networktest

import "errors"

var (
	// ErrNoNetwork is wrapped by every error that means that this process may not
	// have network namespaces, or that this kernel cannot break a network.
	ErrNoNetwork = errors.New("no networks of our own here")

	// ErrNotInstalled is wrapped by the errors that name a program that is missing from
	// this machine.
	ErrNotInstalled = errors.New("not installed")

	// ErrClosed is wrapped by the errors of what comes after Close.
	ErrClosed = errors.New("closed")
)
