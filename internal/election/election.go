// Package election is what an election has in the service besides the entries of its candidates: the record at
// its path and the directory that the record names. It finds and founds elections, gives them another
// directory, and changes or removes them for operators. Electors use it, and package inspect.
package election

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
	"github.com/elector-go/elector/strategy"
)

// An Election is the election at a path, as those see it who use its strategy.
type Election struct {
	Path     string
	Strategy strategy.Strategy
	Foreign  bool // the strategy has a CustomLayout, and keeps no record

	// Waits, if set, is called when a campaign begins to wait until nobody stands in a directory, or leads in
	// it, and why: the directory takes no more entries, or is gone.
	Waits func(dir string, why error)
}

// New returns the election at a path. It reads nothing.
func New(path string, by strategy.Strategy) *Election {
	_, foreign := by.(strategy.CustomLayout)
	return &Election{Path: path, Strategy: by, Foreign: foreign}
}

// CatchUp makes a new session read at least what was there when it was opened.
func (e *Election) CatchUp(ctx context.Context, s *backend.Session) error {
	key := e.Path
	if layout, is := e.Strategy.(strategy.CustomLayout); is {
		key = layout.Landmark(key) // the path may be "/", where no entry can be
	}
	return s.CatchUp(ctx, key)
}

// Enter returns the election's directory. It founds the election if there is none, and fails if somebody else's
// candidates stand there.
func (e *Election) Enter(ctx context.Context, s *backend.Session) (dir string, err error) {
	// A candidate that is overtaken finds the other's record when it reads again. If that does not help,
	// something else is at the path, and the campaign backs off.
	for try := 1; ; try++ {
		dir, record, err := e.Find(ctx, s)
		if err == nil && dir == "" {
			dir, err = e.found(ctx, s, record)
			if overtaken(err) && try < 3 {
				continue
			}
		}
		return dir, err
	}
}

// Find returns the election's directory, "" if it is not founded, and the entry at its path, which holds
// its record. It fails if somebody else's candidates stand there.
func (e *Election) Find(ctx context.Context, s *backend.Session) (dir string, entry backend.Entry, err error) {
	if e.Foreign {
		return e.Path, backend.Entry{}, nil
	}
	entry, strangers, err := s.Survey(ctx, e.Path, e.known)
	if err == nil {
		dir, err = e.recorded(entry)
	}
	if err == nil {
		err = occupied(strangers)
	}
	if err != nil {
		return "", entry, err
	}
	return dir, entry, nil
}

// Read is Find without a look for strangers, which do not prevent reads.
func (e *Election) Read(ctx context.Context, s *backend.Session) (dir string, entry backend.Entry, err error) {
	if e.Foreign {
		return e.Path, backend.Entry{}, nil
	}
	entry, err = s.Get(ctx, e.Path)
	if errors.Is(err, backend.ErrNoEntry) {
		return "", backend.Entry{Key: e.Path}, nil
	}
	if err == nil {
		dir, err = e.recorded(entry)
	}
	return dir, entry, err
}

// recorded returns the directory that the entry at the election's path names, or "" if the entry has no
// record.
func (e *Election) recorded(entry backend.Entry) (dir string, err error) {
	if entry.Session != "" {
		return "", fmt.Errorf("%w: its path is somebody's ephemeral entry", strategy.ErrStrategyMismatch)
	}
	if len(entry.Value) == 0 {
		// An empty entry may exist as the parent of others.
		return "", nil
	}
	record, err := layout.DecodeRecord(entry.Value)
	if err != nil {
		return "", fmt.Errorf("%w: %w", strategy.ErrStrategyMismatch, err)
	}
	if name := e.Strategy.Name(); record.Strategy != name {
		return "", fmt.Errorf("%w: it was founded with %.100q, not with %q", strategy.ErrStrategyMismatch, record.Strategy, name)
	}
	return e.dir(record), nil
}

// known returns the directory that the entry at the election's path names, if this candidate would enter
// it. It needs no look, because nobody holds it.
func (e *Election) known(entry backend.Entry) string {
	dir, _ := e.recorded(entry) // the candidate checks the error when it enters
	return dir
}

func (e *Election) dir(r layout.Record) string { return e.Path + "/" + r.Dir }

// found writes the record over the entry and makes the directory in one step; see overtaken.
func (e *Election) found(ctx context.Context, s *backend.Session, entry backend.Entry) (dir string, err error) {
	record := layout.NewRecord(e.Strategy.Name())
	if old, err := layout.DecodeRecord(entry.Value); err == nil {
		record.Designated = old.Designated // the directory is another one, but the election is the same
	}
	var guards []backend.Condition
	if entry.Exists() {
		// Versions start again with each incarnation: without the condition, this could overwrite the
		// record of an election that was deleted and founded again.
		guards = append(guards, backend.IfExists(entry))
	}
	_, err = s.Commit(ctx, guards,
		backend.CompareAndSet(e.Path, record.Encode(), entry.Version),
		backend.CompareAndSet(e.dir(record), nil, 0))
	return e.dir(record), err
}

// overtaken reports whether another candidate founded the election first.
func overtaken(err error) bool {
	return errors.Is(err, backend.ErrCondition) || errors.Is(err, backend.ErrConflict)
}

// Leader reads who leads in a directory. dir is "" if there is none.
func (e *Election) Leader(ctx context.Context, s *backend.Session, dir string) (leader strategy.Leader, err error) {
	if dir == "" {
		return strategy.Leader{}, ErrNoLeader
	}
	err = ErrNoLeader
	for leader, err = range e.Strategy.Observe(ctx, s, dir) {
		break // the first is the current one
	}
	if err == nil && leader.Vacant() {
		err = ErrNoLeader
	}
	return leader, err
}

// Transferrer returns the strategy as a Transferrer, if it is one.
func (e *Election) Transferrer() (strategy.Transferrer, error) {
	if t, is := e.Strategy.(strategy.Transferrer); is {
		return t, nil
	}
	return nil, fmt.Errorf("strategy %q: %w", e.Strategy.Name(), ErrNoTransfer)
}

// Heir finds the candidate that should lead after the leader that holds seat: the first in line with the ID.
func (e *Election) Heir(ctx context.Context, s *backend.Session, dir string, seat backend.Entry, id string) (strategy.Candidate, error) {
	if id == "" { // an entry that is not of this library's candidates has an empty ID
		return strategy.Candidate{}, fmt.Errorf("%w: the ID is empty", strategy.ErrNoCandidate)
	}
	all, err := e.Strategy.Candidates(ctx, s, dir)
	if err != nil {
		return strategy.Candidate{}, err
	}
	why := ""
	for _, c := range all {
		switch {
		case c.ID != id:
		case c.Entry.Key == seat.Key && c.Entry.Rev == seat.Rev:
			why = " leads already, and nobody else has that ID"
		case c.NeverLeads: // no leader goes for it
			why = fmt.Sprintf(" has rank %v, and never leads", c.Rank)
		default:
			return c, nil
		}
	}
	return strategy.Candidate{}, fmt.Errorf("%w: %q%s", strategy.ErrNoCandidate, id, why)
}

// occupied returns the error of a candidate that finds strangers, or nil if there are none.
func occupied(strangers []string) error {
	const most = 5
	var named []string
	for i, key := range strangers {
		if i == most {
			named = append(named, fmt.Sprintf("and %d more", len(strangers)-most))
			break
		}
		named = append(named, fmt.Sprintf("%.200q", key)) // somebody else chose the name
	}
	if named == nil {
		return nil
	}
	return fmt.Errorf("%w: %s: take another path, or stop them and delete what is left", ErrOccupied, strings.Join(named, ", "))
}
