package entries

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// A Queue is what outsiders see of a strategy whose candidates have an entry each and
// whose oldest entry leads. It is embedded in the strategy.
type Queue struct{}

// A Wait blocks until the candidate's entry is the oldest in its directory, and returns that entry:
// me, or the one that it has put in its place (Requeue). That it is the oldest the caller takes for
// granted: of two candidates that are told so both lead. Its error is backend.ErrNoEntry if the entry
// is gone, and else whatever keeps it from waiting, such as the end of ctx.
type Wait func(ctx context.Context, c *elector.Candidacy, me backend.Entry) (backend.Entry, error)

// QueueUp is the campaign of a candidate in a queue: it enqueues an entry, blocks in wait, and
// returns the claim to that entry (see Claim). It enters again, at the end, when somebody has
// deleted the entry meanwhile. When wait fails otherwise, it withdraws the entry and returns the
// error. It reports elector.StageOffer; wait reports the stages that follow.
func QueueUp(ctx context.Context, c *elector.Candidacy, wait Wait) (claim elector.Claim, err error) {
	for {
		me, err := offer(ctx, c, nil)
		if err != nil {
			return claim, err
		}
		me, err = wait(ctx, c, me)
		if err == nil {
			return Claim(c, me), nil
		}
		if !errors.Is(err, backend.ErrNoEntry) {
			return claim, withdraw(ctx, c, me, err)
		}
		_ = c.Session.Discard(ctx, me) // so that its session knows, too: a service that is restored may bring it back
	}
}

// withdraw withdraws an entry because of err.
//
//go:noinline
func withdraw(ctx context.Context, c *elector.Candidacy, me backend.Entry, err error) error {
	return errors.Join(err, c.Withdraw(ctx, me))
}

// Requeue puts an entry at the end of the queue in place of me, in one step, if the conditions hold.
// It is for a candidate that waits. On an error me is what it was before, as a rule:
// backend.ErrNoEntry says that it had gone, and after backend.ErrIndeterminate it may have.
func Requeue(ctx context.Context, c *elector.Candidacy, me backend.Entry, conditions ...backend.Condition) (backend.Entry, error) {
	return offer(ctx, c, conditions, backend.Delete(me))
}

// offer enqueues the candidate's entry, and does the other ops in the same step.
func offer(ctx context.Context, c *elector.Candidacy, conditions []backend.Condition, beside ...backend.Op) (backend.Entry, error) {
	completed := c.Begin(elector.StageOffer)
	made, err := c.Session.Commit(ctx, conditions, append([]backend.Op{backend.Enqueue(c.Dir, Payload(c, false))}, beside...)...)
	completed(err)
	if err != nil {
		return backend.Entry{}, err
	}
	return made[0], nil
}

// Observe follows the oldest entry: elector.Strategy has the contract. It reads what that has become, and lists the directory
// when all those are gone that it remembers to be next.
func (Queue) Observe(ctx context.Context, s *backend.Session, dir string) iter.Seq2[elector.Leader, error] {
	return func(yield func(elector.Leader, error) bool) {
		q := line{session: s, dir: dir, most: remembered}
		oldest, err := q.oldest(ctx)
		for yield(Leader(oldest), err) && err == nil {
			if !oldest.Exists() {
				oldest, err = q.next(ctx)
				continue
			}
			var now []backend.Entry
			if now, err = s.Await(ctx, oldest); err != nil {
				oldest = backend.Entry{}
			} else if oldest = now[0]; oldest.Session == "" {
				oldest, err = q.oldest(ctx)
			}
		}
	}
}

// Candidates lists the candidates, the oldest entry's first, which leads.
func (Queue) Candidates(ctx context.Context, s *backend.Session, dir string) ([]elector.Candidate, error) {
	q := line{session: s, dir: dir}
	oldest, err := q.oldest(ctx)
	if err != nil || !oldest.Exists() {
		return nil, err
	}
	all := []elector.Candidate{Candidate(oldest, true)}
	for _, key := range q.keys {
		switch e, err := s.Get(ctx, key); {
		case errors.Is(err, backend.ErrNoEntry) || err == nil && e.Session == "": // gone since, or no candidate's
		case err != nil:
			return nil, err
		default:
			all = append(all, Candidate(e, false))
		}
	}
	return all, nil
}

// A line is what an outsider knows of the candidates in a directory.
type line struct {
	session *backend.Session
	dir     string
	// keys are those that come next, the oldest first. They stay that: whoever comes later
	// is younger.
	keys []string
	// most is how many of those that a listing has are kept, if it is set.
	most int
	// listing is what keys are all of, if its Dir is set.
	listing backend.Listing
}

// remembered is how many keys an observer keeps. If all N candidates observe, a handover
// takes N²/64 names, and they keep 64·N.
const remembered = 64

// oldest returns the oldest entry, or none if nobody stands. While those that are known go,
// others may have come: so nobody stands only if nobody did at the moment of a listing.
func (q *line) oldest(ctx context.Context) (backend.Entry, error) {
	for {
		gone := false
		for i, key := range q.keys {
			e, err := q.session.Get(ctx, key)
			switch {
			case errors.Is(err, backend.ErrNoEntry):
				gone = true
			case err != nil:
				return backend.Entry{}, err
			case e.Session != "": // a candidate's
				q.keys = q.keys[i+1:]
				if q.most > 0 && q.listing.Dir != "" {
					q.keys = slices.Clone(q.keys[:min(q.most, len(q.keys))])
				}
				q.listing = backend.Listing{}
				return e, nil
			}
		}
		if q.listing.Dir != "" && !gone {
			return backend.Entry{}, nil
		}
		listing, err := q.session.List(ctx, q.dir)
		if err != nil {
			return backend.Entry{}, err
		}
		q.keys, q.listing = listing.Keys, listing
	}
}

// next is oldest after nobody stood: it blocks until the directory has changed.
func (q *line) next(ctx context.Context) (backend.Entry, error) {
	listing, err := q.session.AwaitList(ctx, q.listing)
	if err != nil {
		return backend.Entry{}, err
	}
	q.keys, q.listing = listing.Keys, listing
	return q.oldest(ctx)
}
