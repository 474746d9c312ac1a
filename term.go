package elector

import (
	"context"
	"errors"
	"fmt"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
)

// A Term is one period of leadership. It is safe for concurrent use.
type Term struct {
	c TermConfig
}

// TermConfig is the implementation of a Term made with NewTerm.
type TermConfig struct {
	// Token is the fencing token. Context ends, with a cause, when the term ends.
	Token   uint64
	Context context.Context
	// The other functions do what the methods of Term say.
	Valid    func() bool
	Proclaim func(ctx context.Context, value []byte) error
	Commit   func(ctx context.Context, writes ...Write) ([]backend.Entry, error)
	Guard    func() Guard
	Resign   func(ctx context.Context) error
	// Get may be nil: then Term.Get reads through the session of Guard, and calls Valid to find out
	// whether the term is over.
	Get func(ctx context.Context, key string) (backend.Entry, error)
	// Asked may be nil if nobody ever asks. Otherwise Request must be set.
	Asked   <-chan struct{}
	Request func() (Request, bool)
	// Transfer makes the candidate with the ID the next leader, and then returns what resign returns: resign
	// is the rest of Term.Transfer. It may be nil: then Term.Transfer returns ErrNoTransfer.
	Transfer func(ctx context.Context, id string, resign func() error) error

	// tenure is what Run reports to; nil in a Term that NewTerm made for a user.
	tenure *tenure
}

// NewTerm makes a Term for fakes of Elector, and for adapters around another implementation. All fields
// except Get, Asked, Request and Transfer must be set.
func NewTerm(c TermConfig) *Term { return &Term{c} }

// Token returns the fencing token. It rises strictly from term to term of an election, even across
// restarts of all candidates and servers. It is never 0.
func (t *Term) Token() uint64 { return t.c.Token }

// Context returns a context that lives as long as the term. It is done before anyone else can lead, unless
// an operator gives the seat away by deleting the leader's entry: then it is done when the notice arrives.
// context.Cause returns the reason: ErrResigned, ErrDeposed, ErrSessionLost, ErrSuspended or ErrClosed, to
// compare with errors.Is. It keeps the values of Campaign's ctx, but not its deadline.
func (t *Term) Context() context.Context { return t.c.Context }

// Valid reports whether the term holds at this instant. It compares the current time with the session's
// trust window, so it is right even in a process that was paused and has not run its timers yet. Call it
// right before a side effect. It does not block. Once false it stays false.
func (t *Term) Valid() bool { return t.c.Valid() }

// Proclaim publishes a new value of the leader. It is fenced like Commit, and returns the same errors.
func (t *Term) Proclaim(ctx context.Context, value []byte) error { return t.c.Proclaim(ctx, value) }

// Commit writes to the service only while this term holds. The service checks the term's claim and applies
// the writes in one atomic step, so it refuses the write of a process that was paused while it was deposed.
// The caller may choose any keys except the election's own; no two writes may have the same key. Commit
// returns the resulting entry of each write, in their order.
//
// The errors, for errors.Is:
//
//   - ErrDeposed: nothing was written, because the term is over. If the term had not ended yet, it has
//     now. The error also wraps the cause of the term's end.
//   - ErrConflict, backend.ErrNoEntry, backend.ErrNoParent (below an ephemeral entry): nothing was
//     written, because an entry is not as one of the writes needs it. The term continues.
//   - backend.ErrTooLarge: nothing was sent, because the service does not accept as many writes or bytes at
//     once. The error names the limit.
//   - backend.ErrUnavailable: nothing was written, because the service refused all requests for one
//     session timeout, or did not answer for up to three, or has no space. The term continues.
//   - ErrIndeterminate: the reply was lost, and Commit could not find out the outcome of the write before
//     ctx, the session or the term ended. The write may still be applied later, so what you read may
//     change. Write to the key again: once that has succeeded, the earlier write can no longer be applied.
//     A later write waits as long as necessary, for a session timeout at most (backend.ErrUnavailable).
//
// It blocks until there is an answer, even while out of touch with the service: at most until ctx or the
// term ends. If the term ends because its entry was deleted, Commit blocks until the service has refused
// the write or the session is lost.
func (t *Term) Commit(ctx context.Context, writes ...Write) ([]backend.Entry, error) {
	return t.c.Commit(ctx, writes...)
}

// Get reads the entry at a key; it returns backend.ErrNoEntry if there is none. The entry is never older
// than the term's claim: it includes all that earlier leaders committed, and all that Commit has returned
// in this term. CompareAndSet takes its Version. A new leader reads its state with Get.
//
// The errors are those of Commit that apply to reads, and they name the key. Get returns ErrDeposed, with
// the cause, if the term is over when Get is called or about to return. So, by the process's own clock,
// the entry was there while the term held. Get is no fence: if the claim is gone and no notice has arrived
// yet, the entry may be a successor's. A Commit that depends on what was read detects that.
//
// It takes one read. In a term without any commit yet, it first checks the claim, once. It blocks as
// Commit does. On ZooKeeper, writes made through a client of your own may be missing.
func (t *Term) Get(ctx context.Context, key string) (backend.Entry, error) {
	if t.c.Get != nil {
		return t.c.Get(ctx, key)
	}
	s := t.c.Guard().Session
	if s == nil {
		return backend.Entry{}, fmt.Errorf("elector: get %s: the term has no session: %w", key, errors.ErrUnsupported)
	}
	e, err := s.Get(ctx, key)
	if !t.Valid() {
		return backend.Entry{}, fmt.Errorf("elector: get %s: %w", key, deposed(context.Cause(t.Context()), err))
	}
	return e, err
}

// Guard returns the condition that Commit puts on its writes, for a transaction of your own with the
// service's native client: see zookeeper.Checks, etcd.Cmps and consul.Checks. It does not block.
func (t *Term) Guard() Guard { return t.c.Guard() }

// Resign ends the term and releases the seat. It cancels the Context first and releases the seat at once
// after that, so call it when the leader's work has stopped, as Run does. It blocks until the service has
// confirmed or refused, or ctx ends. An error means that the seat may not be free yet: the session
// continues to release it in the background, and Resign may be called again. If ctx ends with the term, as a
// lead function's ctx does, Resign blocks for up to two seconds. Calling it on a term that has ended is
// harmless.
func (t *Term) Resign(ctx context.Context) error { return t.c.Resign(ctx) }

// Transfer makes the candidate with this ID the next leader, and resigns. It blocks until the candidate is
// next, so that it leads when this term ends; meanwhile the leader continues to lead, and may work. Then it
// calls stop, which must block until the work has stopped, and at once resigns as Resign does. A nil stop
// means that no work runs. If stop returns an error, because the work may still run, Transfer returns that
// error and does not resign: the leader continues to lead, and the candidate remains next.
//
// Of several candidates with the ID, other than the leader, Transfer chooses the first in the order of
// succession, as Elector.Candidates lists them.
//
// On an error before it calls stop the term continues, and the candidates' order may have changed:
//
//   - ErrNoTransfer: the strategy cannot do it.
//   - ErrNoCandidate: no other candidate with the ID stands, or it has gone meanwhile.
//   - ctx's error: it took too long. The error names the candidate in between, if known. A candidate that
//     is frozen, out of touch, or of an earlier version of this library does not step aside. So give ctx a
//     deadline.
//   - an error of package backend.
//
// If the term has ended, the error is ErrDeposed, with the cause. Transfer reads all candidates once.
// Concurrent calls make their candidates next one after the other: the last one is next.
func (t *Term) Transfer(ctx context.Context, id string, stop func() error) error {
	if t.c.Transfer == nil {
		return ErrNoTransfer
	}
	return t.c.Transfer(ctx, id, func() error {
		if stop != nil {
			if err := stop(); err != nil {
				return err
			}
		}
		return t.Resign(ctx)
	})
}

// Asked returns a channel that is closed when the leader is asked to go: see inspect.Inspector.Ask. If
// Request.To names a candidate, call Transfer; otherwise, or if Transfer fails, stop the work and call
// Resign. Run does all this. The leader may ignore the request: the term continues until it resigns. A
// term gets at most one request. The channel stays open if the term ends without one.
func (t *Term) Asked() <-chan struct{} { return t.c.Asked }

// Request returns the request that closed Asked, or false if there is none. It does not block.
func (t *Term) Request() (Request, bool) {
	if t.c.Request == nil {
		return Request{}, false
	}
	return t.c.Request()
}

// A Request asks a leader to go: see inspect.Inspector.Ask. It applies only to the term that it was written in.
type Request struct {
	// By is who asks, and Why is the reason: for people, in the leader's log and hooks.
	By  string `json:"by,omitempty"`
	Why string `json:"why,omitempty"`
	// To is the ID of the candidate that should lead next, or "" for any: see Term.Transfer.
	To string `json:"to,omitempty"`
}

// String returns, for example, `by "anna": "deploy"`. It quotes the texts because somebody else wrote
// them.
func (r Request) String() string { return layout.Request(r).String() }

// A Guard is the condition that a term holds, for a transaction of your own with the service's native
// client, on any connection. zookeeper.Checks, etcd.Cmps and consul.Checks convert its Conditions for
// their service; each has an example. The memory service has no client except Session; there, as on every
// service, Commit takes Conditions.
type Guard struct {
	// Session is the session that the seat belongs to. Closing it ends the term. To read what earlier
	// leaders have committed, use Term.Get.
	Session *backend.Session
	// Conditions hold in the service exactly as long as the claim does.
	Conditions []backend.Condition
}
