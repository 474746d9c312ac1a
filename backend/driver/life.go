// Package driver is the kit for implementing a backend: what the sessions of all services over a network
// have in common.
//
// [Open] is a backend's Open, around the part that is the service's own. A backend.Driver embeds a [Life],
// which is its state, its goroutines and its end; [Life.Beat] sends its heartbeats, or [Life.BeatBy] calls
// what does, and [Life.TakeTurn] runs commits one after the other if nothing could tell them apart. [Window]
// is the arithmetic of trust. A [Reaper] removes in the background what could not be removed at once. A
// [Meaning] says what became of a request that failed, [Pause] and [Bout] ride out failures that may pass,
// and a [Cache] holds what need not be asked again.
package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/asynclog"
)

// The reasons for which any session may be lost.
var (
	ErrClosed = errors.New("closed")
	ErrWindow = errors.New("trust window has passed")
)

// EndGrace is how long the end of a session may wait for the service to confirm it.
const EndGrace = 3 * time.Second

// LifeOptions say how a session begins and ends.
type LifeOptions struct {
	// Name is the backend's, for what Logger logs about the session's life and its background work. A nil
	// Logger logs nothing.
	Name   string
	Logger *slog.Logger
	// State is the initial state; zero means Live.
	State backend.State
	// Lost, if not nil, is called at the moment the session is lost. It must not block: Mu is held.
	Lost func()
	// End ends the session at the service, on a goroutine of its own, and calls Confirm if the service has
	// confirmed it. It is called after every loss. Its ctx ends after EndGrace, or when nobody waits in
	// Close any more.
	End func(ctx context.Context, cause error)
	// Ended, if not nil, is called when End and all goroutines of the session have returned.
	Ended func()
	// Unconfirmed is the error of Close without a Confirm.
	Unconfirmed error
	// Remove removes an incarnation of an entry. It returns nil once the incarnation is known to be gone,
	// removed by anybody. It may be called several times, and by several goroutines.
	Remove func(ctx context.Context, e backend.Entry) error
}

// A Life is the state of one session, its goroutines and its end. Embed it in a driver, and call Init
// before anything else. It implements backend.Life, Discard and Close.
type Life struct {
	// Ctx ends when the session is lost. Its cause is LostError.
	Ctx    context.Context
	Reaper *Reaper

	o      LifeOptions
	cancel context.CancelCauseFunc
	abort  context.Context // ends when nobody waits for the end any more
	stop   context.CancelFunc
	done   chan struct{} // closed when all its goroutines have ended
	calls  sync.WaitGroup

	turns turns

	// Mu guards the fields below, and what a driver changes together with its state.
	Mu        sync.Mutex
	state     backend.State
	changed   Signal // of Broadcast
	missed    error  // why it is out of touch
	beats     beats
	confirmed bool
	failed    error // why the service has not confirmed the end, if that is known

	// Set once, by Grant.
	id     string
	ttl    time.Duration
	window *Window
}

// Init begins a life, once it is certain that End can be called: usually when the service has granted the
// session. End, Unconfirmed and Remove must be set.
func (l *Life) Init(o LifeOptions) {
	l.o, l.state = o, cmp.Or(o.State, backend.Live)
	l.o.Logger = asynclog.New(o.Logger)
	l.done = make(chan struct{})
	l.Ctx, l.cancel = context.WithCancelCause(context.Background())
	l.abort, l.stop = context.WithCancel(context.Background())
	l.Reaper = NewReaper(l.Ctx, l.Run, func(err error) { l.log(slog.LevelWarn, "an entry could not be removed; trying again", err) })
}

func (l *Life) log(level slog.Level, what string, err error) {
	l.o.Logger.Log(context.Background(), level, l.o.Name+": "+what, "session", l.id, "error", err)
}

// Grant handles the reply to the request to open the session, which was sent at sent. The trust window
// begins; when it has passed, the session is lost. Grant returns false if the session is lost already.
func (l *Life) Grant(id string, sent time.Time, ttl, margin time.Duration) bool {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.state == backend.Lost {
		return false
	}
	l.id, l.ttl = id, ttl
	l.window = NewWindow(sent, ttl, margin, func() { l.Lose(ErrWindow) })
	return true
}

// ID implements backend.Life.
func (l *Life) ID() string { return l.id }

// TTL implements backend.Life.
func (l *Life) TTL() time.Duration { return l.ttl }

// Deadline implements backend.Life.
func (l *Life) Deadline() time.Time { return l.window.Deadline() }

// Extend moves the trust window: see Window.Extend.
func (l *Life) Extend(sent time.Time) { l.window.Extend(sent) }

// State implements backend.Life.
func (l *Life) State() backend.State {
	state, _ := l.Look()
	return state
}

// Look returns the state, and a channel that is closed at the next change of state or Broadcast.
func (l *Life) Look() (backend.State, <-chan struct{}) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.Peek()
}

// Peek is Look for a caller that holds Mu.
func (l *Life) Peek() (backend.State, <-chan struct{}) { return l.state, l.changed.Next() }

// AwaitState implements backend.Life.
func (l *Life) AwaitState(ctx context.Context, prev backend.State) (backend.State, error) {
	for {
		state, changed := l.Look()
		if state != prev || state == backend.Lost {
			return state, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return state, fmt.Errorf("await state: %w", ContextError(ctx))
		}
	}
}

// Wait blocks until it is woken, ctx ends or the session is lost. The error is that of Over.
func (l *Life) Wait(ctx context.Context, woken <-chan struct{}) error {
	select {
	case <-woken:
	case <-ctx.Done():
	case <-l.Ctx.Done():
	}
	return l.Over(ctx)
}

// AwaitLive blocks while the session is suspended. The errors are those of Over.
func (l *Life) AwaitLive(ctx context.Context) error {
	for {
		state, changed := l.Look()
		if state == backend.Live {
			return l.Over(ctx)
		}
		if err := l.Wait(ctx, changed); err != nil {
			return err
		}
	}
}

// Set changes between Live and Suspended, and reports whether that was a change. The caller holds Mu.
func (l *Life) Set(state backend.State) bool {
	if l.state == backend.Lost || l.state == state {
		return false
	}
	l.state, l.missed = state, nil
	l.Broadcast()
	return true
}

// Suspend notes that the session is out of touch, and why.
func (l *Life) Suspend(why error) {
	l.Mu.Lock()
	changed := l.Set(backend.Suspended)
	if l.state == backend.Suspended {
		l.missed = why
	}
	l.Mu.Unlock()
	if changed {
		l.log(slog.LevelInfo, "session suspended", why)
	}
}

// Resume notes that the session is in touch, and reports whether it was not.
func (l *Life) Resume() bool {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.Set(backend.Live)
}

// Broadcast wakes all that wait for a change. The caller holds Mu.
func (l *Life) Broadcast() { l.changed.Fire() }

// Lose ends the session for good, and returns false if it was lost already. It does not block.
func (l *Life) Lose(cause error) bool {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.state == backend.Lost {
		return false
	}
	l.state = backend.Lost
	if l.window != nil {
		l.window.Stop()
	}
	if l.beats.timer != nil {
		l.beats.timer.Stop()
	}
	if l.o.Lost != nil {
		l.o.Lost()
	}
	l.Broadcast()
	l.cancel(fmt.Errorf("%w: %w", backend.ErrSessionLost, cause))
	go l.end(cause) // Close waits for it by done
	return true
}

// LostBy is Lose for a call that has found the session to be over. It returns LostError.
func (l *Life) LostBy(cause error) error {
	l.Lose(cause)
	return l.LostError()
}

// end is the last goroutine of the session.
func (l *Life) end(cause error) {
	l.Mu.Lock()
	granted, missed := l.window != nil, l.missed
	l.Mu.Unlock()
	switch {
	case cause == ErrClosed, !granted:
		l.log(slog.LevelDebug, "session over", cause)
	case missed != nil:
		cause := fmt.Errorf("%w; it was out of touch: %w", cause, missed)
		l.log(slog.LevelWarn, "session lost", cause)
	default:
		l.log(slog.LevelWarn, "session lost", cause)
	}
	ctx, cancel := context.WithTimeout(l.abort, EndGrace)
	defer cancel()
	l.o.End(ctx, cause)
	l.calls.Wait()
	if l.o.Ended != nil {
		l.o.Ended()
	}
	l.stop()
	close(l.done)
}

// LostError is the error of every call once the session is lost: backend.ErrSessionLost, and why.
func (l *Life) LostError() error { return context.Cause(l.Ctx) }

// Over returns the error of a call whose session is lost or whose ctx has ended, or nil.
func (l *Life) Over(ctx context.Context) error {
	switch {
	case l.Ctx.Err() != nil:
		return l.LostError()
	case ctx.Err() != nil:
		return ContextError(ctx)
	}
	return nil
}

// Bind returns a context that ends when ctx ends or the session is lost.
func (l *Life) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	bound, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(l.Ctx, cancel)
	return bound, func() { stop(); cancel() }
}

// Begin counts a goroutine of the session, which Close waits for. It returns false once the session is
// over. The goroutine must call Done.
func (l *Life) Begin() bool {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.state == backend.Lost {
		return false
	}
	l.calls.Add(1)
	return true
}

// Done ends a goroutine that Begin has counted.
func (l *Life) Done() { l.calls.Done() }

// Run starts a goroutine of the session. It returns false once the session is over.
func (l *Life) Run(do func()) bool {
	if !l.Begin() {
		return false
	}
	go func() {
		defer l.Done()
		do()
	}()
	return true
}

// Confirm notes that nothing of the session is left at the service.
func (l *Life) Confirm() {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.confirmed = true
	l.Broadcast()
}

// Unconfirmed notes why there is no Confirm, for the error of Close.
func (l *Life) Unconfirmed(why error) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.failed = why
}

// Confirmed reports whether Confirm was called.
func (l *Life) Confirmed() bool {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.confirmed
}

// Close implements backend.Driver.
func (l *Life) Close(ctx context.Context) error {
	l.Lose(ErrClosed)
	select {
	case <-l.done:
	case <-ctx.Done():
		l.stop()
		// What is left ends by itself: none of it waits for the network now.
		return fmt.Errorf("session %s: %w: %w", l.id, l.o.Unconfirmed, ContextError(ctx))
	}
	asynclog.Flush(ctx, l.o.Logger, asynclog.LastWords)
	l.Mu.Lock()
	defer l.Mu.Unlock()
	switch {
	case l.confirmed:
		return nil
	case l.failed != nil: // as text only: the call to Close itself was not refused
		return fmt.Errorf("session %s: %w: %v", l.id, l.o.Unconfirmed, l.failed)
	}
	return fmt.Errorf("session %s: %w", l.id, l.o.Unconfirmed)
}

// Discard implements backend.Driver. If Remove fails, the Reaper tries again.
func (l *Life) Discard(ctx context.Context, e backend.Entry) error {
	switch {
	case l.Ctx.Err() != nil:
		return l.LostError()
	case !e.Exists():
		return nil
	}
	err := l.o.Remove(ctx, e)
	switch {
	case err == nil:
	case l.Ctx.Err() != nil: // nothing is left to do, even if ctx has ended, too
		err = l.LostError()
	default:
		l.Reap(e)
		err = fmt.Errorf("not confirmed yet: %w", err)
	}
	return err
}

// Reap removes an entry in the background.
func (l *Life) Reap(e backend.Entry) { l.Reaper.ReapEntry(e, l.o.Remove) }

// Abandon returns the error of a commit that is given up for the reason why, and that may have been done or
// may still be. In the background undo makes sure that nothing of the commit arrives any more, and removes
// the ephemeral entries that it created; it is called until it returns nil. Commits that begin later on the
// same keys wait for that.
func (l *Life) Abandon(ops []backend.Op, why error, undo func(context.Context) error) error {
	if !errors.Is(why, backend.ErrSessionLost) { // else all that is left goes with the session
		settled := l.Doubt(ops)
		l.Reaper.Reap(func(ctx context.Context) error {
			err := undo(ctx)
			if err == nil {
				settled()
			}
			return err
		})
	}
	return Indeterminate(why)
}
