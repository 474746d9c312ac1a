// Package meter counts what a strategy asks of its backend, at the boundary of the contract: the same on
// every service, and in any test.
package meter

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
)

// New returns a Backend that does what b does, and counts the calls. For counts per candidate, give each
// candidate a Backend of its own. For counts per leader change, take Backend.Counts before and after, and
// use Counts.Sub.
//
// trace, if not nil, is called after each call of a session, with the call's outcome, on the caller's
// goroutine and without locks: the caller waits for it.
func New(b backend.Backend, trace func(Call)) *Backend {
	return &Backend{Backend: b, trace: trace}
}

// A Backend is made by New. It is a backend.Backend.
type Backend struct {
	backend.Backend
	trace func(Call)

	mu       sync.Mutex // of its sessions, too
	sessions []*session // the open ones, in the order in which they were opened
	closed   Counts     // of the closed ones
}

// Counts are numbers of calls, counted as they begin, and of their outcomes. They do not tell what a call
// costs on the wire; the service's own figures do.
type Counts struct {
	// Gets are calls of Get and Survey, Lists those of List and Children, Drops those of Discard.
	Gets, Lists, Predecessors, Commits, Drops int

	// Waits are calls of Await and AwaitList.
	Waits int
	// Watches are the watches that those needed: one for each key that was not being watched yet, counted
	// as on a service where a change uses up the watch that reports it, and a watch is otherwise kept for
	// the next wait.
	Watches int
	// WakeUps are the waits that returned with news. A wait for an Unknown entry is none: it is a read.
	WakeUps int

	// Sent and Received are the bytes of keys and values, in arguments and results.
	Sent, Received int

	// Refused are the commits that the service refused: ErrCondition, ErrExists, ErrConflict, ErrNoEntry or
	// ErrNoParent. They cost it as much as others.
	Refused int
	// Errors are the other errors, except those of calls whose context has ended, and a read's ErrNoEntry,
	// which is an answer.
	Errors int
}

// Add returns the sum of c and o.
func (c Counts) Add(o Counts) Counts { return c.plus(o, 1) }

// Sub returns what was counted since o.
func (c Counts) Sub(o Counts) Counts { return c.plus(o, -1) }

func (c Counts) plus(o Counts, sign int) Counts {
	return Counts{
		Gets: c.Gets + sign*o.Gets, Lists: c.Lists + sign*o.Lists, Predecessors: c.Predecessors + sign*o.Predecessors,
		Commits: c.Commits + sign*o.Commits, Drops: c.Drops + sign*o.Drops,
		Waits: c.Waits + sign*o.Waits, Watches: c.Watches + sign*o.Watches, WakeUps: c.WakeUps + sign*o.WakeUps,
		Sent: c.Sent + sign*o.Sent, Received: c.Received + sign*o.Received,
		Refused: c.Refused + sign*o.Refused, Errors: c.Errors + sign*o.Errors,
	}
}

// Operations returns the number of all calls.
func (c Counts) Operations() int {
	return c.Gets + c.Lists + c.Predecessors + c.Commits + c.Drops + c.Waits
}

// SessionCounts are the counts of one session.
type SessionCounts struct {
	ID string
	Counts
}

// A Call is a call that has returned.
type Call struct {
	Session string // its ID
	Kind    backend.CallKind
	// Key is the key that it was about, the first if there were several; "" if none.
	Key string
	// Ops are the ops of a commit. They must not be changed.
	Ops []backend.Op
	// Began is when the call began, End when it returned.
	Began, End time.Time
	// WokenUp says that a wait returned with news.
	WokenUp bool
	Err     error
}

// Refused reports whether the service refused a commit.
func (c Call) Refused() bool {
	return c.Kind == backend.CallCommit && slices.ContainsFunc(refusals, func(r error) bool { return errors.Is(c.Err, r) })
}

var refusals = []error{backend.ErrCondition, backend.ErrExists, backend.ErrConflict, backend.ErrNoEntry, backend.ErrNoParent}

// Counts returns the sum over all sessions so far, closed ones included.
func (m *Backend) Counts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := m.closed
	for _, s := range m.sessions {
		sum = sum.Add(s.counts)
	}
	return sum
}

// Sessions returns the counts of each open session, in the order in which they were opened. Call it before
// Close: of closed sessions only the sum is kept.
func (m *Backend) Sessions() []SessionCounts {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]SessionCounts, len(m.sessions))
	for i, s := range m.sessions {
		out[i] = SessionCounts{s.id, s.counts}
	}
	return out
}

// A session holds the counts of one session. All but its ID is guarded by Backend.mu.
type session struct {
	id string

	closed bool
	counts Counts
	// Watches that have not fired yet: the entry under the key when they were set, without its value, and
	// the Rev of the directory's listing.
	entries map[string]backend.Entry
	lists   map[string]uint64
}

// Open implements backend.Backend.
func (m *Backend) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	s, err := m.Backend.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	n := &session{id: s.ID(), entries: make(map[string]backend.Entry), lists: make(map[string]uint64)}
	m.mu.Lock()
	m.sessions = append(m.sessions, n)
	m.mu.Unlock()
	return s.Around(backend.Layer{Call: func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
		if c.Kind == backend.CallClose {
			defer m.close(n)
			return next(ctx)
		}
		return m.call(ctx, n, c, next)
	}}), nil
}

// Execute implements backend.Executor, if the Backend below does. It is not counted.
func (m *Backend) Execute(ctx context.Context, w backend.Will) error {
	return backend.ExecuteBelow(ctx, m.Backend, w)
}

// Rehearse implements backend.Rehearser. It is not counted.
func (m *Backend) Rehearse(ctx context.Context) error { return backend.Rehearse(ctx, m.Backend) }

// close keeps the sum. Later calls count in it, but not as the session's.
func (m *Backend) close(n *session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !n.closed {
		n.closed = true
		m.closed = m.closed.Add(n.counts)
		m.sessions = slices.DeleteFunc(m.sessions, func(o *session) bool { return o == n })
	}
}

// call makes one call, and counts its beginning and its outcome.
func (m *Backend) call(ctx context.Context, n *session, c *backend.Call, next func(context.Context) error) error {
	call := Call{Session: n.id, Kind: c.Kind, Key: c.Key, Ops: c.Ops}
	m.count(n, func(to *Counts) { n.begins(to, c) })
	call.Began = time.Now()
	err := next(ctx)
	call.End, call.Err = time.Now(), err
	m.count(n, func(to *Counts) {
		switch {
		case err == nil:
			call.WokenUp = c.Waits()
			n.ends(to, c)
		case call.Refused():
			to.Refused++
		case ctx.Err() == nil && !errors.Is(err, backend.ErrNoEntry):
			to.Errors++
		}
		if call.WokenUp {
			to.WakeUps++
		}
	})
	if m.trace != nil {
		m.trace(call)
	}
	return err
}

func (m *Backend) count(n *session, f func(to *Counts)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n.closed {
		f(&m.closed)
		return
	}
	f(&n.counts)
}

// begins counts the arguments. The caller holds Backend.mu, as for all below.
func (n *session) begins(to *Counts, c *backend.Call) {
	to.Sent += len(c.Key)
	switch c.Kind {
	case backend.CallGet, backend.CallSurvey:
		to.Gets++
	case backend.CallPredecessor:
		to.Predecessors++
	case backend.CallList, backend.CallChildren:
		to.Lists++
	case backend.CallDiscard:
		to.Drops++
	case backend.CallAwaitList:
		to.Waits++
		if rev, ok := n.lists[c.Key]; !ok || rev != c.KnownListing.Rev {
			remember(n.lists, c.Key, c.KnownListing.Rev)
			to.Watches++
		}
	case backend.CallAwait:
		to.Waits++
		to.Sent -= len(c.Key) // it is the first entry's key
		for _, e := range c.KnownEntries {
			to.Sent += len(e.Key)
			n.watch(to, e)
		}
	case backend.CallCommit:
		to.Commits++
		to.Sent -= len(c.Key)
		for _, g := range c.Conditions {
			to.Sent += len(g.Entry.Key)
		}
		for _, op := range c.Ops {
			to.Sent += len(op.Key) + len(op.Value)
		}
	}
}

// ends counts the results, and notes which watches have fired.
func (n *session) ends(to *Counts, c *backend.Call) {
	to.Received += size(c.Found) + size(c.Entries...)
	for _, keys := range [][]string{c.Strangers, c.Children, c.Listing.Keys} {
		for _, key := range keys {
			to.Received += len(key)
		}
	}
	switch c.Kind {
	case backend.CallAwaitList:
		if n.lists[c.Key] == c.KnownListing.Rev {
			delete(n.lists, c.Key)
		}
	case backend.CallAwait:
		for i, e := range c.KnownEntries {
			n.told(e, c.Entries[i])
		}
	case backend.CallCommit:
		for _, op := range c.Ops {
			if op.Kind == backend.OpDelete {
				n.removed(op.Key, op.Rev)
			}
		}
	case backend.CallDiscard:
		n.removed(c.Key, c.Entry.Rev)
	}
}

func size(entries ...backend.Entry) (bytes int) {
	for _, e := range entries {
		bytes += len(e.Key) + len(e.Value)
	}
	return bytes
}

// mostWatches bounds the watches that are remembered of a session: some never fire, since nobody waits for
// them any more.
const mostWatches = 4096

// watch notes that an entry is watched.
func (n *session) watch(to *Counts, e backend.Entry) {
	before, watched := n.entries[e.Key]
	if watched && (before.Same(e) || e.IsUnknown()) {
		return
	}
	remember(n.entries, e.Key, backend.Entry{Key: e.Key, Rev: e.Rev, Version: e.Version})
	to.Watches++
}

func remember[T any](all map[string]T, key string, v T) {
	if len(all) >= mostWatches {
		clear(all)
	}
	all[key] = v
}

// told notes what a wait returned for an entry. Another wait may have set the watch again by then.
func (n *session) told(e, now backend.Entry) {
	switch watched := n.entries[e.Key]; {
	case !watched.Same(e) || e.Same(now):
	case e.IsUnknown():
		n.entries[e.Key] = backend.Entry{Key: e.Key, Rev: now.Rev, Version: now.Version} // its watch remains
	default:
		delete(n.entries, e.Key)
	}
}

// removed notes that an incarnation is gone, and its watch with it.
func (n *session) removed(key string, rev uint64) {
	if n.entries[key].Rev == rev {
		delete(n.entries, key)
	}
}
