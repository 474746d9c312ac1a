// Package companion tells whether this process is the companion of another one (package lastwill), and
// therefore opens no sessions.
package companion

import (
	"errors"
	"os"
)

// Marker is the environment variable that makes a process a companion. Its value is the descriptor of the
// connection to the other process.
const Marker = "ELECTOR_COMPANION"

// Connection is the value of Marker, and Marked tells whether it was set. The variable is removed before
// main, so no child of this process inherits it.
var Connection, Marked = take()

// ErrOpens is the error of a call that opens a session in a companion.
var ErrOpens = errors.New("this process is the companion of another one and takes part in no election: call lastwill.Start before the first session is opened")

func take() (string, bool) {
	value, ok := os.LookupEnv(Marker)
	_ = os.Unsetenv(Marker) // the name is good
	return value, ok
}
