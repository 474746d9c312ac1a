package election

import (
	"context"
	"errors"
	"slices"

	"github.com/elector-go/elector/backend"
)

// MoveOn waits until no candidate stands in a directory that is used up, and gives the election a new one.
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
func (e *Election) MoveOn(ctx context.Context, s *backend.Session, dir string, why error) error {
	if e.Foreign {
		return nil // the directory does not belong to this library
	}
	e.wait(dir, why)
	for {
		last, err := youngest(ctx, s, dir)
		if err != nil {
			return err
		}
		if !last.Exists() {
			return e.Refound(ctx, s, dir, why)
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

// Refound founds an election again when its directory, old, is gone or takes no more entries, or the
// record does not name it any more: why says which. It waits for any leader in old, even if the record
// names another directory by now: an operator may have overwritten the record, and on Consul a candidate
// may have entered at the moment at which Remove deleted the directory. Once nobody leads in old, that is
// final, because nobody enters it any more.
//
// It deletes the record, so that the next attempt finds none. Overwriting it would be wrong: ZooKeeper
// compares versions and not incarnations, and by now the election may have been removed and founded again.
// The deletion of such a record fails, because its directory is below it.
func (e *Election) Refound(ctx context.Context, s *backend.Session, old string, why error) error {
	if e.Foreign {
		return nil // the strategy makes what it needs
	}
	if err := e.awaitVacancy(ctx, s, old, why); err != nil {
		return err
	}
	dir, record, err := e.Find(ctx, s)
	if err != nil || dir != old {
		return err
	}
	_, err = s.Commit(ctx, []backend.Condition{backend.IfUnchanged(record)}, backend.Delete(record))
	if errors.Is(err, backend.ErrConflict) {
		// The old directory, which takes no more entries, or other keys are below it.
		if dir, record, err = e.Find(ctx, s); err == nil && dir == old {
			_, err = e.found(ctx, s, record)
		}
	}
	if overtaken(err) || errors.Is(err, backend.ErrNoEntry) {
		return nil
	}
	return err
}

// awaitVacancy blocks until nobody leads in a directory.
func (e *Election) awaitVacancy(ctx context.Context, s *backend.Session, dir string, why error) error {
	told := false
	for leader, err := range e.Strategy.Observe(ctx, s, dir) {
		if err != nil || leader.Vacant() {
			return err
		}
		if !told {
			told = true
			e.wait(dir, why)
		}
	}
	return ErrStopped
}

// ErrStopped is the error of a strategy that breaks its contract.
var ErrStopped = errors.New("strategy stopped observing without an error")

// wait reports that the campaign waits.
func (e *Election) wait(dir string, why error) {
	if e.Waits != nil {
		e.Waits(dir, why)
	}
}
