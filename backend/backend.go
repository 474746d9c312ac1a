// Package backend is the contract between elector's strategies and a
// coordination service, written for the people who implement it.
//
// A [Backend] opens sessions. A [Session] is a leased identity plus a handful of
// primitives: reads ([Session.Get], [Session.Survey], [Session.List], [Session.Predecessor]
// and the two blocking ones, [Session.Await] and [Session.AwaitList]), one atomic
// write ([Session.Commit]), and [Session.Drop], which removes an entry for good.
// Every primitive must be native and cheap on the service; what all services
// share (trust-window arithmetic, sharing a session, checking keys, turns of
// commits, removing what they left) is written once, beside the interface:
// [Window], [Share], [CheckKey], [Op.Check], [Turns], [Reaper], [Indeterminate].
//
// # Rules for implementers
//
// The suite conformance.TestBackend checks each of these.
//
//  1. Pinned. Everything a Session does, it does in the service's session it was
//     opened with. Once that is over the Session is Lost for good: it never
//     carries on in a new one, and it never revives. A commit that makes an ephemeral
//     entry, or is guarded by one of the session's, is not done after the session's end,
//     however late its request arrives. Others may be, on some services.
//  2. Trust window. [Session.Deadline] is the instant at which the last
//     acknowledged heartbeat was SENT, plus the timeout the server GRANTED, minus
//     a margin, on the monotonic clock. At that instant the session becomes Lost
//     by itself, whether or not the client library has noticed anything.
//  3. Subscribe, then read. No change between a read and a wait is missed.
//  4. In order. What Await returns never shows a later change of the service's
//     history without the earlier changes of the other entries it was asked for. Of
//     the changes of one transaction it may show some and, a moment later, the others,
//     where the service reports them so (ZooKeeper).
//  5. Lost replies. A write whose reply was lost is resolved before Commit
//     returns. Where that cannot be done (ctx ended, session lost), the error is
//     [ErrIndeterminate], never a plain failure. Such a write may yet be done. But once a
//     later commit of the session with an op on one of its keys has succeeded, it never is.
//  6. No ghost. An ephemeral entry whose creation Commit did not report is
//     removed by the session in the background, and dies with it at the latest. So is
//     one whose Drop has failed, for whatever reason. What a session stores for itself
//     does not grow with its commits, and goes with it.
//  7. Incarnations. Guards, Set, Delete and Drop name an incarnation of an entry
//     (Key and Rev). A late one never hits a successor under the same key.
//  8. Foreign data. Keys, values and children that somebody else left in the
//     service never crash, block or mislead.
//  9. Errors are the sentinels below by [errors.Is], with the client's own error
//     reachable by [errors.As] or Is, wrapped once with backend, operation and key.
//  10. No goroutine outlives [Session.Close] by more than the call in flight.
package backend

import (
	"context"
	"fmt"
	"math"
	"time"
)

// A Backend opens sessions with one coordination service. It is safe for
// concurrent use. It must be comparable (in practice: a pointer).
type Backend interface {
	// Open starts a new session. It blocks until the service has granted it, ctx
	// has ended, or all servers have been tried in vain: then the error is
	// ErrUnavailable and the caller may try again. ErrDenied says that trying
	// again is of no use. The caller must Close the session; ctx bounds the call
	// only, not the session's life.
	Open(ctx context.Context, o OpenOptions) (Session, error)

	// Limits tells the session timeouts that Open accepts.
	Limits() Limits

	// String names the backend in logs and errors, for example "zookeeper".
	String() string
}

// OpenOptions are the wishes for a new session.
type OpenOptions struct {
	// TTL is the session timeout asked for: how long after the last heartbeat the
	// service drops the session's entries. Zero means Limits.DefaultTTL. The
	// service may grant another one; what it granted counts (Session.TTL).
	TTL time.Duration
}

// Limits are the session timeouts a backend accepts.
type Limits struct {
	MinTTL, MaxTTL, DefaultTTL time.Duration
}

// State is where a session stands.
type State int

const (
	// Live: in touch with the service.
	Live State = iota + 1
	// Suspended: out of touch. It may recover; until Deadline it is sure to live.
	Suspended
	// Lost: definitely over: expired, closed, or its trust window has passed.
	// Final.
	Lost
)

// String returns the state's name.
func (s State) String() string {
	switch s {
	case Live:
		return "live"
	case Suspended:
		return "suspended"
	case Lost:
		return "lost"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// An Entry is one record in the service.
type Entry struct {
	// Key is the entry's absolute path; see CheckKey.
	Key string
	// Value is the entry's payload. Callers must not change it.
	Value []byte
	// Rev is the entry's creation revision. It is unique per Commit and rises over
	// all entries of the service, restarts of the servers included: Key and Rev
	// name one incarnation. Zero means that there is no entry under Key.
	Rev uint64
	// Version is 1 for a new entry and changes with every write to it, for
	// compare-and-set. Zero means that there is no entry under Key.
	Version uint64
	// Session is the ID of the session the entry dies with; "" means persistent.
	Session string
}

// Exists tells whether e is an entry at all, rather than a key with nothing under it.
func (e Entry) Exists() bool { return e.Rev != 0 }

// Same tells whether e and o are the same incarnation at the same version.
func (e Entry) Same(o Entry) bool {
	return e.Key == o.Key && e.Rev == o.Rev && e.Version == o.Version
}

// Unknown is the entry under key before anybody has looked: it is never Same as
// what is there. Session.Await of it returns at once, subscribed: it is the read
// to use where a wait is likely to follow.
func Unknown(key string) Entry { return Entry{Key: key, Rev: math.MaxUint64} }

// IsUnknown tells whether e was made by Unknown: to wait for it is to read.
func (e Entry) IsUnknown() bool { return e.Same(Unknown(e.Key)) }

// A Listing is what stood in a directory at one moment.
type Listing struct {
	// Dir is the parent key.
	Dir string
	// Keys are those of the enqueued entries directly under Dir, oldest first.
	// Others (created exclusively, put, foreign or malformed ones) are left out. But where
	// a service lists names only (ZooKeeper), somebody's persistent entry that has such a
	// name may be among them until the session has read it: who has to wait for one reads
	// it. Callers must not change it: it may be shared.
	Keys []string
	// Rev tells listings of Dir apart; it is opaque and rises with each change.
	Rev uint64
}

// A Session is a leased identity in the service, and what can be done with it.
// It is safe for concurrent use.
//
// Reads ride out a suspended session: they block until they are answered, ctx
// ends, or the session is lost, and answer with the service's current state as
// seen by this session (never older than what it has been shown before, or what its
// commits were decided by, refused ones too). A new session may begin behind what others of
// its process have seen, where its server is (ZooKeeper). Every
// method but Close returns an error that is ErrSessionLost once the session is
// lost, blocked calls included, and ctx's error once ctx ends.
type Session interface {
	// ID is the service's name for the session. Entry.Session holds it.
	ID() string

	// TTL is the session timeout that the service granted.
	TTL() time.Duration

	// Deadline is the end of the trust window: until then the session is sure to
	// live in the service. It only ever moves forward, and never once reached. It
	// carries a monotonic reading. It does not block and takes no round trip.
	Deadline() time.Time

	// State tells where the session stands. It does not block.
	State() State

	// AwaitState blocks until the state is not prev, and returns it. It returns
	// (Lost, nil) when the session is lost or closed; the error is ctx's only.
	// States in between may be missed; Lost never is.
	AwaitState(ctx context.Context, prev State) (State, error)

	// Get reads the entry under key; ErrNoEntry if there is none.
	Get(ctx context.Context, key string) (Entry, error)

	// Survey reads the entry under key as Get does, with a zero Rev if there is none, and
	// finds the strangers directly under key: entries that a session holds, whoever made
	// them, or that a lock of the service's own client has marked. It returns their keys.
	// known, if not nil, is called with the entry, and returns the key of one directly
	// under it that is no stranger, or "": a service may save a request by it. Of more than
	// a hundred keys under key some may be left out, and so are those that this session may
	// not read: neither is an error.
	Survey(ctx context.Context, key string, known func(Entry) string) (Entry, []string, error)

	// List reads the keys enqueued in dir, oldest first. A dir that does not exist
	// is empty.
	List(ctx context.Context, dir string) (Listing, error)

	// AwaitList blocks until the listing is not known any more, and returns the
	// current one. It wakes every waiter at every change of the directory.
	AwaitList(ctx context.Context, known Listing) (Listing, error)

	// Predecessor returns the youngest entry enqueued in e's directory that is
	// older than e, or the zero Entry when e is the oldest. ErrNoEntry means that
	// e itself is gone. Implementations should not list the directory each time.
	Predecessor(ctx context.Context, e Entry) (Entry, error)

	// Await blocks until at least one of the known entries is not Same as given,
	// and returns what there is of each, in the order given: the zero Rev says
	// gone (or, where it was given with zero Rev, still not there). It subscribes
	// before it reads, so nothing is missed, and keeps rule 4. What it returns may
	// be the state at the instant of the change rather than now. Implementations
	// keep a subscription that has not fired for the next call.
	Await(ctx context.Context, known ...Entry) ([]Entry, error)

	// Commit applies ops if all guards hold: all of them at one instant, or none.
	// It returns an entry per op, in their order (for Delete: what is left, the
	// key alone). ErrGuard says that a guard did not hold, ErrConflict that a Put
	// found another version, ErrExists that Create found the key taken, ErrNoParent
	// that the parent of a Create or Enqueue is gone, ErrUsedUp that the directory of
	// an Enqueue takes no more entries, ErrNoEntry that an entry to
	// Set or Delete is gone, ErrTooLarge that the service does not take that much at
	// once, and ErrIndeterminate that it may or may not have happened. Where several
	// things are wrong, any of them may be reported. Guards without ops ask whether
	// they hold.
	Commit(ctx context.Context, guards []Guard, ops ...Op) ([]Entry, error)

	// Drop deletes an ephemeral entry of this session and returns nil once it is
	// confirmed that this incarnation is gone, whoever removed it. If that fails, because
	// ctx ends first or the service refuses it (ErrDenied, any error of a server), the
	// session goes on in the background until it is gone or the session is lost; the
	// error says that it is not confirmed yet. Drop may be called again: each call looks
	// for itself. Once the session is lost it is ErrSessionLost, though ctx may have ended,
	// too. An entry that is not of this session is refused, and left alone.
	Drop(ctx context.Context, e Entry) error

	// Close ends the session: the service drops all its entries at once where it
	// can be reached, or when the session times out. The session is Lost from the
	// start of the call, and blocked calls return. Close blocks until the
	// session's goroutines are gone or ctx ends; the error says that the service
	// did not confirm. Backends over a network try for some seconds: a link that has
	// just broken may be back. What is lost once it was sent they may leave at that
	// (ZooKeeper). It may be called several times.
	Close(ctx context.Context) error
}
