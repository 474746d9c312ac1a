package elector

import (
	"context"
	"errors"
	"fmt"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
)

// enter waits until the candidate may stand, and returns a session and the election's directory. It founds
// the election if there is none.
func (e *elector) enter(ctx context.Context, fit *fitness) (*backend.Session, string, error) {
	// Before the wait: an entry left by an earlier attempt would keep others waiting.
	s, err := e.cleared(ctx)
	if err != nil {
		return nil, "", err
	}
	if waited, err := fit.await(ctx); err != nil {
		return nil, "", err
	} else if waited { // the session may be lost by now
		if s, err = e.cleared(ctx); err != nil {
			return nil, "", err
		}
	}
	// A candidate that is overtaken finds the other's record at the next look. If that does not help,
	// something else is at the path, and the campaign backs off.
	for look := 1; ; look++ {
		dir, record, err := e.find(ctx, s)
		if err == nil && dir == "" {
			dir, err = e.found(ctx, s, record)
			if overtaken(err) && look < 3 {
				continue
			}
		}
		return s, dir, err
	}
}

// cleared returns a session, with nothing left of earlier ones.
func (e *elector) cleared(ctx context.Context) (*backend.Session, error) {
	s, err := e.session(ctx)
	if err != nil {
		return nil, err
	}
	return s, e.clear(ctx)
}

// find returns the election's directory, "" if it is not founded, and the entry at its path, which holds
// its record. It fails if somebody else's candidates stand there.
func (e *elector) find(ctx context.Context, s *backend.Session) (dir string, entry backend.Entry, err error) {
	if e.foreign {
		return e.cfg.Election, backend.Entry{}, nil
	}
	entry, strangers, err := s.Survey(ctx, e.cfg.Election, e.known)
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

// read is find without a look for strangers, which do not prevent reads.
func (e *elector) read(ctx context.Context, s *backend.Session) (dir string, entry backend.Entry, err error) {
	if e.foreign {
		return e.cfg.Election, backend.Entry{}, nil
	}
	entry, err = s.Get(ctx, e.cfg.Election)
	if errors.Is(err, backend.ErrNoEntry) {
		return "", backend.Entry{Key: e.cfg.Election}, nil
	}
	if err == nil {
		dir, err = e.recorded(entry)
	}
	return dir, entry, err
}

// recorded returns the directory that the entry at the election's path names, or "" if the entry has no
// record.
func (e *elector) recorded(entry backend.Entry) (dir string, err error) {
	if entry.Session != "" {
		return "", fmt.Errorf("%w: its path is somebody's ephemeral entry", ErrStrategyMismatch)
	}
	if len(entry.Value) == 0 {
		// An empty entry may exist as the parent of others.
		return "", nil
	}
	record, err := layout.DecodeRecord(entry.Value)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrStrategyMismatch, err)
	}
	if name := e.cfg.Strategy.Name(); record.Strategy != name {
		return "", fmt.Errorf("%w: it was founded with %.100q, not with %q", ErrStrategyMismatch, record.Strategy, name)
	}
	return e.dir(record), nil
}

// known returns the directory that the entry at the election's path names, if this candidate would enter
// it. It needs no look, because nobody holds it.
func (e *elector) known(entry backend.Entry) string {
	dir, _ := e.recorded(entry) // the candidate checks the error when it enters
	return dir
}

func (e *elector) dir(r layout.Record) string { return e.cfg.Election + "/" + r.Dir }

// found writes the record over the entry and makes the directory in one step; see overtaken.
func (e *elector) found(ctx context.Context, s *backend.Session, entry backend.Entry) (dir string, err error) {
	record := layout.NewRecord(e.cfg.Strategy.Name())
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
		backend.CompareAndSet(e.cfg.Election, record.Encode(), entry.Version),
		backend.CompareAndSet(e.dir(record), nil, 0))
	return e.dir(record), err
}

// overtaken reports whether another candidate founded the election first.
func overtaken(err error) bool {
	return errors.Is(err, backend.ErrCondition) || errors.Is(err, backend.ErrConflict)
}
