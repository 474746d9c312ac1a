package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Life is what a session knows about itself without asking the service. The methods are those of Session.
type Life interface {
	ID() string
	TTL() time.Duration
	Deadline() time.Time
	State() State
	AwaitState(ctx context.Context, prev State) (State, error)
}

// A Driver makes the calls of a Session natively. The methods are those of Session, whose comments are the
// contract. The driver keeps a subscription of Await, if it has not fired, for the next call, and does not
// list the directory for each Predecessor. The Session checks arguments first: keys by CheckKey, ops by
// Op.Check, and that a Discard is of an entry of this session; known of Survey is never nil. It also drops
// keys from Children that CheckKey refuses. A driver's errors have no name, operation or key: the Session
// adds them, once.
type Driver interface {
	Life
	Get(ctx context.Context, key string) (Entry, error)
	Survey(ctx context.Context, key string, known func(Entry) string) (Entry, []string, error)
	Children(ctx context.Context, key string, most int) (keys []string, more bool, err error)
	List(ctx context.Context, dir string) (Listing, error)
	AwaitList(ctx context.Context, known Listing) (Listing, error)
	Predecessor(ctx context.Context, e Entry) (Entry, error)
	Await(ctx context.Context, known ...Entry) ([]Entry, error)
	Commit(ctx context.Context, conditions []Condition, ops ...Op) ([]Entry, error)
	Discard(ctx context.Context, e Entry) error
	Close(ctx context.Context) error
}

// CallKind names a method of Session that asks the service.
type CallKind string

const (
	CallGet         CallKind = "get"
	CallSurvey      CallKind = "survey"
	CallChildren    CallKind = "children"
	CallList        CallKind = "list"
	CallPredecessor CallKind = "predecessor"
	CallAwait       CallKind = "await"
	CallAwaitList   CallKind = "await list"
	CallCommit      CallKind = "commit"
	CallDiscard     CallKind = "discard"
	CallClose       CallKind = "close"
)

// A Call is one call of a session on its way through its layers.
type Call struct {
	Kind CallKind
	// Key is the key that the call is about, the first if there are several; "" if none.
	Key string

	// Arguments. A layer must not change them.
	Known        func(Entry) string // Survey
	Entry        Entry              // Predecessor, Discard
	KnownEntries []Entry            // Await
	KnownListing Listing            // AwaitList
	Most         int                // Children
	Conditions   []Condition        // Commit
	Ops          []Op               // Commit

	// Results, empty if the call fails. A layer may change them. Await has one entry per known entry,
	// Commit one per op.
	Found     Entry    // Get, Survey, Predecessor
	Strangers []string // Survey
	Children  []string // Children
	More      bool     // Children
	Listing   Listing  // List, AwaitList
	Entries   []Entry  // Await, Commit
}

// check returns an error for a call that no service can do. id is the session's.
func (c *Call) check(id string) error {
	switch c.Kind {
	case CallAwait:
		if len(c.KnownEntries) == 0 {
			return errors.New("no entries were given")
		}
		for _, e := range c.KnownEntries {
			if err := CheckKey(e.Key); err != nil {
				return err
			}
		}
	case CallCommit:
		if err := CheckConditions(c.Conditions); err != nil {
			return err
		}
		return checkOps(c.Ops)
	case CallClose:
	case CallChildren:
		if c.Most < 1 {
			return fmt.Errorf("most is %d: ask for one key at least", c.Most)
		}
		if c.Key != "/" {
			return CheckKey(c.Key)
		}
	case CallPredecessor:
		return CheckKey(c.Entry.Key)
	case CallAwaitList:
		return CheckKey(c.KnownListing.Dir)
	case CallDiscard:
		if err := CheckKey(c.Entry.Key); err != nil {
			return err
		}
		if c.Entry.Exists() && c.Entry.Session != id {
			return fmt.Errorf("%s is of session %q, not of this one (%s)", c.Entry.Key, c.Entry.Session, id)
		}
	default:
		return CheckKey(c.Key)
	}
	return nil
}

// forget clears the results of a call that fails.
//
//go:noinline
func (c *Call) forget() {
	c.Found, c.Strangers, c.Children, c.More, c.Listing, c.Entries = Entry{}, nil, nil, false, Listing{}, nil
}

// By makes the call on d.
func (c *Call) By(ctx context.Context, d Driver) (err error) {
	switch c.Kind { // calls that wait need little stack
	case CallAwait:
		c.Entries, err = d.Await(ctx, c.KnownEntries...)
	case CallAwaitList:
		return c.awaitList(ctx, d)
	default:
		return c.by(ctx, d)
	}
	return err
}

//go:noinline
func (c *Call) awaitList(ctx context.Context, d Driver) (err error) {
	c.Listing, err = d.AwaitList(ctx, c.KnownListing)
	return err
}

//go:noinline
func (c *Call) by(ctx context.Context, d Driver) (err error) {
	switch c.Kind {
	case CallGet:
		c.Found, err = d.Get(ctx, c.Key)
	case CallSurvey:
		c.Found, c.Strangers, err = d.Survey(ctx, c.Key, c.Known)
	case CallChildren:
		c.Children, c.More, err = d.Children(ctx, c.Key, c.Most)
		c.Children = slices.DeleteFunc(c.Children, func(key string) bool { return CheckKey(key) != nil })
	case CallList:
		c.Listing, err = d.List(ctx, c.Key)
	case CallPredecessor:
		c.Found, err = d.Predecessor(ctx, c.Entry)
	case CallCommit:
		c.Entries, err = d.Commit(ctx, c.Conditions, c.Ops...)
	case CallDiscard:
		err = d.Discard(ctx, c.Entry)
	case CallClose:
		err = d.Close(ctx)
	default:
		err = fmt.Errorf("there is no call %q", c.Kind)
	}
	return err
}

// Waits reports whether the call blocks until something changes. An Await of an Unknown entry is a read.
func (c *Call) Waits() bool {
	switch c.Kind {
	case CallAwaitList:
		return true
	case CallAwait:
		return !slices.ContainsFunc(c.KnownEntries, Entry.IsUnknown)
	}
	return false
}

// A Layer wraps a session: it sees the session's calls, and may replace its Life.
type Layer struct {
	// Life replaces the session's own; nil: the session's own remains.
	Life Life
	// Call sees the calls; nil: all calls pass.
	Call Interceptor
}

// An Interceptor makes a call by calling next. It may skip next, or call it several times, one after the
// other: none may be pending when it returns. It is called without locks, on the caller's goroutine, which
// is not always the user's. Its own errors are passed on unchanged.
type Interceptor func(ctx context.Context, c *Call, next func(context.Context) error) error

// DoneBy returns a layer in which d makes all calls, usually on the session below. What d does by itself is
// neither checked nor wrapped.
func DoneBy(d Driver) Layer {
	return Layer{Life: d, Call: func(ctx context.Context, c *Call, _ func(context.Context) error) error { return c.By(ctx, d) }}
}

// Around returns a session with a layer around s. It is the same session of the service for all functions
// that take one.
func (s *Session) Around(l Layer) *Session {
	around := *s
	if l.Life != nil {
		around.life = l.Life
	}
	if l.Call != nil {
		around.below, around.call = s, l.Call
	}
	return &around
}

// Driver returns the driver that makes the session's calls, below all layers and checks. It is for
// functions of a backend's package that take a Session.
func (s *Session) Driver() Driver { return s.driver }

// Life returns the session's Life: its driver, or the one that a layer put in its place.
func (s *Session) Life() Life { return s.life }

// Around returns a Backend that opens sessions of b with a layer around each. It calls around for each
// session that was opened, to get its layer.
func Around(b Backend, around func(*Session) Layer) Backend { return &layered{b, around} }

// Intercept returns a Backend that opens sessions of b whose calls pass through i.
func Intercept(b Backend, i Interceptor) Backend {
	return Around(b, func(*Session) Layer { return Layer{Call: i} })
}

type layered struct {
	Backend
	around func(*Session) Layer
}

// Open implements Backend.
func (b *layered) Open(ctx context.Context, o OpenOptions) (*Session, error) {
	s, err := b.Backend.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return s.Around(b.around(s)), nil
}
