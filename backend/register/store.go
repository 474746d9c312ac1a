package register

import (
	"context"
	"errors"
)

// A Store keeps one object. It is safe for concurrent use. All calls return soon after ctx has ended.
//
// A Store that cannot keep the promise of Read or Swap is no store for elections: DESIGN.md says why.
type Store interface {
	// Read returns the object and its tag, or nil and "" if there is none. It is linearizable: it shows
	// what every Swap that had succeeded before the call has left, or something later.
	Read(ctx context.Context) (object []byte, tag string, err error)

	// Swap replaces the object if its tag is tag, or makes it if tag is "" and there is none, and returns
	// the new tag, which the object never had before. It is one atomic step. The errors say what happened:
	//
	//   - ErrMoved: nothing was written, because the object has another tag.
	//   - an error that wraps backend.ErrDenied or backend.ErrTooLarge: nothing was written, and trying
	//     again does not help.
	//   - an error that wraps backend.ErrUnavailable: nothing was written.
	//   - any other error: the object may have been replaced, or may still be, as long as its tag is tag.
	Swap(ctx context.Context, object []byte, tag string) (newTag string, err error)
}

// A Notifier is a Store that tells of changes. Without it, sessions that wait read every Config.Poll.
type Notifier interface {
	Store
	// Notify calls changed after each change of the object until ctx ends, and returns then. It may skip
	// changes that others follow. object and tag are what the change has left; a nil object means that they
	// are unknown, or that the store is out of reach: then the object is read. Notices are hints: they may be
	// late, repeated, out of order or missing, and nothing but speed depends on that. But an object and its
	// tag belong together, as in Read: a swap may be built on them. Notify waits a while before it repeats
	// what has failed.
	Notify(ctx context.Context, changed func(object []byte, tag string))
}

// ErrMoved is the error of a Swap of an object that has another tag.
var ErrMoved = errors.New("the object has changed since it was read")
