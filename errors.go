package elector

import (
	"errors"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/strategy"
)

// Causes of a term's end, as context.Cause returns them for [Term.Context]. Compare with errors.Is.
var (
	// ErrResigned: the leader resigned. Its entry is gone, or going.
	ErrResigned = errors.New("resigned")

	// ErrAsked: the leader was asked to go, and Run has told its lead function to stop. It is the cause of
	// that function's ctx; the term lives until the function returns, and then ends with ErrResigned and
	// ErrAsked.
	ErrAsked = election.ErrAsked

	// ErrDeposed: somebody else deleted the leader's entry, for example an operator who wants to move
	// leadership. The session lives on. As the error of a write, it means that nothing was written,
	// because the term is over.
	ErrDeposed = strategy.ErrDeposed

	// ErrSessionLost: the session's trust window passed, or the service ended the session. The entry is
	// gone, or goes before anyone else can lead.
	ErrSessionLost = backend.ErrSessionLost

	// ErrSuspended: with StepDownOnSuspend, the link to the service was lost.
	ErrSuspended = errors.New("suspended: out of touch with the service")

	// ErrClosed: the elector was closed. Calls on a closed elector also return it.
	ErrClosed = errors.New("elector closed")
)

var (
	// ErrNoLeader: nobody leads the election at the moment; from inspect.Inspector.Ask also: the leader that was to
	// be asked has gone.
	ErrNoLeader = election.ErrNoLeader

	// ErrStrategyMismatch: the election was founded with another strategy, or its path holds something
	// else. Two strategies on one election could elect two leaders, so this is final: use another path for
	// the election, or delete it.
	ErrStrategyMismatch = strategy.ErrStrategyMismatch

	// ErrOccupied: somebody else's candidates stand directly under the election's path, for example those
	// of kazoo's Lock, `etcdctl elect` or `consul lock`. The error names them. They and this library's
	// candidates do not see each other, so each side would have a leader. Use another path for the
	// election, or stop them and delete what is left. It is final for a candidate that enters; a candidate
	// that has entered tries again.
	ErrOccupied = election.ErrOccupied

	// ErrInUse: the election cannot be removed, because somebody stands in it, or its directory holds
	// something else. The election continues.
	ErrInUse = election.ErrInUse

	// ErrNoElection: nobody has stood in the election yet, so that it is not founded, or somebody has
	// removed it.
	ErrNoElection = election.ErrNoElection

	// ErrNoCandidate: the candidate named to lead next does not stand in the election.
	ErrNoCandidate = strategy.ErrNoCandidate

	// ErrNoTransfer: the strategy cannot make a chosen candidate the next leader.
	ErrNoTransfer = election.ErrNoTransfer

	// ErrNoDesignation: the strategy ignores the candidate that an operator designates.
	ErrNoDesignation = election.ErrNoDesignation

	// ErrTransfer: a candidate stands aside for the candidate that the leader has named to lead next.
	ErrTransfer = strategy.ErrTransfer

	// ErrUnfit: the application's own check says that it cannot lead: see Config.Fit.
	ErrUnfit = errors.New("not fit")

	// ErrBusy: this elector already campaigns or leads. One elector is one candidate: use another elector
	// for a second candidacy.
	ErrBusy = errors.New("elector already campaigns or leads")

	// ErrInHook: the call comes from a hook, and would have to wait for a hook. Make it on another
	// goroutine that the hook does not wait for, or end the campaign's ctx instead. Nothing was done. See
	// Hooks.
	ErrInHook = errors.New("called from a hook, for which it would have to wait: call it on another goroutine")

	// ErrConflict: an entry is not as a write of Term.Commit expects it. Nothing was written.
	ErrConflict = backend.ErrConflict

	// ErrIndeterminate: a write may or may not have happened, or may still happen.
	ErrIndeterminate = backend.ErrIndeterminate

	// ErrStop, if a lead function's error wraps it, makes Run resign and return that error instead of
	// campaigning again.
	ErrStop = errors.New("stop running")

	// ErrConfig is wrapped by every violation that New reports.
	ErrConfig = strategy.ErrConfig
)
