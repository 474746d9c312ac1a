// Package backend is the contract between elector's strategies and a
// coordination service.
//
// A [Backend] opens sessions. A [Session] is a leased identity plus a handful of
// primitives: reads ([Session.Get], [Session.Survey], [Session.List], [Session.Predecessor], for
// tools [Session.Children], and the two blocking ones, [Session.Await] and [Session.AwaitList]), one atomic
// write ([Session.Commit]), and [Session.Discard], which removes an entry for good.
//
// Whoever implements a backend writes a [Driver], in which every primitive is native and cheap
// on the service, and takes what all services share from package backend/driver. Whoever wants
// to see or change what passes puts a [Layer] around sessions; [Share] is one, and package
// backend/meter.
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
//     returns. Where that cannot be done (ctx ended, session lost, others have deleted or
//     written over what could tell), the error is [ErrIndeterminate], never a plain failure.
//     So it is where somebody has since deleted an ephemeral entry that the write made: what
//     Commit returns then still stood, or was made once more. A write that is
//     ErrIndeterminate may yet be done. But once a later commit of the session with an op on
//     one of its keys has succeeded, it never is.
//  6. No ghost. An ephemeral entry whose creation Commit did not report is
//     removed by the session in the background, and dies with it at the latest. So is
//     one whose Discard has failed, for whatever reason. What a session stores for itself
//     does not grow with its commits, and goes with it.
//  7. Incarnations. Conditions, Update, Delete and Discard name an incarnation of an entry
//     (Key and Rev). A late one never hits a successor under the same key.
//  8. Foreign data. Keys, values and children that somebody else left in the
//     service never crash, block or mislead.
//  9. Errors are the sentinels below by [errors.Is], with the client's own error
//     reachable by [errors.As] or Is. The Session wraps them once with backend, operation and key;
//     those of Open the Backend wraps.
//  10. Wills, where there are any. Execute returns nil when the service has confirmed that the
//     session of the will is over, however often it is executed; it ends no other session.
//  11. No goroutine outlives [Session.Close] by more than the call in flight.
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
	Open(ctx context.Context, o OpenOptions) (*Session, error)

	// Limits tells the session timeouts that Open accepts, and how much may be awaited.
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

// Limits are the limits of a backend.
type Limits struct {
	// The session timeouts that Open accepts.
	MinTTL, MaxTTL, DefaultTTL time.Duration
	// Waits is how many entries and directories the service lets one host await at once, by default and
	// for all its processes together. Zero means any number.
	Waits int
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
	// Rev is the entry's creation revision. It is unique per Commit, whose entries share it, and rises over
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

// Is tells whether e and o are the same incarnation, at whatever version. Sessions that differ, where both
// have one, tell two incarnations with one Rev apart: a service that was restored from a backup makes them.
func (e Entry) Is(o Entry) bool {
	return e.Key == o.Key && e.Rev == o.Rev && (e.Session == o.Session || e.Session == "" || o.Session == "")
}

// Same tells whether e and o are the same incarnation at the same version.
func (e Entry) Same(o Entry) bool { return e.Is(o) && e.Version == o.Version }

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
