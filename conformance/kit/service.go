// Package kit holds what a user of the suites fills in, and what comes back: the service under
// test, with what it can be made to do, the election under test, and the report. Package
// conformance has all of it under the same names, so that it is the only import you need; here
// stand the fields. It is a package of its own as the rules need these types, too, and are
// internal: an alias of an internal type would show no fields.
package kit

import (
	"cmp"
	"testing"
	"time"

	"github.com/elector-go/elector/backend"
)

// A Service is one running coordination service as the suites see it. Whoever
// tests a backend writes one function that makes it.
//
// The functions are called from the test's goroutine, and from no other at the
// same time. Those that are nil are things this service cannot be made to do: the
// rules that need them are not applicable, and Why must say for what reason, or
// they fail.
type Service struct {
	// Name tells services apart in reports: "memory", "zookeeper 3.9.3, ensemble of 3".
	Name string

	// Root is a key that nobody used before, such as "/conformance/x7f3". Nothing
	// need be there: the suite makes it. All that a rule writes is below it.
	Root string

	// TTL is the session timeout that the suite asks for where a rule waits for the session's end.
	// On a service that is not Virtual other sessions have three times as much. On a real server
	// take 10 s: a machine that stands still for a few seconds then costs no session that a rule
	// needs. Nothing is tried again.
	TTL time.Duration

	// Virtual says that service and clients live in this process, on the time
	// package alone: each rule then runs in a testing/synctest bubble on fake time.
	Virtual bool

	// Slow is how long what is on its way may take on a Virtual service, there and back, once
	// over again, until all is quiet, and how long a process may take to notice that its link is
	// cut. Zero: that takes no time.
	Slow time.Duration

	// Client starts a new process with connections of its own. The harness ends it
	// with t.Cleanup; the sessions that it opened are closed by the suite.
	Client func(t testing.TB) *Client

	// Delete is an operator who removes key and all below it. A key that does not
	// exist is no error.
	Delete func(key string) error

	// Put is a foreign writer who puts a persistent entry under any key that the
	// service can store, whether or not CheckKey likes it, and makes what is
	// missing above it. If there is one already, its value is overwritten.
	Put func(key string, value []byte) error

	// UseUp has the service have numbers for so many more entries in dir, and no more
	// after that for as long as dir stands: then Enqueue there is ErrUsedUp. It may take
	// the service away for a while: nobody is in touch with it when it is called.
	UseUp func(dir string, left int) error

	// Stop takes the whole service away and returns when it is gone. Start brings
	// it back with its data and returns when it answers.
	Stop, Start func() error

	// ClientAt is Client for a process that is connected to one member of an
	// ensemble, from 0, and to no other until free is called. StopMember kills a
	// member; StartMember brings it back and returns when it answers.
	ClientAt                func(t testing.TB, member int) (c *Client, free func())
	StopMember, StartMember func(member int) error
	// PauseMember freezes a member: its connections stay, and nobody answers.
	// ResumeMember has it go on.
	PauseMember, ResumeMember func(member int) error
	// CutOffMember drops silently all that a member and the others send to each other. Its
	// connections stay, and clients still reach it and the others. MendMember ends that.
	CutOffMember, MendMember func(member int) error
	// Members is how many there are.
	Members int

	// MaxOps and MaxBytes are what one commit may have, as ErrTooLarge names it: ops,
	// and bytes. Zero is no limit, and needs a reason in Why as a nil function does.
	MaxOps, MaxBytes int

	// Watches counts the watches that the service has for all processes now.
	Watches func() (int, error)

	// Stored counts the keys that the service has now, for all clients and whether or not
	// the backend shows them, and the bytes of keys and values. Rules that need it are tried alone.
	Stored func() (keys, bytes int, err error)

	// Why maps the name of a rule, or of a field of Service or Client that is not set
	// ("Stop", "LoseReply"), to the reason why it isn't applicable here. That of Rest is
	// for all fields that are not named. The suite prints it.
	Why map[string]string
}

// Rest stands in Service.Why for all that cannot be done to the service and is not named there, as while one writes a
// backend: Why: {kit.Rest: "no faults yet"}.
const Rest = "*"

// Reason is the reason of Why for a field, "" if there is none.
func (s *Service) Reason(field string) string { return cmp.Or(s.Why[field], s.Why[Rest]) }

// A Client is one process, and what can happen to it. The functions take effect
// before they return.
type Client struct {
	// Backend is the one under test, for this process.
	Backend backend.Backend

	// Suspend cuts the process's link: nothing gets through in either direction,
	// and connecting anew fails, until Resume.
	Suspend, Resume func()

	// Expire makes the service end all sessions of this process now, as if they
	// had timed out. The process hears of it as it would of a real expiry.
	Expire func()

	// Kill is the death of this process: it sends nothing more, and its sessions are lost to whoever
	// still holds one. What is under way arrives. The service has its sessions time out, unless
	// somebody executes their wills, which it returns.
	Kill func() []backend.Will

	// LoseReply arms a fault: the next commit of this process that has an op of this
	// kind is done, but its reply is lost and the link breaks; it can be made anew at
	// once. It fires once.
	LoseReply func(kind backend.OpKind)

	// CutReply is LoseReply with a link that stays cut until Resume.
	CutReply func(kind backend.OpKind)

	// LoseRequest arms a fault: the next commit that has an op of this kind never
	// gets to the service, and the link breaks; it can be made anew at once. It
	// fires once; armed twice it loses what is sent again, too.
	LoseRequest func(kind backend.OpKind)

	// DelayRequest arms a fault: the next commit that has an op of this kind is on its way for d
	// longer, while others overtake it. It is delivered whatever has become of its caller. sent
	// tells whether there was one.
	DelayRequest func(kind backend.OpKind, d time.Duration) (sent func() bool)

	// SlowReplies has all that the service sends to this process arrive that much later, from
	// now on: requests go on as fast as before. Zero ends it.
	SlowReplies func(d time.Duration)

	// HoldRequests keeps what this process sends, while what the service sends goes on, until
	// release is called: then it is delivered, late, whatever has become of the process's
	// sessions. Connecting anew is kept, too.
	HoldRequests func() (release func())

	// Throttle has the service turn away all that this process asks from now on, and do none of
	// it, with the answer that it gives to one who asks for too much. What waits for changes may
	// go on. release ends it, and returns how many requests there were.
	Throttle func() (release func() int)

	// Deny has the service refuse all that this process asks to read or to write from now on, and
	// do none of it, with the answer that it gives to one whose credentials do not allow it.
	// Heartbeats go on. What waits for changes may go on, or be refused. release ends it.
	Deny func() (release func())

	// HoldWakeups keeps notices of changes from this process, while requests and
	// replies go on, until release is called.
	HoldWakeups func() (release func())

	// Close, if it is set, ends what the process itself has open when all sessions of
	// the backend are closed, such as the native client that the backend was given.
	// The suites look for goroutines that are left after it. It may be called twice.
	Close func()
}
