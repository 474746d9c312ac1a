package elector

import (
	"fmt"
	"time"

	"github.com/elector-go/elector/backend"
)

// Hooks report every transition of an elector. All are optional.
//
// They are called on the elector's own goroutines or on the one that called one of
// its methods, never under a lock and never on a client library's goroutine, and
// those of different kinds may run at the same time. Elected comes before the
// Ended of its term, and Ended before the next Elected; Session comes in order. A
// hook delays what it reports on, so it should be quick, and must not call back
// into the elector; a term's Context ends in time whatever a hook does. A hook
// that panics in Campaign costs the session, so that no entry stays behind.
type Hooks struct {
	// Elected is called once per term, before Campaign returns it.
	Elected func(token uint64)

	// Ended is called once per term that was Elected, after its Context was
	// cancelled with cause.
	Ended func(token uint64, cause error)

	// Session is called with each change of the session's state, beginning with
	// Live for a new session.
	Session func(state backend.State)

	// Retry is called when a campaign or an Observe cannot go on for now, for
	// example because no server can be reached, and will try again after wait. With
	// attempt and wait 0 it waits for others: see backend.ErrUsedUp, which err is then.
	Retry func(err error, attempt int, wait time.Duration)

	// Stage is called as the recipe's own states begin and complete.
	Stage func(StageEvent)
}

// A Stage is a state of the ZooKeeper leader election recipe.
// Source: LeaderElectionSupport in Apache ZooKeeper's recipes.
type Stage int

const (
	StageStart     Stage = iota + 1 // open a session, find or found the election
	StageOffer                      // enter the election
	StageDetermine                  // find out who stands before this candidate
	StageReady                      // wait for the predecessor, or for the seat
	StageElected                    // take up the term
	StageFailed                     // give an attempt up and clean up after it
	StageStop                       // resign or withdraw
)

var stageNames = [...]string{
	StageStart: "start", StageOffer: "offer", StageDetermine: "determine", StageReady: "ready",
	StageElected: "elected", StageFailed: "failed", StageStop: "stop",
}

// String returns the recipe's name of the stage.
func (s Stage) String() string {
	if s >= StageStart && int(s) < len(stageNames) {
		return stageNames[s]
	}
	return fmt.Sprintf("Stage(%d)", int(s))
}

// A StageEvent tells that a stage began, or completed.
type StageEvent struct {
	Stage Stage
	// Completed is false when the stage begins.
	Completed bool
	// Err is why a stage completed without success, or what failed.
	Err error
}

// String returns for example "offer begun" or "determine completed: no such entry".
func (e StageEvent) String() string {
	switch {
	case !e.Completed:
		return e.Stage.String() + " begun"
	case e.Err != nil:
		return e.Stage.String() + " completed: " + e.Err.Error()
	}
	return e.Stage.String() + " completed"
}

func (h Hooks) elected(token uint64) {
	if h.Elected != nil {
		h.Elected(token)
	}
}

func (h Hooks) ended(token uint64, cause error) {
	if h.Ended != nil {
		h.Ended(token, cause)
	}
}

func (h Hooks) session(state backend.State) {
	if h.Session != nil {
		h.Session(state)
	}
}

func (h Hooks) retry(err error, attempt int, wait time.Duration) {
	if h.Retry != nil {
		h.Retry(err, attempt, wait)
	}
}

// begin reports that a stage begins; the function it returns, that it completed.
func (h Hooks) begin(s Stage) (completed func(error)) {
	if h.Stage == nil {
		return func(error) {}
	}
	h.Stage(StageEvent{Stage: s})
	return func(err error) { h.Stage(StageEvent{Stage: s, Completed: true, Err: err}) }
}
