package register

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/elector-go/elector/backend"
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
	//   - ErrMoved: the object has another tag. Nothing was written, unless the client repeats requests by
	//     itself and an earlier one was done: the document tells.
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

// ErrForeign means that the object is somebody else's. Nothing is ever written to it. A Store may return it from Read,
// too, if it can tell who that is: then no session opens, and those that are open end with their windows.
var ErrForeign = errors.New("the object holds no document of elector")

// A Summary is what an object holds, for a Store that shows it to people.
type Summary struct {
	Swap     uint64                   // the number of the swap that wrote the object: it rises, unless somebody restores an earlier object
	Entries  []backend.Entry          // sorted by their keys
	Sessions map[string]time.Duration // the session timeouts
}

// Summarize reads an object.
func Summarize(object []byte) (Summary, error) {
	d, err := decode(object)
	if d == nil {
		return Summary{}, err
	}
	s := Summary{Swap: d.Seq, Sessions: make(map[string]time.Duration)}
	for _, key := range slices.Sorted(maps.Keys(d.Entries)) {
		s.Entries = append(s.Entries, d.at(key))
	}
	for id, r := range d.Sessions {
		s.Sessions[id] = r.TTL
	}
	return s, nil
}
