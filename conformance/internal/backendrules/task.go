package backendrules

import (
	"context"

	"github.com/elector-go/elector/conformance/internal/harness"
)

// A task is a call on a goroutine of its own.
type task[T any] struct {
	r    *run
	what string
	done chan struct{}
	end  context.CancelCauseFunc
	v    T
	err  error
}

// start runs call on a goroutine of its own; what names it.
func start[T any](r *run, what string, call func(ctx context.Context) (T, error)) *task[T] {
	ctx, cancel := context.WithCancelCause(r.ctx)
	t := &task[T]{r: r, what: what, done: make(chan struct{}), end: cancel}
	r.tasks.Go(func() {
		defer close(t.done)
		t.v, t.err = call(ctx)
	})
	return t
}

// do starts a call that returns only an error.
func (r *run) do(what string, call func(context.Context) error) *task[struct{}] {
	return start(r, what, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
}

// stop ends the call's context.
func (t *task[T]) stop() { t.end(nil) }

// result waits for the call to return.
func (t *task[T]) result() (T, error) {
	select {
	case <-t.done:
	case <-t.r.ctx.Done():
		t.r.Failf("%s does not return", t.what)
	}
	return t.v, t.err
}

// value waits for the call to return without an error.
func (t *task[T]) value() T {
	v, err := t.result()
	t.r.Must(t.what, err)
	return v
}

// fails waits for the call to return with all of these errors.
func (t *task[T]) fails(what string, want ...error) {
	_, err := t.result()
	t.r.Refused(what, err, want...)
}

// blocked checks that the call has not returned.
func (t *task[T]) blocked(why string) {
	t.r.Settle()
	if harness.IsClosed(t.done) {
		t.r.Failf("%s returned (%v, %v), but %s", t.what, t.v, t.err, why)
	}
}
