package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Life is what a session tells of itself without asking the service. The methods are those
// of Session.
type Life interface {
	ID() string
	TTL() time.Duration
	Deadline() time.Time
	State() State
	AwaitState(ctx context.Context, prev State) (State, error)
}

// A Driver does the calls of a Session natively. The methods are those of Session, whose
// comments are the contract. It keeps a subscription of Await that has not fired for the next
// call, and does not list the directory for each Predecessor. What it is asked has been checked:
// keys by CheckKey, ops by Op.Check, and what Discard is about is of this session. The keys that Children
// returns are checked, too: those of others may be no keys. Its errors bear
// neither name, operation nor key: the Session puts them before, once.
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
	// Key is what it is about, the first one where there are several; "" if nothing.
	Key string

	// What is asked. A layer must not change it.
	Known        func(Entry) string // Survey
	Entry        Entry              // Predecessor, Discard
	KnownEntries []Entry            // Await
	KnownListing Listing            // AwaitList
	Most         int                // Children
	Conditions   []Condition        // Commit
	Ops          []Op               // Commit

	// What is answered: nothing beside an error. A layer may change it. Await has an entry for each
	// that is known, and Commit one for each op.
	Found     Entry    // Get, Survey, Predecessor
	Strangers []string // Survey
	Children  []string // Children
	More      bool     // Children
	Listing   Listing  // List, AwaitList
	Entries   []Entry  // Await, Commit
}

// check reports what no service can do. id is the session's.
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

// forget leaves no answers beside an error.
func (c *Call) forget() {
	c.Found, c.Strangers, c.Children, c.More, c.Listing, c.Entries = Entry{}, nil, nil, false, Listing{}, nil
}

// By has a driver do the call.
func (c *Call) By(ctx context.Context, d Driver) (err error) {
	switch c.Kind { // those that wait need little stack
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

// Waits tells whether the call blocks until something changes. An Await of an entry that is
// Unknown is a read.
func (c *Call) Waits() bool {
	switch c.Kind {
	case CallAwaitList:
		return true
	case CallAwait:
		return !slices.ContainsFunc(c.KnownEntries, Entry.IsUnknown)
	}
	return false
}

// A Layer stands around a session: it sees its calls, and may tell of its life.
type Layer struct {
	// Life tells of the session instead of itself; nil: it is asked itself.
	Life Life
	// Call sees the calls; nil: all pass.
	Call Interceptor
}

// An Interceptor makes a call by calling next, which it may leave out, or call several times, one
// after the other: none may be under way when it returns. It is called without locks, on the
// goroutine of whoever called, which is not always that of the user. Errors of its own are passed on
// as they are.
type Interceptor func(ctx context.Context, c *Call, next func(context.Context) error) error

// DoneBy is a layer in which d does all calls, as a rule with the session below: what it does by
// itself is neither checked nor wrapped.
func DoneBy(d Driver) Layer {
	return Layer{Life: d, Call: func(ctx context.Context, c *Call, _ func(context.Context) error) error { return c.By(ctx, d) }}
}

// Around returns a session with a layer around s: the same session of the service, for all
// functions that take one.
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

// Driver returns what does the session's calls, below all layers and checks, for functions of a
// backend's package that take a Session.
func (s *Session) Driver() Driver { return s.driver }

// Life returns what tells of the session's life: its driver, or what a layer has in its place.
func (s *Session) Life() Life { return s.life }

// Around returns a Backend that opens sessions of b with a layer around each: around is called
// for each session that was opened, and returns its layer.
func Around(b Backend, around func(*Session) Layer) Backend { return &layered{b, around} }

// Intercept returns a Backend that opens sessions of b, whose calls pass through i.
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
