package elector

import (
	"errors"

	"github.com/elector-go/elector/backend"
)

// Why a term ended: the cause of [Term.Context], to be read with context.Cause
// and compared with errors.Is.
var (
	// ErrResigned: the leader resigned. Its entry is gone, or going.
	ErrResigned = errors.New("resigned")

	// ErrAsked: the leader was asked to go, and Run has told its lead function to stop. It is the
	// cause of that function's ctx; the term lives until the function has returned, and then ends
	// with ErrResigned and ErrAsked.
	ErrAsked = errors.New("asked to go")

	// ErrDeposed: the leader's entry was deleted by somebody else, such as an
	// operator who wants to move leadership. The session lives on. As the error of a
	// write it says that nothing was written, because the term is over.
	ErrDeposed = errors.New("deposed")

	// ErrSessionLost: the session's trust window passed, or the service ended it.
	// The entry is gone, or goes before anyone else can lead.
	ErrSessionLost = backend.ErrSessionLost

	// ErrSuspended: with StepDownOnSuspend, touch with the service was lost.
	ErrSuspended = errors.New("suspended: out of touch with the service")

	// ErrClosed: the elector was closed. Calls on a closed elector return it too.
	ErrClosed = errors.New("elector closed")
)

var (
	// ErrNoLeader: nobody leads the election at the moment.
	ErrNoLeader = errors.New("no leader")

	// ErrStrategyMismatch: the election was founded with another strategy, or its
	// path holds something else. Two strategies on one election could elect two
	// leaders, so this is final: give the election another path, or delete it.
	ErrStrategyMismatch = errors.New("election belongs to another strategy")

	// ErrOccupied: somebody else's candidates stand directly under the election's path, such
	// as those of kazoo's Lock, of `etcdctl elect` or of `consul lock`. The error names them.
	// They and this library's candidates do not see each other, so that each side would
	// have a leader. Give the election another path, or stop them, and delete what is left.
	// It is final for a candidate that enters; one that has entered tries again.
	ErrOccupied = errors.New("somebody else's candidates stand at the election's path")

	// ErrInUse: somebody stands in an election that is to be removed, or something else is
	// in its directory. It goes on.
	ErrInUse = errors.New("election is in use")

	// ErrNoElection: nobody has founded the election yet, as nobody has ever stood in it, or somebody
	// has removed it.
	ErrNoElection = errors.New("no such election")

	// ErrNoCandidate: the candidate that is to lead next does not stand in the election.
	ErrNoCandidate = errors.New("no such candidate")

	// ErrNoTransfer: the strategy cannot make a candidate of one's choice the next leader.
	ErrNoTransfer = errors.New("strategy cannot transfer leadership to a candidate of one's choice")

	// ErrNoDesignation: the strategy does not heed whom an operator designates.
	ErrNoDesignation = errors.New("strategy heeds no designation")

	// ErrTransfer: a candidate stands aside for another that the leader has named to lead next.
	ErrTransfer = errors.New("leadership is transferred to another candidate")

	// ErrUnfit: the application's own check says that it cannot lead: see Config.Fit.
	ErrUnfit = errors.New("not fit")

	// ErrBusy: this elector campaigns already, or leads. One elector is one
	// candidate: make another one for a second candidacy.
	ErrBusy = errors.New("elector already campaigns or leads")

	// ErrInHook: the call comes from a hook, and would have to wait for one. Make it on a
	// goroutine of its own, for which the hook does not wait, or end the campaign's ctx
	// instead. Nothing was done. See Hooks.
	ErrInHook = errors.New("called from a hook, for which it would have to wait: call it on another goroutine")

	// ErrConflict: an entry is not as an op of Term.Commit expects it. Nothing was
	// written.
	ErrConflict = backend.ErrConflict

	// ErrIndeterminate: a write may or may not have happened, or may yet happen.
	ErrIndeterminate = backend.ErrIndeterminate

	// ErrStop, wrapped by the error of a lead function, makes Run resign and
	// return that error instead of campaigning again.
	ErrStop = errors.New("stop running")

	// ErrConfig is what every violation that New reports wraps.
	ErrConfig = errors.New("invalid config")
)
