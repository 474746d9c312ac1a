package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A Session is a leased identity in the service, and what can be done with it. A Backend
// opens it. It is safe for concurrent use.
//
// Reads ride out a suspended session: they block until they are answered, ctx
// ends, or the session is lost, and answer with the service's current state as
// seen by this session (never older than what it has been shown before, or what its
// commits were decided by, refused ones too). A new session may begin behind what others of
// its process have seen, where its server is (ZooKeeper). Every
// method but Close returns an error that is ErrSessionLost once the session is
// lost, blocked calls included, and ctx's error once ctx ends.
type Session struct {
	name   string
	life   Life
	driver Driver
	below  *Session    // that a layer is around, or nil
	call   Interceptor // of the layer, or nil
}

// NewSession returns the session that a backend of this name has opened with a driver of its
// own, which is no Session. The session checks what it is asked, and wraps errors with the name, the operation and
// the key.
func NewSession(name string, d Driver) *Session { return &Session{name: name, life: d, driver: d} }

// ID is the service's name for the session. Entry.Session holds it.
func (s *Session) ID() string { return s.life.ID() }

// TTL is the session timeout that the service granted.
func (s *Session) TTL() time.Duration { return s.life.TTL() }

// Deadline is the end of the trust window: until then the session is sure to
// live in the service. It only ever moves forward, and never once reached. It
// carries a monotonic reading. It does not block and takes no round trip.
func (s *Session) Deadline() time.Time { return s.life.Deadline() }

// State tells where the session stands. It does not block.
func (s *Session) State() State { return s.life.State() }

// AwaitState blocks until the state is not prev, and returns it. It returns
// (Lost, nil) when the session is lost or closed; the error is ctx's only.
// States in between may be missed; Lost never is.
func (s *Session) AwaitState(ctx context.Context, prev State) (State, error) {
	return s.life.AwaitState(ctx, prev)
}

// Get reads the entry under key; ErrNoEntry if there is none.
func (s *Session) Get(ctx context.Context, key string) (Entry, error) {
	c := Call{Kind: CallGet, Key: key}
	err := s.do(ctx, &c)
	return c.Found, err
}

// Survey reads the entry under key as Get does, with a zero Rev if there is none, and
// finds the strangers directly under key: entries that a session holds, whoever made
// them, or that a lock of the service's own client has marked. It returns their keys.
// known, if not nil, is called with the entry, and returns the key of one directly
// under it that is no stranger, or "": a service may save a request by it. Of more than
// a hundred keys under key some may be left out, and so are those that this session may
// not read: neither is an error.
func (s *Session) Survey(ctx context.Context, key string, known func(Entry) string) (Entry, []string, error) {
	c := Call{Kind: CallSurvey, Key: key, Known: known}
	err := s.do(ctx, &c)
	return c.Found, c.Strangers, err
}

// Children returns the keys directly under key, which may be "/": those of entries, whoever made them,
// and on some services those that have only entries below them. They come in any order, up to
// most of them. more says that there are others: then a service that tells names only all at once
// (ZooKeeper) returns none. Keys that are none (CheckKey) are left out, and on Consul those that this
// session may not list. It is for tools, and no part of an election: it may be as dear as the names of all that is below key.
func (s *Session) Children(ctx context.Context, key string, most int) (keys []string, more bool, err error) {
	c := Call{Kind: CallChildren, Key: key, Most: most}
	err = s.do(ctx, &c)
	return c.Children, c.More, err
}

// List reads the keys enqueued in dir, oldest first. A dir that does not exist
// is empty.
func (s *Session) List(ctx context.Context, dir string) (Listing, error) {
	c := Call{Kind: CallList, Key: dir}
	err := s.do(ctx, &c)
	return c.Listing, err
}

// AwaitList blocks until the listing is not known any more, and returns the
// current one. It wakes every waiter at every change of the directory. A change that was taken
// back may go unnoticed.
func (s *Session) AwaitList(ctx context.Context, known Listing) (Listing, error) {
	c := new(Call) // field by field, as whoever waits keeps its stack
	c.Kind, c.Key, c.KnownListing = CallAwaitList, known.Dir, known
	err := s.do(ctx, c)
	return c.Listing, err
}

// Predecessor returns the youngest entry enqueued in e's directory that is
// older than e, or the zero Entry when e is the oldest. ErrNoEntry means that
// e itself is gone.
func (s *Session) Predecessor(ctx context.Context, e Entry) (Entry, error) {
	c := Call{Kind: CallPredecessor, Key: e.Key, Entry: e}
	err := s.do(ctx, &c)
	return c.Found, err
}

// Await blocks until at least one of the known entries is not Same as given,
// and returns what there is of each, in the order given: the zero Rev says
// gone (or, where it was given with zero Rev, still not there). It subscribes
// before it reads, so nothing is missed, and keeps rule 4. What it returns may
// be the state at the instant of the change rather than now.
func (s *Session) Await(ctx context.Context, known ...Entry) ([]Entry, error) {
	c := new(Call)
	c.Kind, c.KnownEntries = CallAwait, known
	if len(known) > 0 {
		c.Key = known[0].Key
	}
	err := s.do(ctx, c)
	return c.Entries, err
}

// Commit applies ops if all conditions hold: all of them at one instant, or none. No two ops
// may be about the same key, and no two may enqueue in one directory. Conditions are about what
// stands before all ops, and an op finds what those before it have left. The root, "/", always exists.
// It returns an entry per op, in their order (for Delete: what is left, the
// key alone). ErrCondition says that a condition did not hold, ErrConflict that a CompareAndSet
// found another version, ErrExists that CreateEphemeral found the key taken, ErrNoParent
// that the parent of a CreateEphemeral or Enqueue is gone, ErrUsedUp that the directory of
// an Enqueue takes no more entries, ErrNoEntry that an entry to
// Update or Delete is gone, ErrTooLarge that the service does not take that much at
// once, and ErrIndeterminate that it may or may not have happened. Where several
// things are wrong, any of them may be reported. Conditions without ops ask whether
// they hold. It is not sent while the session is suspended: it waits, as reads do.
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

// CatchUp has the session show what was there when it was called, at least: the server of a session
// may be behind, but a commit is decided by what there is, though it be refused. key is one that
// the session may read.
func (s *Session) CatchUp(ctx context.Context, key string) error {
	_, err := s.Commit(ctx, []Condition{IfExists(Unknown(key))})
	if errors.Is(err, ErrCondition) {
		return nil // no such entry has ever been
	}
	return err
}

// Discard deletes an ephemeral entry of this session and returns nil once it is
// confirmed that this incarnation is gone, whoever removed it. If that fails, because
// ctx ends first or the service refuses it (ErrDenied, any error of a server), the
// session goes on in the background until it is gone or the session is lost; the
// error says that it is not confirmed yet. Discard may be called again: each call looks
// for itself. Once the session is lost it is ErrSessionLost, though ctx may have ended,
// too. An entry that is not of this session is refused, and left alone.
func (s *Session) Discard(ctx context.Context, e Entry) error {
	return s.do(ctx, &Call{Kind: CallDiscard, Key: e.Key, Entry: e})
}

// Close ends the session: the service drops all its entries at once where it
// can be reached, or when the session times out. The session is Lost from the
// start of the call, and blocked calls return. Close blocks until the
// session's goroutines are gone or ctx ends; the error says that the service
// did not confirm. Backends over a network try for some seconds: a link that has
// just broken may be back. What is lost once it was sent they may leave at that
// (ZooKeeper). It may be called several times.
func (s *Session) Close(ctx context.Context) error {
	return s.do(ctx, &Call{Kind: CallClose})
}

// do makes a call, by way of the layer if there is one. Whoever waits keeps the stack that it and
// what it calls need, once per layer: so the rest is in functions of its own.
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

// drive has the driver do a call that it can do.
func (s *Session) drive(ctx context.Context, c *Call) error {
	if err := c.check(s.driver.ID()); err != nil {
		return s.refused(c, err)
	}
	if c.Kind == CallCommit {
		c.Ops, c.Conditions = cloned(c.Ops), slices.Clone(c.Conditions) // they may be looked at after an abandoned call
	}
	if err := c.By(ctx, s.driver); err != nil {
		return s.failed(c, err)
	}
	return nil
}

// refused is the error of a call that no service can do. It names the key where that is at fault.
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
