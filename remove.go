package elector

import (
	"context"
	"errors"
	"fmt"

	"github.com/elector-go/elector/backend"
)

// Remove removes what an election leaves in the service when all its candidates have
// gone: the record at its path, and its directory. strategy is the one that it was
// founded with (ErrStrategyMismatch). An election that is not there is no error.
//
// ErrInUse says that somebody stands in it. Then it goes on as before, and Remove may be
// called again later; so it may after any other error. ErrConfig says that an argument is
// wrong. A CustomLayout strategy is refused with it: its tokens are kept in the service, and
// would begin anew.
//
// It may be called at any time. A candidate that enters meanwhile stands in the election,
// or founds it anew, and tokens go on to rise: they are the service's revisions, which an
// election has no part in.
//
// Where other keys are below the path, such as your own, the record stays as their
// parent. The parents of the path stay, too: nobody knows who else uses them.
//
// It opens a session, and blocks for that and a few round trips. While no server can be
// reached it is backend.ErrUnavailable, or ctx's error.
func Remove(ctx context.Context, b backend.Backend, strategy Strategy, election string) error {
	fail := func(err error) error { return fmt.Errorf("elector: remove %s: %w", election, err) }
	if _, foreign := strategy.(CustomLayout); foreign && !isNil(strategy) {
		return fail(fmt.Errorf("%q keeps its tokens in the service, and they must not begin at 1 again: %w", strategy.Name(), ErrConfig))
	}
	err := visit(ctx, b, strategy, election, func(e *elector, s *backend.Session) error {
		for first := true; ; first = false {
			dir, record, err := e.read(ctx, s)
			if err == nil && dir == "" && first { // or only its server does not know of it yet
				if err = e.catchUp(ctx, s); err == nil {
					continue
				}
			}
			if err == nil && dir != "" {
				err = e.remove(ctx, s, dir, record)
			}
			if !errors.Is(err, backend.ErrCondition) { // else somebody has founded the election anew, or removed it
				return err
			}
		}
	})
	if err != nil {
		return fail(err)
	}
	return nil
}

// visit does something to an election in a session of its own, without a candidate.
func visit(ctx context.Context, b backend.Backend, strategy Strategy, election string, do func(*elector, *backend.Session) error) error {
	cfg := Config{Backend: b, Strategy: strategy, Election: election, ID: "0"} // which every layout takes
	if err := cfg.validate(""); err != nil {
		return err
	}
	id, foreign, _ := cfg.identify() // validate has looked at the error
	s, err := b.Open(ctx, backend.OpenOptions{})
	if err != nil {
		return err
	}
	defer func() {
		done, cancel := cleanup(ctx)
		defer cancel()
		_ = s.Close(done) // it has no entries that somebody would wait for
	}()
	return do(&elector{cfg: cfg, id: id, foreign: foreign}, s)
}

// remove removes the directory and then the record. ErrCondition says that the record has
// changed.
//
// # Why no two candidates lead
//
//   - The directory goes first, and only if nothing is in it. From then on nobody enters
//     it: whoever has read the record before is refused (ErrNoParent). It is never made
//     again.
//   - Consul looks right before it deletes, so that one may enter in between. The record
//     still names the directory, and whoever is refused there founds a new one only when
//     nobody leads in it any more: see refound. So to stop here is safe, by an error, by
//     the end of the process, or because somebody stands.
//   - The record goes when nobody stands in the directory, and it has not changed. On
//     ZooKeeper, which compares versions and not incarnations, one that was founded anew
//     may look unchanged: then its directory is below it, and it is not deleted.
func (e *elector) remove(ctx context.Context, s *backend.Session, dir string, record backend.Entry) error {
	unchanged := []backend.Condition{backend.IfUnchanged(record)}
	entry, err := s.Get(ctx, dir)
	if err == nil {
		_, err = s.Commit(ctx, unchanged, backend.Delete(entry))
	}
	switch {
	case errors.Is(err, backend.ErrNoEntry): // by an earlier call
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

// inUse says who stands in the directory, or what the service says of it where nobody does.
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
