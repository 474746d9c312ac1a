package backend

import (
	"context"
	"errors"
	"slices"
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

	mu       sync.Mutex        // of its sessions, too
	sessions []*meteredSession // those that are open, in the order in which they were opened
	closed   Counts            // of those that are not any more
}

// Counts are numbers of calls, counted as they begin, and of what came of them. They do
// not tell what a call costs on the wire: that, the service's own figures do.
type Counts struct {
	// Gets are calls of Get and Survey.
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
	CallGet         CallKind = "get" // Survey, too
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
	n := &meteredSession{Session: s, of: m, entries: make(map[string]Entry), lists: make(map[string]uint64)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions = append(m.sessions, n)
	return n, nil
}

// Counts returns the sum over all sessions so far, closed ones included.
func (m *Metered) Counts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := m.closed
	for _, s := range m.sessions {
		sum = sum.Add(s.counts)
	}
	return sum
}

// Sessions returns the counts of each session that is not closed, in the order in which
// they were opened. Take them before Close: of those that are closed only the sum is kept.
func (m *Metered) Sessions() []SessionCounts {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]SessionCounts, len(m.sessions))
	for i, s := range m.sessions {
		out[i] = SessionCounts{s.ID(), s.counts}
	}
	return out
}

// maxMetered bounds the watches that are remembered of a session: some never tell anything,
// since nobody waits for them any more.
const maxMetered = 4096

// All but Session and of is guarded by Metered.mu.
type meteredSession struct {
	Session
	of *Metered

	closed bool
	counts Counts
	// Watches that have not told anything yet: what stood under the key when they were
	// set, without its value, and the Rev of the directory's listing.
	entries map[string]Entry
	lists   map[string]uint64
}

// Unwrap returns the session that is metered, for functions of a backend's package that
// take a Session.
func (s *meteredSession) Unwrap() Session { return s.Session }

// Close implements Session. What is called from then on counts, but not as the session's.
func (s *meteredSession) Close(ctx context.Context) error {
	err := s.Session.Close(ctx)
	m := s.of
	m.mu.Lock()
	defer m.mu.Unlock()
	if !s.closed {
		s.closed = true
		m.closed = m.closed.Add(s.counts)
		m.sessions = slices.DeleteFunc(m.sessions, func(o *meteredSession) bool { return o == s })
	}
	return err
}

func (s *meteredSession) count(f func(c *Counts)) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.closed {
		f(&s.of.closed)
		return
	}
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
	if s.of.trace != nil {
		call.Session = s.ID()
		s.of.trace(call)
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

func (s *meteredSession) Survey(ctx context.Context, key string, known func(Entry) string) (e Entry, strangers []string, err error) {
	e, err = metered(ctx, s, Call{Kind: CallGet, Key: key},
		func(c *Counts) { c.Gets++; c.Sent += len(key) },
		func() (e Entry, err error) {
			e, strangers, err = s.Session.Survey(ctx, key, known)
			return e, err
		},
		func(c *Counts, e Entry) bool { c.Received += listed(Listing{Keys: strangers}); return received(c, e) })
	return e, strangers, err
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
				remember(s.lists, known.Dir, known.Rev)
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
				s.watch(c, e)
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

// watch notes that an entry is to be watched. The caller holds Metered.mu, as for all below.
func (s *meteredSession) watch(c *Counts, e Entry) {
	before, watched := s.entries[e.Key]
	if watched && (before.Same(e) || e.IsUnknown()) {
		return
	}
	remember(s.entries, e.Key, Entry{Key: e.Key, Rev: e.Rev, Version: e.Version})
	c.Watches++
}

func remember[T any](all map[string]T, key string, v T) {
	if len(all) >= maxMetered {
		clear(all)
	}
	all[key] = v
}

// told notes what a wait for an entry has told of it. Another wait may have set the
// watch anew by then.
func (s *meteredSession) told(e, now Entry) {
	switch watched := s.entries[e.Key]; {
	case !watched.Same(e) || e.Same(now):
	case e.IsUnknown():
		s.entries[e.Key] = Entry{Key: e.Key, Rev: now.Rev, Version: now.Version} // its watch stands
	default:
		delete(s.entries, e.Key)
	}
}

// removed notes that an incarnation is gone, and its watch with it.
func (s *meteredSession) removed(key string, rev uint64) {
	if s.entries[key].Rev == rev {
		delete(s.entries, key)
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
		func(c *Counts, made []Entry) bool {
			for _, op := range ops {
				if op.Kind == OpDelete {
					s.removed(op.Key, op.Rev)
				}
			}
			c.Received += size(made...)
			return false
		})
}

func (s *meteredSession) Drop(ctx context.Context, e Entry) error {
	_, err := metered(ctx, s, Call{Kind: CallDrop, Key: e.Key},
		func(c *Counts) { c.Drops++; c.Sent += len(e.Key) },
		func() (struct{}, error) { return struct{}{}, s.Session.Drop(ctx, e) },
		func(*Counts, struct{}) bool { s.removed(e.Key, e.Rev); return false })
	return err
}
