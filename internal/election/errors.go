package election

import "errors"

// Package elector has these errors under the same names, and says what they mean.
var (
	ErrAsked         = errors.New("asked to go")
	ErrNoLeader      = errors.New("no leader")
	ErrOccupied      = errors.New("somebody else's candidates stand at the election's path")
	ErrInUse         = errors.New("election is in use")
	ErrNoElection    = errors.New("no such election")
	ErrNoTransfer    = errors.New("strategy cannot transfer leadership to a candidate of one's choice")
	ErrNoDesignation = errors.New("strategy heeds no designation")
)
