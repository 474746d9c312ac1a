package strategy

import "errors"

// Errors of strategies, to compare with errors.Is. Package elector has them under the same names.
var (
	// ErrStrategyMismatch: the election was founded with another strategy, or its path holds something
	// else. Two strategies on one election could elect two leaders, so this is final.
	ErrStrategyMismatch = errors.New("election belongs to another strategy")

	// ErrNoCandidate: the candidate named to lead next does not stand in the election.
	ErrNoCandidate = errors.New("no such candidate")

	// ErrDeposed: the seat is another's.
	ErrDeposed = errors.New("deposed")

	// ErrTransfer: a candidate stands aside for the candidate that the leader has named to lead next.
	ErrTransfer = errors.New("leadership is transferred to another candidate")

	// ErrConfig: something in the candidate's configuration is wrong.
	ErrConfig = errors.New("invalid config")
)
