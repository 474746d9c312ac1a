package explore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/elector-go/elector/backend"
)

// A call is one operation, or a wake-up, that waits for the explorer to let it go.
type call struct {
	by   *candidate
	kind byte
	text string // what it is, for people
	// reads and writes are the keys that it is about. See footprint.
	reads, writes []string
	session       backend.Session // nil: it needs none
	bounded       bool            // its ctx has a deadline, which tells apart what else is alike
	let           chan struct{}
}

// The kinds of calls, by their letters in schedules.
const (
	callOpen        = 'o'
	callGet         = 'g'
	callList        = 'l'
	callPredecessor = 'b'
	callAwait       = 'w' // a change is about to be noticed
	callAwaitList   = 'v'
	callEnqueue     = 'n'
	callCreate      = 'c'
	callPut         = 'p'
	callSet         = 's'
	callDelete      = 'd'
	callGuards      = 'q' // a commit without ops
	callDrop        = 'r'
	callClose       = 'x'
	callWin         = 'k' // the strategy says that it has won
	callRetry       = 'y' // a campaign has failed, and another attempt begins
)

// park blocks until the explorer lets c go, or ctx ends: then whatever c would do
// fails without effect.
func (w *world) park(ctx context.Context, c *call) {
	c.let = make(chan struct{})
	_, c.bounded = ctx.Deadline()
	w.mu.Lock()
	if w.over {
		w.mu.Unlock()
		return
	}
	w.parked = append(w.parked, c)
	w.mu.Unlock()
	select {
	case <-c.let:
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		w.unpark(c)
		c.by.flight = append(c.by.flight, c.kind)
	}
}

// unpark takes c from the list, with w.mu locked.
func (w *world) unpark(c *call) {
	for i, have := range w.parked {
		if have == c {
			w.parked = append(w.parked[:i:i], w.parked[i+1:]...)
			return
		}
	}
}

// free lets c go.
func (w *world) free(c *call) {
	w.mu.Lock()
	w.unpark(c)
	c.by.flight = append(c.by.flight, c.kind)
	w.mu.Unlock()
	close(c.let)
}

// A noted result is what a call returned to its candidate.
type noted struct {
	text string
	revs []uint64
}

// note keeps the result of a call: what a candidate does next follows from the
// results it has had.
func (w *world) note(c *call, err error, entries ...backend.Entry) {
	n := noted{text: class(err)}
	// Of what ends with the session it is open which hears of it first, and the rest
	// may not be asked any more. It makes no difference.
	over := err != nil && c.session != nil && c.session.State() == backend.Lost
	for _, e := range entries {
		n.text += fmt.Sprintf(",%d", e.Version)
		if e.Session != "" { // others are told apart by their versions
			n.revs = append(n.revs, e.Rev)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, kind := range c.by.flight {
		if kind == c.kind {
			c.by.flight = append(c.by.flight[:i:i], c.by.flight[i+1:]...)
			break
		}
	}
	if c.by.results == nil {
		c.by.results = make(map[byte][]noted)
	}
	if !over {
		c.by.results[c.kind] = append(c.by.results[c.kind], n)
	}
	if w.tell && !w.over {
		var got []string
		for _, e := range entries {
			got = append(got, w.name(e))
		}
		w.tracef("      %s: %s: %s %s", c.by, c.text, n.word(), strings.Join(got, ", "))
	}
}

func (n noted) word() string {
	word, _, _ := strings.Cut(n.text, ",")
	return word
}

var classes = []struct {
	err  error
	word string
}{
	{backend.ErrIndeterminate, "outcome unknown"}, {backend.ErrSessionLost, "session lost"},
	{context.Canceled, "cancelled"}, {context.DeadlineExceeded, "too late"},
	{backend.ErrNoEntry, "no entry"}, {backend.ErrExists, "exists"}, {backend.ErrGuard, "guard does not hold"},
	{backend.ErrConflict, "conflict"}, {backend.ErrNoParent, "no parent"}, {backend.ErrUnavailable, "unavailable"},
}

// class is an error in a word or two, the same for all that are the same to a caller.
func class(err error) string {
	if err == nil {
		return "ok"
	}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return c.word
		}
	}
	return err.Error()
}

// name is an entry for people: whose it is, and which incarnation.
func (w *world) name(e backend.Entry) string {
	switch {
	case !e.Exists():
		return "nothing"
	case e.Session != "":
		return fmt.Sprintf("%s's entry %d v%d", w.owners[e.Session].by, e.Rev, e.Version)
	}
	return fmt.Sprintf("%s v%d", e.Key, e.Version)
}
