package elector

import (
	"context"
	"errors"
	"fmt"

	"github.com/elector-go/elector/backend"
)

// Remove removes what an election leaves in the service after all its candidates have gone: the record at
// its path, and its directory. strategy must be the one that it was founded with (ErrStrategyMismatch). It
// is no error if the election does not exist.
//
// ErrInUse means that somebody stands in it. Then the election continues as before, and Remove may be
// called again later, as after any other error. ErrConfig means that an argument is wrong. It is also the
// error for a CustomLayout strategy: its tokens are kept in the service, and would start again.
//
// It may be called at any time. A candidate that enters meanwhile stands in the election, or founds it
// again. Tokens continue to rise: they are the service's revisions, which do not depend on the election.
//
// If other keys are below the path, such as your own, the record stays as their parent. The parents of the
// path always stay: nobody knows who else uses them.
//
// It opens a session, and blocks for that and a few round trips. While no server can be reached, the error
// is backend.ErrUnavailable, or ctx's error.
func Remove(ctx context.Context, b backend.Backend, strategy Strategy, election string) error {
	fail := func(err error) error { return fmt.Errorf("elector: remove %s: %w", election, err) }
	if _, foreign := strategy.(CustomLayout); foreign && !isNil(strategy) {
		return fail(fmt.Errorf("%q keeps its tokens in the service, and they must not begin at 1 again: %w", strategy.Name(), ErrConfig))
	}
	err := visit(ctx, b, strategy, election, func(e *elector, s *backend.Session) error {
		for first := true; ; first = false {
			dir, record, err := e.read(ctx, s)
			if err == nil && dir == "" && first { // or its server does not know of it yet
				if err = e.catchUp(ctx, s); err == nil {
					continue
				}
			}
			if err == nil && dir != "" {
				err = e.remove(ctx, s, dir, record)
			}
			if !errors.Is(err, backend.ErrCondition) { // otherwise somebody has founded the election again, or removed it
				return err
			}
		}
	})
	if err != nil {
		return fail(err)
	}
	return nil
}

// visit calls do on an election in a session of its own, without a candidate.
func visit(ctx context.Context, b backend.Backend, strategy Strategy, election string, do func(*elector, *backend.Session) error) error {
	cfg := Config{Backend: b, Strategy: strategy, Election: election, ID: "0"} // every layout accepts this ID
	if err := cfg.validate(""); err != nil {
		return err
	}
	id, foreign, _ := cfg.identify() // validate has checked the error
	s, err := b.Open(ctx, backend.OpenOptions{})
	if err != nil {
		return err
	}
	defer func() {
		done, cancel := cleanup(ctx)
		defer cancel()
		_ = s.Close(done) // it has no entries that anybody would wait for
	}()
	return do(&elector{cfg: cfg, id: id, foreign: foreign}, s)
}

// remove removes the directory and then the record. ErrCondition means that the record has changed.
//
// # Why no two candidates lead
//
//   - The directory goes first, and only if it is empty. From then on nobody enters it: a candidate that
//     read the record before is refused (ErrNoParent). The directory is never made again.
//   - Consul checks right before it deletes, so a candidate may enter in between. The record still names
//     the directory, and a candidate that is refused there founds a new one only when nobody leads in it
//     any more: see refound. So it is safe to stop here, because of an error, the end of the process, or a
//     candidate that stands.
//   - The record goes when nobody stands in the directory and the record has not changed. On ZooKeeper,
//     which compares versions and not incarnations, a record that was founded again may look unchanged:
//     then its directory is below it, and it is not deleted.
func (e *elector) remove(ctx context.Context, s *backend.Session, dir string, record backend.Entry) error {
	unchanged := []backend.Condition{backend.IfUnchanged(record)}
	entry, err := s.Get(ctx, dir)
	if err == nil {
		_, err = s.Commit(ctx, unchanged, backend.Delete(entry))
	}
	switch {
	case errors.Is(err, backend.ErrNoEntry): // deleted by an earlier call
	case errors.Is(err, backend.ErrConflict):
		return e.inUse(ctx, s, dir, err)
	case err != nil:
		return err
	}
	standing, err := e.cfg.Strategy.Candidates(ctx, s, dir)
	if err == nil && len(standing) > 0 {
		err = fmt.Errorf("%w: candidate %q came at the last moment", ErrInUse, standing[0].ID)
	}
	if err != nil {
		return err
	}
	_, err = s.Commit(ctx, unchanged, backend.Delete(record))
	if errors.Is(err, backend.ErrConflict) || errors.Is(err, backend.ErrNoEntry) {
		return nil // other keys are below it, or somebody else has removed it
	}
	return err
}

// inUse returns an ErrInUse that says who stands in the directory or, if nobody does, what the service
// says.
func (e *elector) inUse(ctx context.Context, s *backend.Session, dir string, why error) error {
	switch standing, err := e.cfg.Strategy.Candidates(ctx, s, dir); {
	case err != nil || len(standing) == 0:
		return fmt.Errorf("%w: %v", ErrInUse, why)
	case len(standing) == 1:
		return fmt.Errorf("%w: candidate %q stands", ErrInUse, standing[0].ID)
	default:
		return fmt.Errorf("%w: %d candidates stand, %q among them", ErrInUse, len(standing), standing[0].ID)
	}
}
