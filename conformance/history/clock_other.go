//go:build !linux && !darwin

package history

import (
	"errors"
	"fmt"
	"runtime"
)

// Machine returns the machine's monotonic clock, which all its processes share, or an error if there is
// no such clock.
func Machine() (Clock, error) {
	return Clock{}, fmt.Errorf("history: no clock that processes share is known on %s: use Logical, in one process: %w",
		runtime.GOOS, errors.ErrUnsupported)
}
