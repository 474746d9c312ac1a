package elector

import (
	"context"
	"errors"
	"fmt"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
)

// enter returns a session and the election's directory, when the candidate may stand. It founds the
// election if there is none.
func (e *elector) enter(ctx context.Context, fit *fitness) (*backend.Session, string, error) {
	// Before the wait: what could not be removed of an earlier attempt would keep others waiting.
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
	// Whoever is overtaken finds the record of another at the next look. Where that does not
	// help, something else is at the path, and the campaign backs off.
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

// cleared returns a session, with nothing left of those before it.
func (e *elector) cleared(ctx context.Context) (*backend.Session, error) {
	s, err := e.session(ctx)
	if err != nil {
		return nil, err
	}
	return s, e.clear(ctx)
}

// find returns the election's directory, "" if it has not been founded, and the
// entry at its path, which holds its record. It fails where somebody else's candidates
// stand.
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

// read is find without a look for strangers: they keep nobody from reading.
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

// recorded returns the directory that the entry at the election's path names, "" if it
// has no record.
func (e *elector) recorded(entry backend.Entry) (dir string, err error) {
	if entry.Session != "" {
		return "", fmt.Errorf("%w: its path is somebody's ephemeral entry", ErrStrategyMismatch)
	}
	if len(entry.Value) == 0 {
		// An empty entry may be there as the parent of others.
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

// known returns the directory that the entry at the election's path names, if it is one
// that this candidate would enter. Nobody holds it, so that it needs no look.
func (e *elector) known(entry backend.Entry) string {
	dir, _ := e.recorded(entry) // whoever enters looks at the error
	return dir
}

func (e *elector) dir(r layout.Record) string { return e.cfg.Election + "/" + r.Dir }

// found writes the record over what the entry holds, and makes the directory, in
// one step; see overtaken.
func (e *elector) found(ctx context.Context, s *backend.Session, entry backend.Entry) (dir string, err error) {
	record := layout.NewRecord(e.cfg.Strategy.Name())
	if old, err := layout.DecodeRecord(entry.Value); err == nil {
		record.Designated = old.Designated // the directory is another one, and the election the same
	}
	var guards []backend.Condition
	if entry.Exists() {
		// Versions begin anew with each incarnation: without the guard, the record
		// of an election that was deleted and founded again could be overwritten.
		guards = append(guards, backend.IfExists(entry))
	}
	_, err = s.Commit(ctx, guards,
		backend.CompareAndSet(e.cfg.Election, record.Encode(), entry.Version),
		backend.CompareAndSet(e.dir(record), nil, 0))
	return e.dir(record), err
}

// overtaken tells whether another candidate was faster to found the election.
func overtaken(err error) bool {
	return errors.Is(err, backend.ErrCondition) || errors.Is(err, backend.ErrConflict)
}
