package servicetest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Faults are the faults that the requests of a process meet on their way. R is the part of a request that a
// fault matches.
type Faults[R any] struct {
	links *Links
	lost  error // the error that the sender of a request gets when a link breaks

	mu    sync.Mutex
	armed []*fault[R] // in this order

	throttled, denied atomic.Bool
	turned            atomic.Int64 // requests turned away while throttled
}

// fault is armed until the first request that matches.
type fault[R any] struct {
	match  func(R) bool
	due    func() bool   // whether the fault still applies
	before bool          // the request is lost, not its reply
	late   time.Duration // nothing is lost: the request arrives this much later
	bar    func()        // refuses new links
	met    atomic.Bool
}

// NewFaults returns the faults of a process with these links.
func NewFaults[R any](links *Links, lost error) *Faults[R] {
	return &Faults[R]{links: links, lost: lost}
}

// LoseReply loses the reply to the next request that matches, and breaks the links.
func (f *Faults[R]) LoseReply(match func(R) bool) { f.arm(&fault[R]{match: match}) }

// CutReply is LoseReply, and the process cannot reconnect until Resume.
func (f *Faults[R]) CutReply(match func(R) bool) {
	due, bar := f.links.UntilResume()
	f.arm(&fault[R]{match: match, due: due, bar: bar})
}

// LoseRequest loses the next request that matches, and breaks the links.
func (f *Faults[R]) LoseRequest(match func(R) bool) { f.arm(&fault[R]{match: match, before: true}) }

// DelayRequest makes the next request that matches arrive d later, even if its caller has given up. sent
// reports whether there was one.
func (f *Faults[R]) DelayRequest(match func(R) bool, d time.Duration) (sent func() bool) {
	x := &fault[R]{match: match, late: d}
	f.arm(x)
	return x.met.Load
}

// Throttle turns away all requests of the process until release is called, which returns their number.
func (f *Faults[R]) Throttle() (release func() int) {
	f.turned.Store(0)
	f.throttled.Store(true)
	return func() int {
		f.throttled.Store(false)
		return int(f.turned.Load())
	}
}

// Throttled reports whether to turn a request away, and counts it if so.
func (f *Faults[R]) Throttled() bool {
	throttled := f.throttled.Load()
	if throttled {
		f.turned.Add(1)
	}
	return throttled
}

// Deny refuses the process's requests about keys until release is called, as servers refuse a user without
// rights.
func (f *Faults[R]) Deny() (release func()) {
	f.denied.Store(true)
	return func() { f.denied.Store(false) }
}

// Denied reports whether to refuse a request about keys.
func (f *Faults[R]) Denied() bool { return f.denied.Load() }

func (f *Faults[R]) arm(x *fault[R]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = append(f.armed, x)
}

// meets disarms and returns the fault that a request meets.
func (f *Faults[R]) meets(r R) *fault[R] {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, x := range f.armed {
		if x.match(r) && (x.due == nil || x.due()) {
			f.armed = append(f.armed[:i:i], f.armed[i+1:]...)
			x.met.Store(true)
			return x
		}
	}
	return nil
}

// Do sends a request, which may meet a fault. If send could not send the request, a fault of the reply
// stays for the next one. discard disposes of an answer that does not reach the sender.
func Do[R, A any](ctx context.Context, f *Faults[R], r R, send func(context.Context) (A, error), discard func(A)) (A, error) {
	var none A
	x := f.meets(r)
	switch {
	case x == nil:
		return send(ctx)
	case x.late > 0:
		return later(ctx, x.late, send, discard)
	case !x.before:
		answer, err := send(ctx)
		if err != nil {
			f.arm(x)
			return none, err
		}
		discard(answer)
	}
	if x.bar != nil {
		x.bar()
	}
	f.links.Cut()
	return none, f.lost
}

// later sends a request late, and discards the answer if ctx has ended.
func later[A any](ctx context.Context, d time.Duration, send func(context.Context) (A, error), discard func(A)) (A, error) {
	type result struct {
		answer A
		err    error
	}
	done := make(chan result)
	go func() {
		time.Sleep(d)
		answer, err := send(context.WithoutCancel(ctx))
		select {
		case done <- result{answer, err}:
		case <-ctx.Done():
			if err == nil {
				discard(answer)
			}
		}
	}()
	select {
	case r := <-done:
		return r.answer, r.err
	case <-ctx.Done():
		var none A
		return none, ctx.Err()
	}
}
