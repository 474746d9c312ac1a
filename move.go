package elector

import (
	"context"
	"errors"
	"slices"

	"github.com/elector-go/elector/backend"
)

// moveOn waits until no candidate stands in a directory that is used up, and gives the
// election a new one. why is the ErrUsedUp that this candidate's enqueuing has met.
//
// # Why no two directories have leaders at the same time
//
// Only an enqueued entry makes a leader in dir, and:
//
//   - No entry comes any more. The session has seen the service refuse one (why), the
//     refusal stands for as long as dir does (ErrUsedUp), and what the session reads later
//     is never older. So each listing here has all that will ever stand in dir.
//   - None comes back: a key that was enqueued is never used again.
//   - So once each of one listing's keys has been seen to be gone, dir has no entry, and
//     never will have one. Only then is the record pointed elsewhere.
//   - The record names one directory at any time, and a newcomer enters that one. Of
//     several who found a new one the compare-and-set of the record lets one through.
//   - A candidate that read the record before, and is late, is refused in dir, comes here,
//     and finds the record changed.
//
// An entry that is gone has no leader any more, as after any handover: its session was
// over, its leader had resigned, or an operator took the seat away. If dir itself is
// deleted it has no entries, either, and is not made again under its random name.
//
// Those that stand in dir lead in their order first. Those that wait here have no order
// among themselves until the new directory gives them one.
func (e *elector) moveOn(ctx context.Context, s *backend.Session, dir string, why error) error {
	if e.foreign {
		return nil // the directory is not this library's
	}
	e.awaits(dir, why)
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

// youngest returns the last candidate's entry in a directory. Nobody's persistent entry is
// one: it would never go, and no strategy waits for it. To wait for the last one, rather
// than for any change, wakes those who wait but once in most cases.
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

// awaits tells that the campaign waits until nobody stands in a directory that takes no
// more.
func (e *elector) awaits(dir string, why error) {
	e.amiss(e.ctx, why)
	e.log.Warn("waiting for the last candidate in the election's directory: it is used up or gone", "dir", dir, "err", why)
	e.hooks.retry(RetryEvent{What: WorkCampaign, Err: why})
}

// refound has an election founded anew when its directory, old, is gone or takes no more, or
// the record does not name it any more: why says which. Whoever leads there is waited for, whatever
// the record names by now: an operator may have overwritten it, and on Consul somebody may have
// entered at the moment at which Remove has deleted the directory. That nobody leads there is final,
// since nobody enters any more.
//
// The record is deleted, so that the next attempt finds none. To overwrite it would not do:
// ZooKeeper compares versions and not incarnations, and by now the election may have been
// removed and founded anew. Such a record is not deleted, because its directory is below
// it.
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
		// The old directory, which takes no more, is below it, or other keys are.
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
			e.awaits(dir, why)
		}
	}
	return errStopped
}
