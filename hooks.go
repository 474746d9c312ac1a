package elector

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy"
)

// Hooks report every transition of an elector. All are optional.
//
// They run on the elector's own goroutines or on the goroutine that called one of its methods, never under
// a lock and never on a client library's goroutine. Any two may run at the same time, with these
// exceptions: Elected comes before the Ended of its term, and Ended before the next Elected; Session calls
// come in order. Each campaign and each Observe calls Retry independently, each campaign and each Resign
// calls Stage, and each Commit calls Commit.
//
// A hook delays what it reports on, so it should be quick; a term's Context ends in time in any case. If a
// hook panics in Campaign, the session is given up, so that no entry stays behind. A hook that ends its
// goroutine (runtime.Goexit, or FailNow in a test) ends the goroutine of the called method, but none of
// the elector's own.
//
// A hook may call Leader, Candidates and Observe; they use the existing session, and fail with ErrInHook
// if there is none. It may use a Term, but Stage must not resign it and Commit must not commit, because
// those calls report to the same hook. Campaign and Close wait for hooks, so they fail with ErrInHook:
// call them on another goroutine, and do not wait for that goroutine in the hook; nothing can detect such
// a wait. To give up in Retry, cancel the campaign's ctx. While a hook of this elector runs, the same
// rules apply to the hooks of other electors.
//
// Join combines several sets of hooks.
type Hooks struct {
	// Elected is called once per term, before Campaign returns it.
	Elected func(t *Term)

	// Ended is called once per term that was Elected, after its Context was cancelled with cause.
	Ended func(t *Term, cause error)

	// Asked is called once in a term whose leader is asked to go, after Elected and before Ended: see
	// Term.Asked.
	Asked func(t *Term, r Request)

	// Session is called with each change of the session's state, beginning with Live for a new session.
	// The last state of each session is Lost, even if Close ends it. id is the service's unique name for
	// the session.
	Session func(id string, state backend.State)

	// Retry is called when something cannot continue for now and will be tried again: see RetryEvent.
	Retry func(r RetryEvent)

	// Occupied is called when a candidate that waits or leads finds somebody else's candidates at the
	// election's path: err is ErrOccupied; see Config.SurveyEvery. A waiting candidate withdraws and tries
	// again (Retry follows); a leader continues. t is the leader's term, or nil for a waiting candidate.
	Occupied func(t *Term, err error)

	// Aside is called when a waiting candidate stands aside, so that others may lead before it. why is
	// ErrTransfer or ErrUnfit. ErrTransfer: the leader has named another candidate to lead next; the error
	// contains its ID (see Term.Transfer). ErrUnfit wraps the error of Config.Fit's check; it is reported
	// once when the candidate becomes unfit, and the campaign continues meanwhile.
	Aside func(why error)

	// Stage is called when a state of the ZooKeeper recipe begins and when it completes.
	Stage func(StageEvent)

	// Campaign is called when a Campaign begins and when it is about to return, after Elected if it has
	// won. A Campaign that is refused at once, for example with ErrBusy, is not reported.
	Campaign func(CampaignEvent)

	// Commit is called when a Term.Commit is about to return.
	Commit func(CommitEvent)
}

// Join returns hooks that call those of h, then those of each of more, in this order. If a hook panics or
// ends its goroutine, the ones after it are still called; then the panic or exit continues.
func (h Hooks) Join(more ...Hooks) Hooks {
	for _, o := range more {
		h = h.join(o)
	}
	return h
}

func (h Hooks) join(o Hooks) Hooks {
	return Hooks{
		Elected:  both1(h.Elected, o.Elected),
		Ended:    both2(h.Ended, o.Ended),
		Asked:    both2(h.Asked, o.Asked),
		Session:  both2(h.Session, o.Session),
		Retry:    both1(h.Retry, o.Retry),
		Occupied: both2(h.Occupied, o.Occupied),
		Aside:    both1(h.Aside, o.Aside),
		Stage:    both1(h.Stage, o.Stage),
		Campaign: both1(h.Campaign, o.Campaign),
		Commit:   both1(h.Commit, o.Commit),
	}
}

// both1 and both2 call two functions, either of which may be nil.
func both1[A any](first, second func(A)) func(A) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(a A) {
		defer second(a)
		first(a)
	}
}

func both2[A, B any](first, second func(A, B)) func(A, B) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(a A, b B) {
		defer second(a, b)
		first(a, b)
	}
}

// A RetryEvent says what cannot continue for now, and when it is tried again.
type RetryEvent struct {
	// What is the work that is tried again.
	What Work
	// Term is the term that the work is about, for WorkPublish and WorkLead; otherwise nil.
	Term *Term
	// Err is why it failed.
	Err error
	// Attempt counts consecutive failed attempts, beginning with 1, and Wait is the pause before the next
	// one. Both are 0 when a campaign waits for others without a limit: then Err is backend.ErrUsedUp (the
	// directory is used up) or backend.ErrNoParent (the directory is gone).
	Attempt int
	Wait    time.Duration
}

// Work is something that is tried again.
type Work int

const (
	WorkCampaign Work = iota + 1 // Campaign: for example, no server can be reached
	WorkObserve                  // Observe, for the same reasons
	WorkPublish                  // writing a leader's entry when its strategy wants it written
	WorkLead                     // Run: its lead function returned an error of its own
)

var workNames = [...]string{WorkCampaign: "campaign", WorkObserve: "observe", WorkPublish: "publish", WorkLead: "lead"}

// String returns the work's name, for example "campaign".
func (w Work) String() string {
	if w >= WorkCampaign && int(w) < len(workNames) {
		return workNames[w]
	}
	return fmt.Sprintf("Work(%d)", int(w))
}

// A Stage is a state of the ZooKeeper leader election recipe. Its String is the recipe's name of it.
// Source: LeaderElectionSupport in Apache ZooKeeper's recipes.
type Stage = strategy.Stage

const (
	StageStart     = strategy.StageStart     // open a session, find or found the election
	StageOffer     = strategy.StageOffer     // enter the election
	StageDetermine = strategy.StageDetermine // find out which candidates come before this one
	StageReady     = strategy.StageReady     // wait for the predecessor, or for the seat
	StageElected   = strategy.StageElected   // begin the term
	StageFailed    = strategy.StageFailed    // an attempt has failed; it begins and completes at once
	StageStop      = strategy.StageStop      // resign or withdraw
)

// A StageEvent reports that a stage began or completed.
type StageEvent struct {
	Stage Stage
	// Completed is false when the stage begins.
	Completed bool
	// Err is why a stage completed without success; for StageFailed, why the attempt failed.
	Err error
	// Term is the term that StageStop ends; otherwise nil.
	Term *Term
}

// String returns, for example, "offer begun" or "determine completed: no such entry".
func (e StageEvent) String() string {
	switch {
	case !e.Completed:
		return e.Stage.String() + " begun"
	case e.Err != nil:
		return e.Stage.String() + " completed: " + e.Err.Error()
	}
	return e.Stage.String() + " completed"
}

// A CampaignEvent reports that a Campaign began or completed.
type CampaignEvent struct {
	// Context is the ctx passed to Campaign, for the values in it, such as a trace's.
	Context context.Context
	// Completed is false when the campaign begins.
	Completed bool
	// Term is the term that a completed campaign won; Err is why it won none.
	Term *Term
	Err  error
}

// A CommitEvent reports the outcome of a Term.Commit.
type CommitEvent struct {
	// Context is the ctx passed to Commit, for the values in it, such as a trace's.
	Context context.Context
	Term    *Term
	// Began is when Commit was called, and Took is how long it took.
	Began time.Time
	Took  time.Duration
	// Writes is their number, and Err is what Commit returns.
	Writes int
	Err    error
}

// hooks are the Hooks of one elector.
type hooks struct {
	Hooks
	running *atomic.Int32 // number of hooks running
	// own is for calls on the elector's own goroutines, which must continue even if a hook ends its
	// goroutine. Elsewhere the goroutine is the caller's.
	own *hooks
}

func newHooks(h Hooks) *hooks {
	running := new(atomic.Int32)
	return &hooks{Hooks: h, running: running, own: &hooks{Hooks: h, running: running}}
}

func (h *hooks) elected(t *Term)                        { call1(h, h.Elected, t) }
func (h *hooks) ended(t *Term, cause error)             { call2(h, h.Ended, t, cause) }
func (h *hooks) asked(t *Term, r Request)               { call2(h, h.Asked, t, r) }
func (h *hooks) session(id string, state backend.State) { call2(h, h.Session, id, state) }
func (h *hooks) retry(r RetryEvent)                     { call1(h, h.Retry, r) }
func (h *hooks) occupied(t *Term, err error)            { call2(h, h.Occupied, t, err) }
func (h *hooks) aside(why error)                        { call1(h, h.Aside, why) }
func (h *hooks) campaign(c CampaignEvent)               { call1(h, h.Campaign, c) }
func (h *hooks) commit(c CommitEvent)                   { call1(h, h.Commit, c) }

// call1 and call2 call a hook, which may be nil.
func call1[A any](h *hooks, hook func(A), a A) {
	if hook != nil {
		h.run(func() { hook(a) })
	}
}

func call2[A, B any](h *hooks, hook func(A, B), a A, b B) {
	if hook != nil {
		h.run(func() { hook(a, b) })
	}
}

// begin reports that a stage begins; the returned function reports that it completed. t is the term that
// the stage is about, or nil.
func (h *hooks) begin(s Stage, t *Term) (completed func(error)) {
	if h.Stage == nil {
		return func(error) {}
	}
	h.run(func() { h.Stage(StageEvent{Stage: s, Term: t}) })
	return func(err error) {
		h.run(func() { h.Stage(StageEvent{Stage: s, Completed: true, Err: err, Term: t}) })
	}
}

// stop calls remove as the recipe's Stop stage. It calls remove even if the Stage hook panics; the panic
// then continues to the caller.
func (h *hooks) stop(t *Term, remove func() error) (err error) {
	completed := func(error) {}
	defer func() { completed(err) }()
	defer func() { err = remove() }()
	completed = h.begin(StageStop, t)
	return nil
}

// run calls a hook. All methods here call hooks through it.
func (h *hooks) run(hook func()) {
	if h.own != nil { // the goroutine is the caller's
		runHook(h, hook)
		return
	}
	runApart(func() { runHook(h, hook) })
}

// errEnded is the outcome of a call that ended its goroutine.
var errEnded = errors.New("a layer of the backend, or the strategy, has ended its goroutine (runtime.Goexit, or FailNow of a test)")

// runApart calls do on a goroutine of its own, waits, and reports whether do returned. do may run the
// user's code, which may end its goroutine (runtime.Goexit, or FailNow in a test).
func runApart(do func()) (returned bool) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		do()
		returned = true
	}()
	<-ended
	return returned
}

// runHook calls a hook. It is never inlined: its frame on a goroutine's stack shows that the goroutine
// runs a hook.
//
//go:noinline
func runHook(h *hooks, hook func()) {
	h.running.Add(1)
	defer h.running.Add(-1) // even if it panics
	hook()
}

var runHookEntry = reflect.ValueOf(runHook).Pointer()

// calling reports whether the caller is a hook of this elector or, while a hook of this elector runs, of
// another. The stack alone is not enough: when a hook panics, functions deferred below it run on top of it.
//
// Only the stack tells. A ctx for hooks would miss a Close with another ctx, which is what people write. The
// number of a goroutine is no part of Go's API: runtime.Stack prints it, which takes longer than this, and for
// each hook rather than only for a call beside one.
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
