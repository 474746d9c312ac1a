package elector

import (
	"fmt"
	"reflect"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend"
)

// Hooks report every transition of an elector. All are optional.
//
// They are called on the elector's own goroutines or on the one that called one of
// its methods, never under a lock and never on a client library's goroutine. Any two
// may run at the same time, but for these: Elected comes before the Ended of its
// term, and Ended before the next Elected; Session comes in order. A campaign and
// each Observe call Retry on their own, and a campaign and a Resign call Stage.
//
// A hook delays what it reports on, so it should be quick; a term's Context ends in
// time whatever a hook does. A hook that panics in Campaign costs the session, so
// that no entry stays behind.
//
// A hook may call Leader, Candidates and Observe, in the session there is: where
// there is none they fail with ErrInHook. It may use a Term (Stage must not resign it:
// that reports a stage in turn). Campaign and Close, which wait for hooks, fail
// with ErrInHook: call them on another goroutine, and do not wait for that in the
// hook, which nothing can find out. To give up in Retry, cancel the campaign's ctx.
// To another elector's hook the same applies while this one has a hook running, too.
type Hooks struct {
	// Elected is called once per term, before Campaign returns it.
	Elected func(token uint64)

	// Ended is called once per term that was Elected, after its Context was
	// cancelled with cause.
	Ended func(token uint64, cause error)

	// Asked is called once in a term whose leader is asked to go, after Elected and before
	// Ended: see Ask and Term.Asked.
	Asked func(token uint64, r Request)

	// Session is called with each change of the session's state, beginning with
	// Live for a new session. Lost is the last one of each, also of one that Close ends.
	Session func(state backend.State)

	// Retry is called when a campaign or an Observe cannot go on for now, or what a leader has to
	// tell cannot be written, for example because no server can be reached. It is tried again after wait. With
	// attempt and wait 0 it waits for others: see backend.ErrUsedUp and
	// backend.ErrNoParent, one of which err is then: the directory is used up, or gone.
	Retry func(err error, attempt int, wait time.Duration)

	// Occupied is called when a candidate that waits or leads finds somebody else's
	// candidates at the election's path: see ErrOccupied, which err is, and
	// Config.SurveyEvery. One that waits withdraws, and tries again (Retry follows); a
	// leader goes on.
	Occupied func(err error)

	// Aside is called when a candidate that waits stands aside, so that others may lead before it.
	// why is ErrTransfer (the leader has named another candidate to lead next, whose ID the error
	// tells: see Term.Transfer) or ErrUnfit (see Config.Fit), which has the check's error with it: once
	// when it becomes unfit, and beside the campaign, which goes on meanwhile.
	Aside func(why error)

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

// hooks are the Hooks of one elector. It counts those that run.
type hooks struct {
	Hooks
	running atomic.Int32
}

func (h *hooks) elected(token uint64) {
	if h.Elected != nil {
		runHook(h, func() { h.Elected(token) })
	}
}

func (h *hooks) ended(token uint64, cause error) {
	if h.Ended != nil {
		runHook(h, func() { h.Ended(token, cause) })
	}
}

func (h *hooks) asked(token uint64, r Request) {
	if h.Asked != nil {
		runHook(h, func() { h.Asked(token, r) })
	}
}

func (h *hooks) session(state backend.State) {
	if h.Session != nil {
		runHook(h, func() { h.Session(state) })
	}
}

func (h *hooks) retry(err error, attempt int, wait time.Duration) {
	if h.Retry != nil {
		runHook(h, func() { h.Retry(err, attempt, wait) })
	}
}

func (h *hooks) occupied(err error) {
	if h.Occupied != nil {
		runHook(h, func() { h.Occupied(err) })
	}
}

func (h *hooks) aside(why error) {
	if h.Aside != nil {
		runHook(h, func() { h.Aside(why) })
	}
}

// begin reports that a stage begins; the function it returns, that it completed.
func (h *hooks) begin(s Stage) (completed func(error)) {
	if h.Stage == nil {
		return func(error) {}
	}
	runHook(h, func() { h.Stage(StageEvent{Stage: s}) })
	return func(err error) {
		runHook(h, func() { h.Stage(StageEvent{Stage: s, Completed: true, Err: err}) })
	}
}

// stop has something be removed as the stage Stop of the recipe. It is done though the hook that is
// told of it panics, which goes on to the caller.
func (h *hooks) stop(remove func() error) (err error) {
	completed := func(error) {}
	defer func() { completed(err) }()
	defer func() { err = remove() }()
	completed = h.begin(StageStop)
	return nil
}

// runHook calls a hook. It is never inlined: its frame on a goroutine's stack tells that
// the goroutine runs a hook.
//
//go:noinline
func runHook(h *hooks, hook func()) {
	h.running.Add(1)
	defer h.running.Add(-1) // also if it panics
	hook()
}

var runHookEntry = reflect.ValueOf(runHook).Pointer()

// calling tells whether the caller is a hook, of this elector or, while one of this
// elector runs, of another. The stack alone would not do: what is deferred below a hook
// that panics runs on top of it.
func (h *hooks) calling() bool {
	if h.running.Load() == 0 {
		return false
	}
	var pcs [64]uintptr
	for skip := 0; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		frames := runtime.CallersFrames(pcs[:n])
		for more := n > 0; more; {
			var frame runtime.Frame
			if frame, more = frames.Next(); frame.Entry == runHookEntry {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}
