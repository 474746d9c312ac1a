// Package backend is the contract between elector's strategies and a coordination service.
//
// A [Backend] opens sessions. A [Session] is a leased identity plus a few primitives: reads ([Session.Get],
// [Session.Survey], [Session.List], [Session.Predecessor] and, for tools, [Session.Children]), two blocking
// reads ([Session.Await] and [Session.AwaitList]), one atomic write ([Session.Commit]), and
// [Session.Discard], which removes an entry for good.
//
// To implement a backend, write a [Driver]: every primitive in it is native and cheap on the service.
// Package backend/driver provides what all services share. To see or change the calls of a session, put a
// [Layer] around it, as [Share] and package backend/meter do.
//
// # Rules for implementers
//
// The suite conformance.TestBackend checks each of these.
//
//  1. Pinned. A Session does everything in the service's session that it was opened with. Once that session
//     is over, the Session is Lost for good: it never continues in a new one, and it never revives. A
//     commit that creates an ephemeral entry, or has a condition on an ephemeral entry of the session, is
//     never applied after the session's end, however late its request arrives. Other commits may be, on
//     some services.
//  2. Trust window. [Session.Deadline] is the instant at which the last acknowledged heartbeat was SENT,
//     plus the timeout the server GRANTED, minus a margin, on the monotonic clock. At that instant the
//     session becomes Lost by itself, whether or not the client library has noticed anything.
//  3. Subscribe, then read. No change between a read and a wait is missed.
//  4. In order. Await never returns a later change of the service's history without the earlier changes of
//     the other entries it was asked for. It may return some changes of one transaction first and the
//     others a moment later, where the service reports them so (ZooKeeper).
//  5. Lost replies. Commit does not return before it has resolved a write whose reply was lost. Where it
//     cannot (ctx ended, session lost, others deleted or overwrote the evidence), the error is
//     [ErrIndeterminate], never a plain failure. The error is also ErrIndeterminate if somebody has since
//     deleted an ephemeral entry that the write created: so an entry that Commit returns after a lost reply
//     still existed then, or was created again. A write that returned ErrIndeterminate may still be
//     applied. Once a later commit of the session with an op on one of its keys has succeeded, it can no
//     longer be.
//  6. No ghost. The session removes in the background an ephemeral entry whose creation Commit did not
//     report; the entry dies with the session at the latest. The same holds for an entry whose Discard
//     failed, for any reason. What a session stores for itself does not grow with its commits, and goes
//     with it.
//  7. Incarnations. Conditions, Update, Delete and Discard name an incarnation of an entry (Key and Rev). A
//     late one never hits a successor under the same key.
//  8. Foreign data. Keys, values and children of others never crash, block or mislead.
//  9. Errors are the sentinels below by [errors.Is]; the client's own error is reachable by [errors.As] or
//     Is. The Session wraps errors once, with backend, operation and key; the Backend wraps those of Open.
//  10. Wills, if supported. Execute returns nil when the service has confirmed that the will's session is
//     over, however often it is executed. It ends no other session.
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
	// Open starts a new session. It blocks until the service grants it, ctx ends, or all servers have been
	// tried without success; then the error is ErrUnavailable and the caller may try again. ErrDenied means
	// that trying again does not help. The caller must Close the session; ctx bounds the call only, not the
	// session's life.
	Open(ctx context.Context, o OpenOptions) (*Session, error)

	// Limits returns the session timeouts that Open accepts and the limit on waits.
	Limits() Limits

	// String returns the backend's name for logs and errors, for example "zookeeper".
	String() string
}

// OpenOptions are the options of a new session.
type OpenOptions struct {
	// TTL is the requested session timeout: how long after the last heartbeat the service drops the
	// session's entries. Zero means Limits.DefaultTTL. The service may grant another one (Session.TTL).
	TTL time.Duration
}

// Limits are the limits of a backend.
type Limits struct {
	// The session timeouts that Open accepts.
	MinTTL, MaxTTL, DefaultTTL time.Duration
	// Waits is how many entries and directories one host may await at once by default, all its processes
	// together. Zero means no limit.
	Waits int
}

// State is the state of a session.
type State int

const (
	// Live: in touch with the service.
	Live State = iota + 1
	// Suspended: out of touch. The session may recover; until Deadline it is certain to be alive.
	Suspended
	// Lost: certainly over: expired, closed, or past its trust window. Final.
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
	// all entries of the service, even across restarts of the servers. Key and Rev name one incarnation.
	// Zero means that there is no entry under Key.
	Rev uint64
	// Version is 1 for a new entry and changes with every write to it, for
	// compare-and-set. Zero means that there is no entry under Key.
	Version uint64
	// Session is the ID of the session the entry dies with; "" means persistent.
	Session string
}

// Exists reports whether e is an entry, rather than a key with nothing under it.
func (e Entry) Exists() bool { return e.Rev != 0 }

// Is reports whether e and o are the same incarnation, at any version. If both have a Session, different
// Sessions mean different incarnations, even with the same Rev, as after a restore from a backup.
func (e Entry) Is(o Entry) bool {
	return e.Key == o.Key && e.Rev == o.Rev && (e.Session == o.Session || e.Session == "" || o.Session == "")
}

// Same reports whether e and o are the same incarnation at the same version.
func (e Entry) Same(o Entry) bool { return e.Is(o) && e.Version == o.Version }

// Unknown returns the entry under key before anybody has read it: it is never Same as the entry that is
// there. Session.Await of it returns at once, subscribed: use it for a read before a likely wait.
func Unknown(key string) Entry { return Entry{Key: key, Rev: math.MaxUint64} }

// IsUnknown reports whether Unknown made e. To wait for such an entry is to read it.
func (e Entry) IsUnknown() bool { return e.Same(Unknown(e.Key)) }

// A Listing is the content of a directory at one moment.
type Listing struct {
	// Dir is the parent key.
	Dir string
	// Keys are the keys of the enqueued entries directly under Dir, oldest first. Other keys (created
	// exclusively, put, foreign or malformed) are left out. But if a service lists names only (ZooKeeper),
	// a foreign persistent entry with such a name may be included until the session has read it: a caller
	// that has to wait for an entry reads it. Callers must not change Keys: the slice may be shared.
	Keys []string
	// Rev tells listings of Dir apart. It is opaque and rises with each change.
	Rev uint64
}
