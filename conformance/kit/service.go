// Package kit holds the types that a user of the suites fills in, and those that are returned: the service
// under test and its faults, the election under test, and the report. Users know them by the names that
// package conformance gives them. They are here because the rules need them, too, and conformance imports the
// rules.
package kit

import (
	"cmp"
	"testing"
	"time"

	"github.com/elector-go/elector/backend"
)

// A Service is one running coordination service as the suites see it. To test a backend, write one
// function that makes it.
//
// The suites call the functions from the test's goroutine, one at a time. A nil function is something
// that cannot be done to this service: the rules that need it are not applicable. Why must say the
// reason, or they fail.
type Service struct {
	// Name identifies the service in reports: "memory", "zookeeper 3.9.3, ensemble of 3".
	Name string

	// Root is a key that nobody used before, such as "/conformance/x7f3". It need not exist: the suite
	// makes it. A rule writes only below it.
	Root string

	// TTL is the session timeout that the suite asks for where a rule waits for the session's end. On a
	// service that is not Virtual, other sessions have three times as much. On a real server use 10 s:
	// then a machine that stops for a few seconds costs no session that a rule needs. Nothing is retried.
	TTL time.Duration

	// Virtual says that service and clients live in this process and use only the time package. Each rule
	// then runs in a testing/synctest bubble on fake time.
	Virtual bool

	// Slow is how long two round trips may take on a Virtual service, until nothing is on its way any
	// more, and how long a process may take to notice that its link is cut. Zero means no time.
	Slow time.Duration

	// Client starts a new process with connections of its own. The harness ends it with t.Cleanup. The
	// suite closes the sessions that it opened.
	Client func(t testing.TB) *Client

	// Delete removes key and everything below it, as an operator does. It is no error if key does not
	// exist.
	Delete func(key string) error

	// Put writes a persistent entry, as a foreign writer does, under any key that the service can store,
	// whether or not CheckKey accepts it. It makes missing parents, and overwrites the value of an
	// existing entry.
	Put func(key string, value []byte) error

	// UseUp makes the service run out of numbers for entries in dir after left more, for as long as dir
	// exists: then Enqueue there returns ErrUsedUp. UseUp may make the service unavailable for a while.
	// No client is connected when it is called.
	UseUp func(dir string, left int) error

	// Stop stops the whole service and returns when it is gone. Start brings it back with its data and
	// returns when it answers.
	Stop, Start func() error

	// ClientAt is Client for a process that is connected to one member of an ensemble, counted from 0,
	// and to no other until free is called. StopMember kills a member. StartMember brings it back and
	// returns when it answers.
	ClientAt                func(t testing.TB, member int) (c *Client, free func())
	StopMember, StartMember func(member int) error
	// PauseMember freezes a member: its connections stay open, and it does not answer. ResumeMember ends
	// that.
	PauseMember, ResumeMember func(member int) error
	// CutOffMember silently drops all messages between a member and the other members. Its connections
	// stay open, and clients still reach it and the others. MendMember ends that.
	CutOffMember, MendMember func(member int) error
	// Members is the number of members.
	Members int

	// MaxOps and MaxBytes are the limits of one commit, as in ErrTooLarge: ops and bytes. Zero means no
	// limit, and needs a reason in Why as a nil function does.
	MaxOps, MaxBytes int
	// MaxValue is the size of the largest value that an entry can have, in bytes, if that is less than the entry of a
	// candidate with the longest value (elector.MaxValue) needs. Zero means that it is not.
	MaxValue int

	// Watches counts the watches that the service holds now, for all processes.
	Watches func() (int, error)

	// Stored counts the keys that the service stores now, for all clients, whether or not the backend
	// shows them, and the bytes of keys and values. Rules that need it run alone.
	Stored func() (keys, bytes int, err error)

	// Why maps the name of a rule, or of an unset field of Service or Client ("Stop", "LoseReply"), to
	// the reason why it isn't applicable here. The reason under Rest holds for all fields that are not
	// named. The suite prints the reason.
	Why map[string]string
}

// Rest is documented in package conformance.
const Rest = "*"

// Reason returns the reason in Why for a field, or "" if there is none.
func (s *Service) Reason(field string) string { return cmp.Or(s.Why[field], s.Why[Rest]) }

// A Client is one process, and the faults that can happen to it. The functions take effect before they
// return.
type Client struct {
	// Backend is the backend under test, for this process.
	Backend backend.Backend

	// Suspend cuts the process's link until Resume: nothing gets through in either direction, and
	// connecting again fails.
	Suspend, Resume func()

	// Expire makes the service end all sessions of this process now, as if they had timed out. The
	// process hears of it as it would of a real expiry.
	Expire func()

	// Kill ends this process: it sends nothing more, and code that still holds a session of it sees the
	// session as lost. Pending requests still arrive. The sessions time out in the service, unless
	// somebody executes their wills, which Kill returns.
	Kill func() []backend.Will

	// LoseReply arms a fault: the next commit of this process that has an op of this kind is done, but
	// its reply is lost and the link breaks. The process can connect again at once. The fault fires once.
	LoseReply func(kind backend.OpKind)

	// CutReply is LoseReply with a link that stays cut until Resume.
	CutReply func(kind backend.OpKind)

	// LoseRequest arms a fault: the next commit that has an op of this kind never reaches the service,
	// and the link breaks. The process can connect again at once. The fault fires once. Armed twice, it
	// also loses the repeated request.
	LoseRequest func(kind backend.OpKind)

	// DelayRequest arms a fault: the next commit that has an op of this kind arrives d later, and others
	// overtake it. It arrives even if its caller has given up. sent reports whether there was such a
	// commit.
	DelayRequest func(kind backend.OpKind, d time.Duration) (sent func() bool)

	// SlowReplies delays all that the service sends to this process by d from now on. Requests are as
	// fast as before. Zero ends it.
	SlowReplies func(d time.Duration)

	// HoldRequests holds back what this process sends until release is called, attempts to connect
	// included. What the service sends still arrives. After release the requests arrive late, in any
	// state of the process's sessions.
	HoldRequests func() (release func())

	// Throttle makes the service reject all requests of this process from now on, and do none of them,
	// with the answer for a client that asks too much. Pending waits for changes may continue. release
	// ends it, and returns how many requests were rejected.
	Throttle func() (release func() int)

	// Deny makes the service refuse all reads and writes of this process from now on, with the answer for
	// a client whose credentials do not allow them. Heartbeats continue. Pending waits for changes may
	// continue or be refused. release ends it.
	Deny func() (release func())

	// HoldWakeups holds back notices of changes from this process until release is called. Requests and
	// replies continue.
	HoldWakeups func() (release func())

	// Close, if set, ends what the process still has open when all sessions of the backend are closed,
	// such as the native client that the backend was given. The suites look for leaked goroutines after
	// it. Close may be called twice.
	Close func()
}
