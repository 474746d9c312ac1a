package elector

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
)

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

// moveOn waits until no candidate stands in a directory that is used up, and gives the election a new one.
// why is the ErrUsedUp that this candidate got when it enqueued.
//
// # Why no two directories have leaders at the same time
//
// Only an enqueued entry makes a leader in dir, and:
//
//   - No entry is added any more. The session has seen the service refuse one (why), the refusal holds as
//     long as dir exists (ErrUsedUp), and what the session reads later is never older. So each listing
//     here has all entries that will ever be in dir.
//   - No entry comes back: a key that was enqueued is never used again.
//   - So once each key of one listing has been seen to be gone, dir has no entry, and never will have one.
//     Only then does the record name another directory.
//   - The record names one directory at any time, and a newcomer enters that one. If several candidates
//     found a new one, the compare-and-set of the record lets only one succeed.
//   - A candidate that read the record before, and is late, is refused in dir, comes here, and finds that
//     the record has changed.
//
// An entry that is gone has no leader any more, as after any handover: its session was over, its leader
// had resigned, or an operator took the seat away. If dir itself is deleted, it has no entries either, and
// is not made again under its random name.
//
// The candidates in dir lead first, in their order. The candidates that wait here have no order among
// themselves until the new directory gives them one.
func (e *elector) moveOn(ctx context.Context, s *backend.Session, dir string, why error) error {
	if e.foreign {
		return nil // the directory does not belong to this library
	}
	e.reportWait(dir, why)
	for {
		last, err := youngest(ctx, s, dir)
		if err != nil {
			return err
		}
		if !last.Exists() {
			return e.refound(ctx, s, dir, why)
		}
		if _, err := s.Await(ctx, last); err != nil {
			return err
		}
	}
}

// youngest returns the last candidate's entry in a directory. A persistent entry belongs to no candidate:
// it would never go, and no strategy waits for it. Waiting for the last entry, not for any change, wakes
// the waiting candidates only once in most cases.
func youngest(ctx context.Context, s *backend.Session, dir string) (backend.Entry, error) {
	listing, err := s.List(ctx, dir)
	if err != nil {
		return backend.Entry{}, err
	}
	for _, key := range slices.Backward(listing.Keys) {
		e, err := s.Get(ctx, key)
		if err != nil && !errors.Is(err, backend.ErrNoEntry) {
			return backend.Entry{}, err
		}
		if err == nil && e.Session != "" {
			return e, nil
		}
	}
	return backend.Entry{}, nil
}

// reportWait reports that the campaign waits until nobody stands in a directory that takes no more entries.
func (e *elector) reportWait(dir string, why error) {
	e.noteError(e.ctx, why)
	e.log.Warn("waiting for the last candidate in the election's directory: it is used up or gone", "dir", dir, "err", why)
	e.hooks.retry(RetryEvent{What: WorkCampaign, Err: why})
}

// refound founds an election again when its directory, old, is gone or takes no more entries, or the
// record does not name it any more: why says which. It waits for any leader in old, even if the record
// names another directory by now: an operator may have overwritten the record, and on Consul a candidate
// may have entered at the moment at which Remove deleted the directory. Once nobody leads in old, that is
// final, because nobody enters it any more.
//
// It deletes the record, so that the next attempt finds none. Overwriting it would be wrong: ZooKeeper
// compares versions and not incarnations, and by now the election may have been removed and founded again.
// The deletion of such a record fails, because its directory is below it.
func (e *elector) refound(ctx context.Context, s *backend.Session, old string, why error) error {
	if e.foreign {
		return nil // the strategy makes what it needs
	}
	if err := e.awaitVacancy(ctx, s, old, why); err != nil {
		return err
	}
	dir, record, err := e.find(ctx, s)
	if err != nil || dir != old {
		return err
	}
	_, err = s.Commit(ctx, []backend.Condition{backend.IfUnchanged(record)}, backend.Delete(record))
	if errors.Is(err, backend.ErrConflict) {
		// The old directory, which takes no more entries, or other keys are below it.
		if dir, record, err = e.find(ctx, s); err == nil && dir == old {
			_, err = e.found(ctx, s, record)
		}
	}
	if overtaken(err) || errors.Is(err, backend.ErrNoEntry) {
		return nil
	}
	return err
}

// awaitVacancy blocks until nobody leads in a directory.
func (e *elector) awaitVacancy(ctx context.Context, s *backend.Session, dir string, why error) error {
	told := false
	for leader, err := range e.cfg.Strategy.Observe(ctx, s, dir) {
		if err != nil || leader.Vacant() {
			return err
		}
		if !told {
			told = true
			e.reportWait(dir, why)
		}
	}
	return errStopped
}
