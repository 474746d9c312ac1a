package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A Session is a leased identity in the service. A Backend opens it. It is safe for concurrent use.
//
// Reads ride out a suspended session: they block until they are answered, ctx ends, or the session is lost.
// They return the service's current state as seen by this session, never older than what the session has
// returned before, or than the state by which its commits, refused ones too, were decided. A new session
// may begin behind what others of its process have seen, if its server is behind (ZooKeeper). Once the
// session is lost, every method except Close returns an error that is ErrSessionLost, blocked calls
// included. Once ctx ends, it returns ctx's error.
type Session struct {
	name   string
	life   Life
	driver Driver
	below  *Session    // the session that the layer is around, or nil
	call   Interceptor // the layer's, or nil
}

// NewSession returns a session that a backend of this name has opened. d is the backend's own driver, not a
// Session. The Session checks arguments, and wraps errors with the name, the operation and the key.
func NewSession(name string, d Driver) *Session { return &Session{name: name, life: d, driver: d} }

// ID returns the service's name for the session. Entry.Session holds it.
func (s *Session) ID() string { return s.life.ID() }

// TTL returns the session timeout that the service granted.
func (s *Session) TTL() time.Duration { return s.life.TTL() }

// Deadline returns the end of the trust window: until then the session is certain to be alive in the
// service. It only moves forward, and never once it is reached. It has a monotonic clock reading. Deadline
// does not block and takes no round trip.
func (s *Session) Deadline() time.Time { return s.life.Deadline() }

// State returns the session's state. It does not block.
func (s *Session) State() State { return s.life.State() }

// AwaitState blocks until the state is not prev, and returns it. It returns (Lost, nil) when the session is
// lost or closed; the only error is ctx's. Callers may miss states in between, but never Lost.
func (s *Session) AwaitState(ctx context.Context, prev State) (State, error) {
	return s.life.AwaitState(ctx, prev)
}

// Get reads the entry under key. The error is ErrNoEntry if there is none.
func (s *Session) Get(ctx context.Context, key string) (Entry, error) {
	c := Call{Kind: CallGet, Key: key}
	err := s.do(ctx, &c)
	return c.Found, err
}

// Survey reads the entry under key as Get does, but with a zero Rev if there is none, and returns the keys
// of the strangers directly under key: entries that a session holds, made by anybody, or that a lock of the
// service's own client has marked. Survey calls known, if not nil, with the entry; known returns the key of
// one entry directly under key that is no stranger, or "". This saves a request on some services. If there
// are more than a hundred keys under key, some may be left out. Keys that this session may not read are
// left out, too. Neither is an error.
func (s *Session) Survey(ctx context.Context, key string, known func(Entry) string) (Entry, []string, error) {
	if known == nil {
		known = func(Entry) string { return "" }
	}
	c := Call{Kind: CallSurvey, Key: key, Known: known}
	err := s.do(ctx, &c)
	return c.Found, c.Strangers, err
}

// Children returns the keys directly under key, which may be "/", in any order: keys of entries made by
// anybody, and on some services keys that only have entries below them. It returns up to most keys; more
// says that there are others. A service that returns names only all at once (ZooKeeper) then returns none.
// Keys that CheckKey refuses are left out, and on Consul also keys that this session may not list. Children
// is for tools, not for elections: it may cost as much as reading the names of everything below key.
func (s *Session) Children(ctx context.Context, key string, most int) (keys []string, more bool, err error) {
	c := Call{Kind: CallChildren, Key: key, Most: most}
	err = s.do(ctx, &c)
	return c.Children, c.More, err
}

// List reads the keys enqueued in dir, oldest first. A dir that does not exist is empty.
func (s *Session) List(ctx context.Context, dir string) (Listing, error) {
	c := Call{Kind: CallList, Key: dir}
	err := s.do(ctx, &c)
	return c.Listing, err
}

// AwaitList blocks until the listing differs from known, and returns the current one. Every change of the
// directory wakes every waiter. A change that was undone may go unnoticed.
func (s *Session) AwaitList(ctx context.Context, known Listing) (Listing, error) {
	c := new(Call) // field by field: a caller that waits keeps its stack
	c.Kind, c.Key, c.KnownListing = CallAwaitList, known.Dir, known
	err := s.do(ctx, c)
	return c.Listing, err
}

// Predecessor returns the youngest entry enqueued in e's directory that is older than e, or the zero Entry
// if e is the oldest. ErrNoEntry means that e itself is gone.
func (s *Session) Predecessor(ctx context.Context, e Entry) (Entry, error) {
	c := Call{Kind: CallPredecessor, Key: e.Key, Entry: e}
	err := s.do(ctx, &c)
	return c.Found, err
}

// Await blocks until at least one of the known entries is not Same as given. It returns the entry that each
// key has, in the order given; a zero Rev means gone (or, if it was given with a zero Rev, still absent).
// It subscribes before it reads, so it misses nothing, and keeps rule 4. The result may be the state at the
// instant of the change rather than now.
func (s *Session) Await(ctx context.Context, known ...Entry) ([]Entry, error) {
	c := new(Call)
	c.Kind, c.KnownEntries = CallAwait, known
	if len(known) > 0 {
		c.Key = known[0].Key
	}
	err := s.do(ctx, c)
	return c.Entries, err
}

// Commit applies ops if all conditions hold: all of them at one instant, or none. No two ops may be about
// the same key, and no two may enqueue in one directory. Conditions are about the state before all ops;
// each op finds what the ops before it have left. The root, "/", always exists. Commit returns one entry
// per op, in their order; for Delete it is the key alone. Conditions without ops ask whether they hold.
// While the session is suspended Commit is not sent: it waits, as reads do.
//
// ErrCondition means that a condition did not hold, ErrConflict that a CompareAndSet found another version
// or a Delete found children, ErrExists that CreateEphemeral found the key taken, ErrNoParent that the
// parent of a CreateEphemeral or Enqueue is gone, ErrUsedUp that the directory of an Enqueue takes no more
// entries, ErrNoEntry that an entry to Update or Delete is gone, ErrTooLarge that the service does not take
// that much at once, and ErrIndeterminate that the commit may or may not have happened. If several things
// are wrong, any of them may be reported.
func (s *Session) Commit(ctx context.Context, conditions []Condition, ops ...Op) ([]Entry, error) {
	c := Call{Kind: CallCommit, Conditions: conditions, Ops: ops}
	switch {
	case len(ops) > 0:
		c.Key = ops[0].Key
	case len(conditions) > 0:
		c.Key = conditions[0].Entry.Key
	}
	err := s.do(ctx, &c)
	return c.Entries, err
}

// CatchUp makes the session show at least what existed when CatchUp was called: the server of a session may
// be behind, but a commit, even a refused one, is decided by the service's current state. The session must
// be allowed to read key.
func (s *Session) CatchUp(ctx context.Context, key string) error {
	_, err := s.Commit(ctx, []Condition{IfExists(Unknown(key))})
	if errors.Is(err, ErrCondition) {
		return nil // as expected: no such entry ever existed
	}
	return err
}

// Discard deletes an ephemeral entry of this session. It returns nil once it is confirmed that this
// incarnation is gone, removed by anybody. If that fails, because ctx ends first or the service refuses it
// (ErrDenied, any error of a server), the session continues to try in the background until the entry is
// gone or the session is lost; the error says that the removal is not confirmed yet. Discard may be called
// again: each call checks for itself. Once the session is lost the error is ErrSessionLost, even if ctx has
// ended, too. Discard refuses an entry that is not of this session, and leaves it alone.
func (s *Session) Discard(ctx context.Context, e Entry) error {
	return s.do(ctx, &Call{Kind: CallDiscard, Key: e.Key, Entry: e})
}

// Close ends the session. The service drops all its entries at once if it can be reached, or when the
// session times out. The session is Lost from the start of the call, and blocked calls return. Close blocks
// until the session's goroutines are gone or ctx ends; an error says that the service did not confirm.
// Backends over a network try for some seconds: a link that has just broken may be back. If a request is
// lost after it was sent, they may not repeat it (ZooKeeper). Close may be called several times.
func (s *Session) Close(ctx context.Context) error {
	return s.do(ctx, &Call{Kind: CallClose})
}

// do makes a call, through the layer if there is one. A caller that waits keeps its stack, once per layer,
// so everything else is in functions of its own.
func (s *Session) do(ctx context.Context, c *Call) error {
	if s.call == nil {
		return s.drive(ctx, c)
	}
	err := s.call(ctx, c, func(ctx context.Context) error { return s.below.do(ctx, c) })
	if err != nil {
		c.forget()
	}
	return err
}

// drive checks the call and makes it on the driver.
func (s *Session) drive(ctx context.Context, c *Call) error {
	if err := c.prepare(s.driver.ID()); err != nil {
		return s.refused(c, err)
	}
	if err := c.By(ctx, s.driver); err != nil {
		return s.failed(c, err)
	}
	return nil
}

// prepare checks a call.
//
//go:noinline
func (c *Call) prepare(id string) error {
	if err := c.check(id); err != nil {
		return err
	}
	if c.Kind == CallCommit {
		c.Ops, c.Conditions = cloned(c.Ops), slices.Clone(c.Conditions) // the driver may look at them after the call was abandoned
	}
	return nil
}

// refused returns the error of a call that no service can do. It names the key if the key is at fault.
//
//go:noinline
func (s *Session) refused(c *Call, err error) error {
	c.forget()
	if s.driver.State() == Lost {
		err = fmt.Errorf("%w: %w", ErrSessionLost, err)
	}
	return fmt.Errorf("%s: %s: %w", s.name, c.Kind, err)
}

//go:noinline
func (s *Session) failed(c *Call, err error) error {
	c.forget()
	if c.Key == "" {
		return fmt.Errorf("%s: %s: %w", s.name, c.Kind, err)
	}
	return fmt.Errorf("%s: %s %s: %w", s.name, c.Kind, c.Key, err)
}
