package elector

import (
	"context"
	"sync"
	"time"
)

// A Fit asks the application whether it can lead. It is asked while the elector campaigns or leads:
// before a candidate enters, and from then on every so often.
//
// One that is not fit stands aside: it withdraws, or with strategy/ranked it stands on, where all can
// see it, and does not lead. A leader that is not fit any more is asked to go (Term.Asked, Run). One
// that is fit again stands again.
type Fit struct {
	// Check returns why the application cannot lead, or nil. It may block until ctx ends, which is
	// Timeout after the call. One that goes on after that counts as failed, and is not called again
	// before it has returned.
	Check func(ctx context.Context) error
	// Every is the time between two calls; zero means 5 s.
	Every time.Duration
	// Timeout is how long a call may take; zero means Every, and 5 s at most.
	Timeout time.Duration
	// Failures is how many calls in a row have to fail before the application counts as not fit;
	// zero means 1. One that succeeds makes it fit again.
	Failures int
}

// fitness is what the checks have said so far.
type fitness struct {
	mu      sync.Mutex
	unfit   error
	changed chan struct{}
}

func (f *fitness) now() (unfit error, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unfit, f.changed
}
