package driver

import "github.com/elector-go/elector/backend"

// A Meaning says what an error means for its request. Backends have tables of them, made of Unknown, NotDone,
// Final and Over.
type Meaning struct {
	class    int
	Sentinel error // what a call that gives up returns; nil: none, or one that depends on the request
	// Stop: the call gives up at once. Other errors are ridden out, and given up when a Bout is over: while
	// heartbeats succeed nothing else would report them. The campaign then tries again, with growing pauses,
	// and reports it (Hooks.Retry).
	Stop bool
}

var (
	// Unknown: it may have been done. A read is sent again. A write is looked for, and made again if it was
	// not done. An error that is in no table is Unknown.
	Unknown = Meaning{class: 1, Sentinel: backend.ErrUnavailable}
	// NotDone: nothing was done, and the request is sent again.
	NotDone = Meaning{class: 2, Sentinel: backend.ErrUnavailable}
	// Final: nothing was done, and waiting does not change that, or the error is the result.
	Final = Meaning{class: 3, Stop: true}
	// Over: the session is over, or its link.
	Over = Meaning{class: 4, Stop: true}
)

// As returns the Meaning with another sentinel.
func (m Meaning) As(sentinel error) Meaning {
	m.Sentinel = sentinel
	return m
}

// AtOnce returns the Meaning of an error that waiting changes, but not soon enough for a call.
func (m Meaning) AtOnce() Meaning {
	m.Stop = true
	return m
}

// Is reports whether both are made of the same one.
func (m Meaning) Is(o Meaning) bool { return m.class == o.class }
