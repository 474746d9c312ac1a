// Package companion tells whether this process is the companion of another one (package lastwill),
// and opens no sessions therefore.
package companion

import (
	"errors"
	"os"
)

// Marker is the variable of the environment that makes a process a companion. Its value is the
// descriptor of the connection to the other process.
const Marker = "ELECTOR_COMPANION"

// Connection is that value, and Marked whether there was one. It is taken away before main, so that
// no child of this process has it.
var Connection, Marked = take()

// ErrOpens is the error of whoever opens a session in a companion.
var ErrOpens = errors.New("this process is the companion of another one and takes part in no election: call lastwill.Start before the first session is opened")

func take() (string, bool) {
	value, ok := os.LookupEnv(Marker)
	_ = os.Unsetenv(Marker) // the name is good
	return value, ok
}
