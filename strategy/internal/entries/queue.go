package entries

import (
	"context"
	"errors"
	"iter"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// A Queue is what outsiders see of a strategy whose candidates have an entry each and
// whose oldest entry leads. It is embedded in the strategy.
type Queue struct{}

// A Wait blocks until the candidate's entry, me, entitles it to lead. ErrNoEntry says that
// me is gone.
type Wait func(ctx context.Context, c *elector.Candidacy, me backend.Entry) error

// Campaign enqueues an entry and waits. It enters again, at the end, when somebody has
// deleted the entry meanwhile, and withdraws it when it fails. announce asks for
// Claim.Announce.
func Campaign(ctx context.Context, c *elector.Candidacy, announce bool, wait Wait) (elector.Claim, error) {
	for {
		me, err := offer(ctx, c)
		if err != nil {
			return elector.Claim{}, err
		}
		err = wait(ctx, c, me)
		if err == nil {
			return Claim(c, me, announce), nil
		}
		if !errors.Is(err, backend.ErrNoEntry) {
			return elector.Claim{}, errors.Join(err, c.Withdraw(ctx, me))
		}
	}
}

// offer enqueues the candidate's entry.
func offer(ctx context.Context, c *elector.Candidacy) (backend.Entry, error) {
	completed := c.Begin(elector.StageOffer)
	made, err := c.Session.Commit(ctx, nil, backend.Enqueue(c.Dir, Payload(c, false)))
	completed(err)
	if err != nil {
		return backend.Entry{}, err
	}
	return made[0], nil
}

// Observe follows the oldest entry.
func (Queue) Observe(ctx context.Context, s backend.Session, dir string) iter.Seq2[elector.Leader, error] {
	return func(yield func(elector.Leader, error) bool) {
		for {
			listing, oldest, err := first(ctx, s, dir)
			if !yield(Leader(oldest), err) || err != nil {
				return
			}
			if oldest.Exists() {
				_, err = s.Await(ctx, oldest)
			} else {
				_, err = s.AwaitList(ctx, listing)
			}
			if err != nil {
				yield(elector.Leader{}, err)
				return
			}
		}
	}
}

// first returns the directory's listing and its oldest entry, if there is one.
func first(ctx context.Context, s backend.Session, dir string) (backend.Listing, backend.Entry, error) {
	listing, err := s.List(ctx, dir)
	if err != nil {
		return listing, backend.Entry{}, err
	}
	for e, err := range standing(ctx, s, listing) {
		return listing, e, err
	}
	return listing, backend.Entry{}, nil
}

// Candidates lists the entries, the oldest first.
func (Queue) Candidates(ctx context.Context, s backend.Session, dir string) ([]elector.Candidate, error) {
	listing, err := s.List(ctx, dir)
	if err != nil {
		return nil, err
	}
	var all []elector.Candidate
	for e, err := range standing(ctx, s, listing) {
		if err != nil {
			return nil, err
		}
		all = append(all, Candidate(e, len(all) == 0))
	}
	return all, nil
}

// standing reads the candidates' entries of a listing, one after the other.
func standing(ctx context.Context, s backend.Session, listing backend.Listing) iter.Seq2[backend.Entry, error] {
	return func(yield func(backend.Entry, error) bool) {
		for _, key := range listing.Keys {
			e, err := s.Get(ctx, key)
			if errors.Is(err, backend.ErrNoEntry) || err == nil && e.Session == "" {
				continue // gone since, or no candidate's
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}
