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
)

// Hooks report every transition of an elector. All are optional.
//
// They are called on the elector's own goroutines or on the one that called one of
// its methods, never under a lock and never on a client library's goroutine. Any two
// may run at the same time, but for these: Elected comes before the Ended of its
// term, and Ended before the next Elected; Session comes in order. A campaign and
// each Observe call Retry on their own, a campaign and a Resign call Stage, and each Commit
// calls Commit.
//
// A hook delays what it reports on, so it should be quick; a term's Context ends in
// time whatever a hook does. A hook that panics in Campaign costs the session, so
// that no entry stays behind. A hook that ends its goroutine (runtime.Goexit, as by FailNow
// of a test) ends that of the method that was called, and none of the elector's own.
//
// A hook may call Leader, Candidates and Observe, in the session there is: where
// there is none they fail with ErrInHook. It may use a Term (Stage must not resign it, nor
// Commit commit: that reports in turn). Campaign and Close, which wait for hooks, fail
// with ErrInHook: call them on another goroutine, and do not wait for that in the
// hook, which nothing can find out. To give up in Retry, cancel the campaign's ctx.
// To another elector's hook the same applies while this one has a hook running, too.
//
// Join puts several sets of hooks side by side.
type Hooks struct {
	// Elected is called once per term, before Campaign returns it.
	Elected func(t *Term)

	// Ended is called once per term that was Elected, after its Context was
	// cancelled with cause.
	Ended func(t *Term, cause error)

	// Asked is called once in a term whose leader is asked to go, after Elected and before
	// Ended: see Ask and Term.Asked.
	Asked func(t *Term, r Request)

	// Session is called with each change of the session's state, beginning with
	// Live for a new session. Lost is the last one of each, also of one that Close ends.
	// id is the service's name for the session: each has its own.
	Session func(id string, state backend.State)

	// Retry is called when something cannot go on for now, and is tried again: see RetryEvent.
	Retry func(r RetryEvent)

	// Occupied is called when a candidate that waits or leads finds somebody else's
	// candidates at the election's path: see ErrOccupied, which err is, and
	// Config.SurveyEvery. One that waits withdraws, and tries again (Retry follows); a
	// leader goes on. t is the leader's term, and nil for one that waits.
	Occupied func(t *Term, err error)

	// Aside is called when a candidate that waits stands aside, so that others may lead before it.
	// why is ErrTransfer (the leader has named another candidate to lead next, whose ID the error
	// tells: see Term.Transfer) or ErrUnfit (see Config.Fit), which has the check's error with it: once
	// when it becomes unfit, and beside the campaign, which goes on meanwhile.
	Aside func(why error)

	// Stage is called as the recipe's own states begin and complete.
	Stage func(StageEvent)

	// Campaign is called when a Campaign begins and when it is about to return, after Elected if it has
	// won. One that is refused at once, such as by ErrBusy, is not told.
	Campaign func(CampaignEvent)

	// Commit is called when a Term.Commit is about to return.
	Commit func(CommitEvent)
}

// Join returns hooks that call those of h, and then those of each of more, in this order. A hook that
// panics, or ends its goroutine, keeps none after it from being called; then that goes on.
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

// both1 and both2 call two functions, of which either may be nil.
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

// A RetryEvent tells what cannot go on for now, and when it is tried again.
type RetryEvent struct {
	// What is it that is tried again.
	What Work
	// Term is the one that it is about, with WorkPublish and WorkLead; else nil.
	Term *Term
	// Err is why it has failed.
	Err error
	// Attempt counts those that have failed one after the other, beginning with 1, and Wait is the pause
	// before the next one. Both are 0 where a campaign waits for others, however long that takes: Err is
	// backend.ErrUsedUp or backend.ErrNoParent then, as the directory is used up, or gone.
	Attempt int
	Wait    time.Duration
}

// Work is something that is tried again.
type Work int

const (
	WorkCampaign Work = iota + 1 // Campaign: for example, no server can be reached
	WorkObserve                  // Observe, for the same reasons
	WorkPublish                  // a leader's entry, which its strategy wants to be written
	WorkLead                     // Run: its lead function has returned an error of its own
)

var workNames = [...]string{WorkCampaign: "campaign", WorkObserve: "observe", WorkPublish: "publish", WorkLead: "lead"}

// String returns the work's name, for example "campaign".
func (w Work) String() string {
	if w >= WorkCampaign && int(w) < len(workNames) {
		return workNames[w]
	}
	return fmt.Sprintf("Work(%d)", int(w))
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
	// Term is the one that StageStop ends; else nil.
	Term *Term
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

// A CampaignEvent tells that a Campaign begins, or completes.
type CampaignEvent struct {
	// Context is the one that Campaign was called with, for the values in it, such as a trace's.
	Context context.Context
	// Completed is false when the campaign begins.
	Completed bool
	// Term is the one that a completed campaign has won, and Err why it has won none.
	Term *Term
	Err  error
}

// A CommitEvent tells what became of a Term.Commit.
type CommitEvent struct {
	// Context is the one that Commit was called with, for the values in it, such as a trace's.
	Context context.Context
	Term    *Term
	// Began is when it was called, and Took how long it took.
	Began time.Time
	Took  time.Duration
	// Ops is the number of ops, and Err what Commit returns.
	Ops int
	Err error
}

// hooks are the Hooks of one elector.
type hooks struct {
	Hooks
	running *atomic.Int32 // counts those that run
	// own is for what the elector does on goroutines of its own, which goes on though a hook ends the
	// goroutine that it runs on. Elsewhere that is the caller's.
	own *hooks
}

func newHooks(h Hooks) *hooks {
	running := new(atomic.Int32)
	return &hooks{Hooks: h, running: running, own: &hooks{Hooks: h, running: running}}
}

func (h *hooks) elected(t *Term) {
	if h.Elected != nil {
		h.run(func() { h.Elected(t) })
	}
}

func (h *hooks) ended(t *Term, cause error) {
	if h.Ended != nil {
		h.run(func() { h.Ended(t, cause) })
	}
}

func (h *hooks) asked(t *Term, r Request) {
	if h.Asked != nil {
		h.run(func() { h.Asked(t, r) })
	}
}

func (h *hooks) session(id string, state backend.State) {
	if h.Session != nil {
		h.run(func() { h.Session(id, state) })
	}
}

func (h *hooks) retry(r RetryEvent) {
	if h.Retry != nil {
		h.run(func() { h.Retry(r) })
	}
}

func (h *hooks) occupied(t *Term, err error) {
	if h.Occupied != nil {
		h.run(func() { h.Occupied(t, err) })
	}
}

func (h *hooks) aside(why error) {
	if h.Aside != nil {
		h.run(func() { h.Aside(why) })
	}
}

func (h *hooks) campaign(c CampaignEvent) {
	if h.Campaign != nil {
		h.run(func() { h.Campaign(c) })
	}
}

func (h *hooks) commit(c CommitEvent) {
	if h.Commit != nil {
		h.run(func() { h.Commit(c) })
	}
}

// begin reports that a stage begins; the function it returns, that it completed. t is the term that it
// is about, or nil.
func (h *hooks) begin(s Stage, t *Term) (completed func(error)) {
	if h.Stage == nil {
		return func(error) {}
	}
	h.run(func() { h.Stage(StageEvent{Stage: s, Term: t}) })
	return func(err error) {
		h.run(func() { h.Stage(StageEvent{Stage: s, Completed: true, Err: err, Term: t}) })
	}
}

// stop has something be removed as the stage Stop of the recipe. It is done though the hook that is
// told of it panics, which goes on to the caller.
func (h *hooks) stop(t *Term, remove func() error) (err error) {
	completed := func(error) {}
	defer func() { completed(err) }()
	defer func() { err = remove() }()
	completed = h.begin(StageStop, t)
	return nil
}

// run calls a hook, as every method here does.
func (h *hooks) run(hook func()) {
	if h.own != nil {
		runHook(h, hook)
		return
	}
	returned(func() { runHook(h, hook) })
}

// errEnded is the outcome of a call that has not returned.
var errEnded = errors.New("a layer of the backend, or the strategy, has ended its goroutine (runtime.Goexit, or FailNow of a test)")

// returned calls what may be the user's on a goroutine of its own, waits, and tells whether it has returned:
// it may end its goroutine (runtime.Goexit, as by FailNow of a test).
func returned(do func()) (ok bool) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		do()
		ok = true
	}()
	<-ended
	return ok
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
