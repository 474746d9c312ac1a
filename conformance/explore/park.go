package explore

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
)

// A call is one operation, or a wake-up, that waits until the explorer releases it.
type call struct {
	by      *candidate
	kind    byte
	text    string           // for people
	key     string           // of a get
	session *backend.Session // nil if it needs none
	is      string           // kind and place
	says    string           // what a commit writes that others look for: its candidate may have become fit since
	applied bool             // its reply is lost, and it has changed something
	let     chan struct{}
	came    int // the step in which it came
}

func (c *candidate) call(kind byte, text string) *call {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	return &call{by: c, kind: kind, text: text, is: string([]byte{kind}) + place(), came: len(c.world.steps)}
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
	callRetry       = 'y' // a campaign has failed and starts another attempt
)

// opCalls are the kinds of commits, by their most significant op.
var opCalls = map[backend.OpKind]byte{
	backend.OpCreateEphemeral: callCreate, backend.OpEnqueue: callEnqueue, backend.OpCompareAndSet: callPut,
	backend.OpUpdate: callSet, backend.OpDelete: callDelete,
}

// park blocks until the explorer releases c, or ctx ends: then anything that c would do fails without
// effect.
func (w *world) park(ctx context.Context, c *call) {
	c.let = make(chan struct{})
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
	}
}

// places holds the names of stacks that were seen, by their program counters.
var places sync.Map

// place returns a short name of the functions that led to its caller. Two goroutines of a candidate may
// do the same, in any order: only where the call comes from tells them apart. The recorder does not
// count, as not all schedules are recorded.
func place() string {
	var stack [32]uintptr
	depth := runtime.Callers(2, stack[:])
	if name, ok := places.Load(stack); ok {
		return name.(string)
	}
	var names []string
	for frames, more := runtime.CallersFrames(stack[:depth]), true; more; {
		var frame runtime.Frame
		if frame, more = frames.Next(); !strings.Contains(frame.Function, "/conformance/history.") {
			names = append(names, frame.Function)
		}
	}
	// The recorder's wrapper of a function calls it, so the function would appear twice.
	name := fmt.Sprintf("%08x", crc32.ChecksumIEEE(fmt.Append(nil, slices.Compact(names))))
	places.Store(stack, name)
	return name
}

// unpark moves c from the parked calls to those in flight, with w.mu locked.
func (w *world) unpark(c *call) {
	w.parked = without(w.parked, c)
	c.by.flight = append(c.by.flight, c)
}

// land removes c from the calls in flight, with world.mu locked.
func (c *call) land() { c.by.flight = without(c.by.flight, c) }

func without(calls []*call, c *call) []*call {
	return slices.DeleteFunc(calls, func(k *call) bool { return k == c })
}

// free releases c.
func (w *world) free(c *call) {
	w.mu.Lock()
	w.unpark(c)
	w.mu.Unlock()
	close(c.let)
}

// A noted result is what a call returned to its candidate.
type noted struct {
	text string
	revs []uint64
	list *backend.Listing // nil if the call is no listing
}

// note keeps the result of a call: what a candidate does next follows from the results it has had.
func (w *world) note(c *call, err error, entries ...backend.Entry) { w.keep(c, nil, err, entries) }

func (w *world) keep(c *call, list *backend.Listing, err error, entries []backend.Entry) {
	n := noted{text: class(err), list: list}
	// Which of a session's calls hears first of the session's end is open, and the rest may never be
	// made. It makes no difference.
	over := err != nil && c.session != nil && c.session.State() == backend.Lost
	for _, e := range entries {
		n.text += fmt.Sprintf(",%d%s", e.Version, says(e))
		n.revs = append(n.revs, mentions(e)...)
		if e.Session != "" { // entries without a session differ by version
			n.revs = append(n.revs, e.Rev)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c.land()
	if c.by.results == nil {
		c.by.results = make(map[string][]noted)
	}
	// If one step starts the call and makes its caller give up, the order is open, too.
	over = over || errors.Is(err, context.Canceled) && c.came == len(w.steps)
	if !over {
		c.by.results[c.is] = append(c.by.results[c.is], n)
	}
	if w.tell && !w.over {
		var got []string
		for _, e := range entries {
			got = append(got, w.name(e))
		}
		w.tracef("      %s: %s: %s %s", c.by, c.text, n.word(), strings.Join(got, ", "))
	}
}

// noteList is note for a listing. It notes the entries, and not the revision: that says in which order
// they came and went, which matters only for whether the listing is the present one.
func (w *world) noteList(c *call, err error, l backend.Listing) {
	if err != nil {
		w.note(c, err)
		return
	}
	var entries []backend.Entry
	for _, key := range l.Keys {
		e := w.svc.Entry(key)
		if !e.Exists() {
			e = w.was(key)
		}
		entries = append(entries, backend.Entry{Key: key, Rev: e.Rev, Session: e.Session})
	}
	w.keep(c, &l, nil, entries)
}

// was returns an entry that a server which is behind still shows.
func (w *world) was(key string) (e backend.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := slices.IndexFunc(w.past, func(e backend.Entry) bool { return e.Key == key }); at >= 0 {
		e = w.past[at]
	}
	return e
}

// says returns what other candidates look for in an entry.
func says(e backend.Entry) (text string) {
	if _, asked := layout.Asked(e.Value); asked {
		text += "asked"
	}
	if _, named := layout.Named(e.Value); named {
		text += "heir"
	}
	if c := layout.DecodeCandidate(e.Value); c.Rank != nil || c.Told != 0 {
		text += fmt.Sprintf("rank %v told %d", c.Rank, c.Told)
	}
	if r, err := layout.DecodeRecord(e.Value); err == nil && r.Designated != nil {
		text += "designated " + r.Designated.ID
	}
	return text
}

// mentions returns the revisions in an entry that other candidates compare.
func mentions(e backend.Entry) (revs []uint64) {
	if h, named := layout.Named(e.Value); named {
		revs = append(revs, h.Rev)
	}
	if c := layout.DecodeCandidate(e.Value); c.Since != 0 {
		revs = append(revs, c.Since)
	}
	if r, err := layout.DecodeRecord(e.Value); err == nil && r.Heir != nil {
		revs = append(revs, r.Heir.Rev)
	}
	return revs
}

func (n noted) word() string {
	word, _, _ := strings.Cut(n.text, ",")
	return word
}

// classes are the errors that callers distinguish.
var classes = []error{
	backend.ErrIndeterminate, backend.ErrSessionLost, context.Canceled, context.DeadlineExceeded,
	backend.ErrNoEntry, backend.ErrExists, backend.ErrCondition, backend.ErrConflict, backend.ErrNoParent, backend.ErrUnavailable,
	elector.ErrDeposed,
}

// class returns an error in a word or two, the same for all errors that callers treat alike.
func class(err error) string {
	if err == nil {
		return "ok"
	}
	for _, c := range classes {
		if errors.Is(err, c) {
			return c.Error()
		}
	}
	return err.Error()
}

// name describes an entry for people: its owner, and its incarnation.
func (w *world) name(e backend.Entry) string {
	switch {
	case !e.Exists():
		return "nothing"
	case e.Session != "":
		return fmt.Sprintf("%s's entry %d v%d", w.owners[e.Session].by, e.Rev, e.Version)
	}
	return fmt.Sprintf("%s v%d", e.Key, e.Version)
}
