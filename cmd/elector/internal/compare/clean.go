package compare

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/crowd"
	"github.com/elector-go/elector/internal/layout"
	"github.com/elector-go/elector/internal/program"
)

// clean ends all candidates and removes what the election has left in the service. Some of it may stay until
// the session of a crashed candidate is over.
func (r *run) clean() error {
	r.Fail(errors.New("the run is over"))
	outlives := max(r.ttl, r.observer.TTL()) // how long a session may outlive its candidate
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 3*outlives+r.patience)
	defer cancel()
	var leader, rest []*candidate
	for _, c := range r.present {
		c.gone.Store(true)
		if c.Candidate == r.Leader.Candidate {
			leader = append(leader, c)
		} else {
			rest = append(rest, c)
		}
	}
	// The leader last, so that nobody takes over just to leave. Whether a candidate's entry is gone tells
	// whether it could say goodbye.
	crowd.Each(rest, func(c *candidate) error { return c.end(ctx) })
	crowd.Each(leader, func(c *candidate) error { return c.end(ctx) })
	r.Wait()
	r.cleanups.Wait()
	if err := r.remove(ctx); err != nil {
		return fmt.Errorf("left behind in the service, to be deleted by hand: %s and what is below: %w", r.election, err)
	}
	return nil
}

// remove deletes the election's persistent entries, and tries again while there are others below them. The
// observer's session may be lost by then.
func (r *run) remove(ctx context.Context) error {
	opening, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	s, err := r.service.outside().Open(opening, backend.OpenOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close(ctx) }() // it has no entries
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
