package electionrules

import (
	"context"

	"github.com/elector-go/elector/conformance/internal/harness"
)

// A call is a pending call, on a goroutine of its own.
type call struct {
	a      *arena
	what   string
	cancel context.CancelFunc // of its ctx
	done   chan struct{}
	err    error
}

// begin starts a call, with a ctx that ends after Patience.
func (a *arena) begin(what string, do func(ctx context.Context) error) *call {
	return a.beginIn(a.within(), what, do)
}

// beginIn starts a call whose ctx ends with ctx.
func (a *arena) beginIn(ctx context.Context, what string, do func(ctx context.Context) error) *call {
	ctx, cancel := context.WithCancel(ctx)
	c := &call{a: a, what: what, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.err = do(ctx)
		a.hist.note("%s: %s", what, harness.Text(c.err))
	}()
	return c
}

// result waits for the call to return.
func (c *call) result() error {
	arrives(c.a, c.what+" returns", c.done)
	return c.err
}

// must waits for the call to return, and fails the rule on an error.
func (c *call) must() { c.a.Must(c.what, c.result()) }

// returned reports whether the call has returned.
func (c *call) returned() bool { return harness.IsClosed(c.done) }

// pending checks that the call has not returned.
func (c *call) pending(why string) {
	if c.returned() {
		c.a.Failf("%s returned (%s), but %s", c.what, harness.Text(c.err), why)
	}
}

// atOnce makes a call several times at once. None may fail.
func (a *arena) atOnce(what string, do func(ctx context.Context) error) {
	var all [4]*call
	for i := range all {
		all[i] = a.begin(what, do)
	}
	for _, c := range all {
		c.must()
	}
}
