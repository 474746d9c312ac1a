package servertest

import "errors"

var (
	// ErrNotInstalled is wrapped by every error that means a server's
	// programs are missing from this machine, or could not be built. The
	// message names what to install, or has the go command's output.
	ErrNotInstalled = errors.New("server not installed")

	// ErrClosed is returned by operations on a server after Close.
	ErrClosed = errors.New("closed")

	// ErrNotServing is returned when a process answers but does not serve
	// clients, for example a ZooKeeper server without a quorum.
	ErrNotServing = errors.New("server is not serving requests")
)
