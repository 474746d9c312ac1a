package backend

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Meter returns a Backend that does what b does, and counts what passes. Give each
// candidate one of its own to have the counts per candidate; take Metered.Counts before
// and after a leader change, and Counts.Sub, to have them per change.
//
// trace, if not nil, is called after each call of a session, with the call's outcome, on
// the caller's goroutine and without locks: what it takes, the caller waits for.
func Meter(b Backend, trace func(Call)) *Metered {
	return &Metered{Backend: b, trace: trace}
}

// Metered is a Backend made by Meter.
type Metered struct {
	Backend
	trace func(Call)

	mu       sync.Mutex
	sessions []*meteredSession // in the order in which they were opened
}

// Counts are numbers of calls, counted as they begin, and of what came of them. They do
// not tell what a call costs on the wire: that, the service's own figures do.
type Counts struct {
	Gets, Lists, Predecessors, Commits, Drops int

	// Waits are calls of Await and AwaitList.
	Waits int
	// Watches are the watches that those needed: one for each key that was not being
	// watched yet, counted as on a service where a watch is spent by the change it
	// tells of, and otherwise kept for the next wait.
	Watches int
	// WakeUps are the waits that returned with news. A wait for an entry Unknown, which
	// is a read, is none.
	WakeUps int

	// Sent and Received are the bytes of keys and values, in arguments and results.
	Sent, Received int

	// Refused are the commits that the service turned down: ErrGuard, ErrExists,
	// ErrConflict, ErrNoEntry or ErrNoParent. They cost it as much as others.
	Refused int
	// Errors are the other errors, but for those of calls whose context has ended, and
	// for a read's ErrNoEntry, which is an answer.
	Errors int
}

// Add returns the sum of c and o.
func (c Counts) Add(o Counts) Counts { return c.plus(o, 1) }

// Sub returns what has been counted since o.
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

// Operations are all calls.
func (c Counts) Operations() int {
	return c.Gets + c.Lists + c.Predecessors + c.Commits + c.Drops + c.Waits
}

// SessionCounts are those of one session.
type SessionCounts struct {
	ID string
	Counts
}

// CallKind names a method of Session.
type CallKind string

const (
	CallGet         CallKind = "get"
	CallList        CallKind = "list"
	CallPredecessor CallKind = "predecessor"
	CallAwait       CallKind = "await"
	CallAwaitList   CallKind = "await list"
	CallCommit      CallKind = "commit"
	CallDrop        CallKind = "drop"
)

// A Call is one that has returned.
type Call struct {
	Session string // its ID
	Kind    CallKind
	// Key is what it was about, the first one where there were several; "" if nothing.
	Key string
	// Ops are those of a commit. They must not be changed.
	Ops []Op
	// Began is when it was called, End when it returned.
	Began, End time.Time
	// WokenUp says that a wait returned with news.
	WokenUp bool
	Err     error
}

// Refused tells whether the service turned a commit down.
func (c Call) Refused() bool { return c.Kind == CallCommit && refused(c.Err) }

func refused(err error) bool {
	for _, r := range []error{ErrGuard, ErrExists, ErrConflict, ErrNoEntry, ErrNoParent} {
		if errors.Is(err, r) {
			return true
		}
	}
	return false
}

// Open implements Backend.
func (m *Metered) Open(ctx context.Context, o OpenOptions) (Session, error) {
	s, err := m.Backend.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	n := &meteredSession{Session: s, trace: m.trace, entries: make(map[string]Entry), lists: make(map[string]uint64)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions = append(m.sessions, n)
	return n, nil
}

// Counts returns the sum over all sessions so far, closed ones included.
func (m *Metered) Counts() Counts {
	var sum Counts
	for _, s := range m.Sessions() {
		sum = sum.Add(s.Counts)
	}
	return sum
}

// Sessions returns the counts of each session so far, in the order in which they were
// opened, closed ones included.
func (m *Metered) Sessions() []SessionCounts {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]SessionCounts, len(m.sessions))
	for i, s := range m.sessions {
		out[i] = SessionCounts{s.ID(), s.seen()}
	}
	return out
}

type meteredSession struct {
	Session
	trace func(Call)

	mu     sync.Mutex
	counts Counts
	// Watches that have not told anything yet: what stood under the key when they were
	// set, and the Rev of the directory's listing.
	entries map[string]Entry
	lists   map[string]uint64
}

// Unwrap returns the session that is metered, for functions of a backend's package that
// take a Session.
func (s *meteredSession) Unwrap() Session { return s.Session }

func (s *meteredSession) seen() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

func (s *meteredSession) count(f func(c *Counts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.counts)
}

// metered makes one call. begun counts its beginning; done counts its results, and tells
// whether they wake the caller up.
func metered[T any](ctx context.Context, s *meteredSession, call Call, begun func(c *Counts), do func() (T, error), done func(c *Counts, v T) (wokenUp bool)) (T, error) {
	s.count(begun)
	call.Began = time.Now()
	v, err := do()
	call.End, call.Err = time.Now(), err
	s.count(func(c *Counts) {
		switch {
		case err == nil:
			call.WokenUp = done(c, v)
		case call.Refused():
			c.Refused++
		case ctx.Err() == nil && !errors.Is(err, ErrNoEntry):
			c.Errors++
		}
		if call.WokenUp {
			c.WakeUps++
		}
	})
	if s.trace != nil {
		call.Session = s.ID()
		s.trace(call)
	}
	return v, err
}

func size(entries ...Entry) (bytes int) {
	for _, e := range entries {
		bytes += len(e.Key) + len(e.Value)
	}
	return bytes
}

func listed(l Listing) (bytes int) {
	for _, key := range l.Keys {
		bytes += len(key)
	}
	return bytes
}

func received(c *Counts, e Entry) bool {
	c.Received += size(e)
	return false
}

func (s *meteredSession) Get(ctx context.Context, key string) (Entry, error) {
	return metered(ctx, s, Call{Kind: CallGet, Key: key},
		func(c *Counts) { c.Gets++; c.Sent += len(key) },
		func() (Entry, error) { return s.Session.Get(ctx, key) }, received)
}

func (s *meteredSession) Predecessor(ctx context.Context, e Entry) (Entry, error) {
	return metered(ctx, s, Call{Kind: CallPredecessor, Key: e.Key},
		func(c *Counts) { c.Predecessors++; c.Sent += len(e.Key) },
		func() (Entry, error) { return s.Session.Predecessor(ctx, e) }, received)
}

func (s *meteredSession) List(ctx context.Context, dir string) (Listing, error) {
	return metered(ctx, s, Call{Kind: CallList, Key: dir},
		func(c *Counts) { c.Lists++; c.Sent += len(dir) },
		func() (Listing, error) { return s.Session.List(ctx, dir) },
		func(c *Counts, l Listing) bool { c.Received += listed(l); return false })
}

func (s *meteredSession) AwaitList(ctx context.Context, known Listing) (Listing, error) {
	return metered(ctx, s, Call{Kind: CallAwaitList, Key: known.Dir},
		func(c *Counts) {
			c.Waits++
			c.Sent += len(known.Dir)
			if rev, ok := s.lists[known.Dir]; !ok || rev != known.Rev {
				s.lists[known.Dir] = known.Rev
				c.Watches++
			}
		},
		func() (Listing, error) { return s.Session.AwaitList(ctx, known) },
		func(c *Counts, l Listing) bool {
			c.Received += listed(l)
			if s.lists[known.Dir] == known.Rev {
				delete(s.lists, known.Dir)
			}
			return true
		})
}

func (s *meteredSession) Await(ctx context.Context, known ...Entry) ([]Entry, error) {
	call := Call{Kind: CallAwait}
	if len(known) > 0 {
		call.Key = known[0].Key
	}
	return metered(ctx, s, call,
		func(c *Counts) {
			c.Waits++
			for _, e := range known {
				c.Sent += len(e.Key)
				s.watch(e)
			}
		},
		func() ([]Entry, error) { return s.Session.Await(ctx, known...) },
		func(c *Counts, now []Entry) (wokenUp bool) {
			wokenUp = true
			for i, e := range known {
				if e.IsUnknown() {
					wokenUp = false // it was a read
				}
				s.told(e, now[i])
			}
			c.Received += size(now...)
			return wokenUp
		})
}

// watch notes that an entry is to be watched. The caller holds s.mu.
func (s *meteredSession) watch(e Entry) {
	before, watched := s.entries[e.Key]
	if watched && (before.Same(e) || e.IsUnknown()) {
		return
	}
	s.entries[e.Key] = e
	s.counts.Watches++
}

// told notes what a wait for an entry has told of it. Another wait may have set the
// watch anew by then. The caller holds s.mu.
func (s *meteredSession) told(e, now Entry) {
	switch watched := s.entries[e.Key]; {
	case !watched.Same(e) || e.Same(now):
	case e.IsUnknown():
		s.entries[e.Key] = Entry{Key: e.Key, Rev: now.Rev, Version: now.Version} // its watch stands
	default:
		delete(s.entries, e.Key)
	}
}

func (s *meteredSession) Commit(ctx context.Context, guards []Guard, ops ...Op) ([]Entry, error) {
	call := Call{Kind: CallCommit, Ops: ops}
	if len(ops) > 0 {
		call.Key = ops[0].Key
	}
	return metered(ctx, s, call,
		func(c *Counts) {
			c.Commits++
			for _, g := range guards {
				c.Sent += len(g.Entry.Key)
			}
			for _, op := range ops {
				c.Sent += len(op.Key) + len(op.Value)
			}
		},
		func() ([]Entry, error) { return s.Session.Commit(ctx, guards, ops...) },
		func(c *Counts, made []Entry) bool { c.Received += size(made...); return false })
}

func (s *meteredSession) Drop(ctx context.Context, e Entry) error {
	_, err := metered(ctx, s, Call{Kind: CallDrop, Key: e.Key},
		func(c *Counts) { c.Drops++; c.Sent += len(e.Key) },
		func() (struct{}, error) { return struct{}{}, s.Session.Drop(ctx, e) },
		func(*Counts, struct{}) bool { return false })
	return err
}
