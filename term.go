package elector

import (
	"context"
	"errors"
	"fmt"

	"github.com/elector-go/elector/backend"
)

// A Term is one spell of leadership. It is safe for concurrent use.
type Term struct {
	c TermConfig
}

// TermConfig is what a Term made with NewTerm does.
type TermConfig struct {
	// Token is the fencing token. Context ends, with a cause, when the term does.
	Token   uint64
	Context context.Context
	// The others do what the methods of Term say.
	Valid    func() bool
	Proclaim func(ctx context.Context, value []byte) error
	Commit   func(ctx context.Context, ops ...Op) ([]backend.Entry, error)
	Guard    func() Guard
	Resign   func(ctx context.Context) error
	// Get may be nil: then it reads through the session of Guard, and whether the term is over it
	// finds out by Valid.
	Get func(ctx context.Context, key string) (backend.Entry, error)
	// Asked may be nil, if nobody ever asks. Else Request has to be set.
	Asked   <-chan struct{}
	Request func() (Request, bool)
	// Prepare may be nil: then it is ErrNoTransfer.
	Prepare func(ctx context.Context, id string) error

	// seat is what Run reports to; nil in a Term that NewTerm makes.
	seat *seat
}

// NewTerm makes a Term for fakes of Elector, and for adapters that put another
// implementation behind it. All fields must be set, but for Get, Asked, Request and Prepare.
func NewTerm(c TermConfig) *Term { return &Term{c} }

// Token is the fencing token: it strictly rises from term to term of an election,
// restarts of all candidates and servers included. Never 0.
func (t *Term) Token() uint64 { return t.c.Token }

// Context lives for as long as the term. It is done before anyone else can lead,
// unless an operator gives the seat away by deleting the leader's entry: then it is
// done when the notice arrives. context.Cause tells why: ErrResigned, ErrDeposed,
// ErrSessionLost, ErrSuspended or ErrClosed, to ask with errors.Is. It keeps the values,
// not the deadline, of the Campaign's context.
func (t *Term) Context() context.Context { return t.c.Context }

// Valid tells whether the term holds at this instant: it compares now with the
// session's trust window, so it is right even in a process that was paused and
// has not run its timers yet. Ask it right before a side effect. It does not
// block. Once false it stays false.
func (t *Term) Valid() bool { return t.c.Valid() }

// Proclaim publishes a new value of the leader. It is fenced as Commit is, with the
// same errors.
func (t *Term) Proclaim(ctx context.Context, value []byte) error { return t.c.Proclaim(ctx, value) }

// Commit writes to the service while this term holds, and only then: the ops and
// the look at the term's claim are one atomic step in the service, so that the
// write of a process that slept through its own deposition is refused. Keys are the
// caller's to choose, but for the election's own; no two ops may have the same key.
// It returns what there is now under each op's key, in their order.
//
// The errors, for errors.Is:
//
//   - ErrDeposed: nothing was written, because the term is over. If that was news,
//     the term has ended now. The cause of its end is wrapped, too.
//   - ErrConflict, backend.ErrNoEntry, backend.ErrNoParent (below an ephemeral entry):
//     nothing was written, because an entry is not as one of the ops needs it. The
//     term goes on.
//   - backend.ErrTooLarge: nothing was sent, because the service does not take as
//     many ops or bytes at once. The error names the limit.
//   - backend.ErrUnavailable: nothing was written, because the service has refused to do
//     anything for a session timeout, or has said nothing for up to three, or has no space.
//     The term goes on.
//   - ErrIndeterminate: the reply was lost, and what became of the write could not be
//     found out before ctx, the session or the term ended. It may yet be done, so that what
//     you read may change. Write to the key again: once that has succeeded, the earlier
//     write is not done any more. A later write waits for what it has to, for a session
//     timeout at most (backend.ErrUnavailable).
//
// It blocks until there is an answer, while out of touch with the service, too: at
// most until ctx or the term ends, or, where the term ends because its entry was
// deleted, until the service has refused it or the session is lost.
func (t *Term) Commit(ctx context.Context, ops ...Op) ([]backend.Entry, error) {
	return t.c.Commit(ctx, ops...)
}

// Get reads what stands under a key; backend.ErrNoEntry if nothing does. What it returns is never older
// than the term's claim: all that earlier leaders have committed is there, and all that Commit has
// returned in this term. Its Version is what CompareAndSet takes. A leader that begins reads its
// state with it.
//
// The errors are those of Commit, as far as they are about reads: it is ErrDeposed, with the cause, if
// the term is over when Get is called or would return, and it names the key. So what it returns was
// there while the term held, by the process's own clock. It is no fence: where the claim has gone and
// nobody has told yet, it may be a successor's. A Commit that goes by what was read finds out.
//
// It takes a read, and in a term in which nothing has been committed yet a question for the claim before
// that, once. It blocks as Commit does. What you have written by a client of your own may be missing on
// ZooKeeper.
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

// Guard returns the condition that Commit puts on its writes, for a transaction of
// your own with the service's native client: see zookeeper.Checks, etcd.Cmps and
// consul.Checks. It does not block.
func (t *Term) Guard() Guard { return t.c.Guard() }

// Resign ends the term and releases the seat. The Context is cancelled first, and
// then the seat is released at once, so call it when the leader's work has
// stopped, as Run does. It blocks until the service has confirmed, or refused, or
// ctx ends. An error says that the seat may not be free yet: the session goes on
// releasing it in the background, and Resign may be called again. It is harmless on a
// term that has ended.
func (t *Term) Resign(ctx context.Context) error { return t.c.Resign(ctx) }

// Transfer makes the candidate with this ID the next leader: it is Prepare and then Resign, at once.
// So call it when the leader's work has stopped, as you would call Resign. An error of Prepare leaves
// the leader leading.
func (t *Term) Transfer(ctx context.Context, id string) error {
	if err := t.Prepare(ctx, id); err != nil {
		return err
	}
	return t.Resign(ctx)
}

// Prepare blocks until the candidate with this ID is next, so that it leads when this term ends. The
// leader leads on, and may work meanwhile. Of several candidates with the ID it is the one that comes
// first in the order of succession, as Elector.Candidates lists them; the leader is none of them.
//
// On an error the term goes on, and the candidates' order may have changed:
//
//   - ErrNoTransfer: the strategy cannot do it.
//   - ErrNoCandidate: no other candidate with the ID stands, or it has gone meanwhile.
//   - ctx's error: it took too long. It names the candidate that stands in between, where that is
//     known. One that is frozen or out of touch, or of an earlier version of this library, does not
//     step aside. So give ctx an end.
//   - an error of package backend.
//
// It is ErrDeposed, with the cause, if the term has ended. It reads all candidates once. Calls take
// turns.
func (t *Term) Prepare(ctx context.Context, id string) error {
	if t.c.Prepare == nil {
		return ErrNoTransfer
	}
	return t.c.Prepare(ctx, id)
}

// Asked is closed when the leader is asked to go: see Ask. If Request.To names a candidate, call Prepare
// while the work goes on, as Run does. Then stop the work, and call Resign, though Prepare has failed.
// Whether to heed it is the leader's choice: the term goes on until then. Nobody is asked twice in a
// term. It stays open if the term ends without.
func (t *Term) Asked() <-chan struct{} { return t.c.Asked }

// Request is what Asked is about; false if nobody has asked. It does not block.
func (t *Term) Request() (Request, bool) {
	if t.c.Request == nil {
		return Request{}, false
	}
	return t.c.Request()
}

// A Guard is the condition that a term holds, for a transaction of your own with the
// service's native client, on any connection. zookeeper.Checks, etcd.Cmps and
// consul.Checks turn its Conditions into what their service compares, and have an example
// each. The memory service has no client but Session: Commit takes Conditions there, as
// on every service.
type Guard struct {
	// Session is the one that the seat belongs to. To read what earlier leaders have committed
	// take Term.Get. Closing it ends the term.
	Session *backend.Session
	// Conditions hold in the service for exactly as long as the claim does.
	Conditions []backend.Condition
}
