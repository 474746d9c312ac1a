package compare

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend"
)

// activity tells whether candidates are at rest.
type activity struct {
	busy  atomic.Int64 // pending calls and notices; a wait that is blocked is not
	moves atomic.Int64 // beginnings and ends of them, and of waits
}

func (a *activity) begin() { a.busy.Add(1); a.moves.Add(1) }
func (a *activity) end()   { a.busy.Add(-1); a.moves.Add(1) }

// A tap passes on the calls of sessions, counts what is pending, and delays each message: requests, answers,
// and notices of changes take half a round trip each. It does not simulate that nothing overtakes anything on
// the way: a candidate's calls come one after the other wherever their order matters.
type tap struct {
	activity *activity
	half     time.Duration // of a round trip
}

func (t tap) call(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
	do := func() error { return next(ctx) }
	switch {
	case c.Kind == backend.CallClose:
		return do()
	case c.Waits():
		return t.await(do)
	}
	return t.travel(do)
}

// travel makes a call whose answer is awaited.
func (t tap) travel(do func() error) error {
	t.activity.begin()
	defer t.activity.end()
	time.Sleep(t.half)
	err := do()
	time.Sleep(t.half)
	return err
}

// await makes a call that blocks until there is a notice. It subscribes first.
func (t tap) await(do func() error) error {
	t.activity.begin()
	time.Sleep(t.half)
	t.activity.end()
	err := do()
	t.activity.begin()
	defer t.activity.end()
	if err == nil {
		time.Sleep(t.half)
	}
	return err
}
