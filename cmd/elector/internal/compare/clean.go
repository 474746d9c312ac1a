package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
	"github.com/elector-go/elector/internal/program"
)

// clean ends all candidates and removes what the election has left in the service. Some of
// it may be there until the session of a crashed candidate is over.
func (r *run) clean() error {
	r.fail(errors.New("the run is over"))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), 3*r.sessionTTL()+r.patience)
	defer cancel()
	// The leader last, so that nobody takes over just to leave.
	slices.SortStableFunc(r.present, func(a, b *candidate) int {
		switch r.leader.candidate {
		case a:
			return 1
		case b:
			return -1
		}
		return 0
	})
	for _, c := range r.present {
		c.gone.Store(true)
	}
	rest := r.present
	if n := len(rest) - 1; n >= 0 && rest[n] == r.leader.candidate {
		forEach(rest[:n], func(c *candidate) { _ = c.close(ctx) })
		rest = rest[n:]
	}
	// Whether a candidate could say goodbye shows in whether its entry is there.
	forEach(rest, func(c *candidate) { _ = c.close(ctx) })
	r.campaigns.Wait()
	r.cleanups.Wait()
	if err := r.remove(ctx); err != nil {
		return fmt.Errorf("left behind in the service, to be deleted by hand: %s and what is below: %w", r.election, err)
	}
	return nil
}

// cleaner returns a session to delete with: the observer's, or, where that is lost, a new
// one, if there is one to be had by now.
func (r *run) cleaner(ctx context.Context) (s *backend.Session, done func(), err error) {
	if r.observer.State() != backend.Lost {
		return r.observer, func() {}, nil
	}
	opening, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	s, err = r.service.outside().Open(opening, backend.OpenOptions{})
	if err != nil {
		return nil, nil, err
	}
	return s, func() { _ = s.Close(ctx) }, nil // it has no entries
}

// sessionTTL is how long a session may outlive its candidate.
func (r *run) sessionTTL() time.Duration { return max(r.ttl, r.observer.TTL()) }

// remove deletes the election's persistent entries, and tries again while there are
// others below them.
func (r *run) remove(ctx context.Context) error {
	s, done, err := r.cleaner(ctx)
	if err != nil {
		return err
	}
	defer done()
	for {
		err := r.removeOnce(ctx, s)
		if !errors.Is(err, backend.ErrConflict) {
			return err
		}
		if program.Sleep(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}

func (r *run) removeOnce(ctx context.Context, s *backend.Session) error {
	keys := []string{r.election + "/controller_epoch", r.election}
	top, err := s.Get(ctx, r.election)
	if err == nil {
		if record, err := layout.DecodeRecord(top.Value); err == nil {
			keys = []string{r.election + "/" + record.Dir, r.election}
		}
	} else if !errors.Is(err, backend.ErrNoEntry) {
		return err
	}
	for _, key := range keys {
		e, err := s.Get(ctx, key)
		if err == nil {
			_, err = s.Commit(ctx, nil, backend.Delete(e))
		}
		if err != nil && !errors.Is(err, backend.ErrNoEntry) {
			return err
		}
	}
	return nil
}
