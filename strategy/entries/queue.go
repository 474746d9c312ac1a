package entries

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy"
)

// A Queue has the methods by which outsiders see a strategy whose candidates have an entry each and whose
// oldest entry leads. The strategy embeds it.
type Queue struct{}

// A Wait blocks until the candidate's entry is the oldest in its directory, and returns that entry: me, or
// the one that replaced it (Requeue). The caller relies on it: if Wait returns to two candidates, both lead.
// Its error is backend.ErrNoEntry if the entry is gone, and otherwise what kept it from waiting, such as the
// end of ctx.
type Wait func(ctx context.Context, c *strategy.Candidacy, me backend.Entry) (backend.Entry, error)

// QueueUp is the campaign of a candidate in a queue: it enqueues an entry, blocks in wait, and returns the
// claim to that entry (see Claim). If somebody deletes the entry meanwhile, it enqueues another, at the end.
// If wait fails otherwise, it withdraws the entry and returns the error. It reports strategy.StageOffer; wait
// reports the stages that follow.
func QueueUp(ctx context.Context, c *strategy.Candidacy, wait Wait) (claim strategy.Claim, err error) {
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
		_ = c.Session.Discard(ctx, me) // tells its session, too: a service that is restored may bring the entry back
	}
}

// withdraw withdraws an entry because of err.
//
//go:noinline
func withdraw(ctx context.Context, c *strategy.Candidacy, me backend.Entry, err error) error {
	return errors.Join(err, c.Withdraw(ctx, me))
}

// Requeue replaces me by an entry at the end of the queue, in one step, if the conditions hold. It is for a
// candidate that waits. After an error, me is usually unchanged, except: after backend.ErrNoEntry it was gone
// before, and after backend.ErrIndeterminate it may be gone.
func Requeue(ctx context.Context, c *strategy.Candidacy, me backend.Entry, conditions ...backend.Condition) (backend.Entry, error) {
	return offer(ctx, c, conditions, backend.Delete(me))
}

// offer enqueues the candidate's entry, and commits the other ops in the same step.
func offer(ctx context.Context, c *strategy.Candidacy, conditions []backend.Condition, beside ...backend.Op) (backend.Entry, error) {
	completed := c.Begin(strategy.StageOffer)
	made, err := c.Session.Commit(ctx, conditions, append([]backend.Op{backend.Enqueue(c.Dir, Payload(c, false))}, beside...)...)
	completed(err)
	if err != nil {
		return backend.Entry{}, err
	}
	return made[0], nil
}

// Observe follows the oldest entry, by the contract of strategy.Strategy. It reads the entries that it
// remembers to be next, and lists the directory when all of these are gone.
func (Queue) Observe(ctx context.Context, s *backend.Session, dir string) iter.Seq2[strategy.Leader, error] {
	return func(yield func(strategy.Leader, error) bool) {
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

// Candidates lists the candidates. The first has the oldest entry, and leads.
func (Queue) Candidates(ctx context.Context, s *backend.Session, dir string) ([]strategy.Candidate, error) {
	q := line{session: s, dir: dir}
	oldest, err := q.oldest(ctx)
	if err != nil || !oldest.Exists() {
		return nil, err
	}
	all := []strategy.Candidate{Candidate(oldest, true)}
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
	// keys come next, the oldest first. They stay next: every later entry is younger.
	keys []string
	// most, if set, limits how many keys of a listing are kept.
	most int
	// listing, if its Dir is set, is the listing that keys are all of.
	listing backend.Listing
}

// remembered is how many keys an observer keeps. If all N candidates observe, a handover reads N²/64 names,
// and they keep 64·N.
const remembered = 64

// oldest returns the oldest entry, or none if there are no candidates. While it reads the known entries and
// finds them gone, others may come: so there are no candidates only if a listing shows none.
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

// next is oldest after there were no candidates: it blocks until the directory has changed.
func (q *line) next(ctx context.Context) (backend.Entry, error) {
	listing, err := q.session.AwaitList(ctx, q.listing)
	if err != nil {
		return backend.Entry{}, err
	}
	q.keys, q.listing = listing.Keys, listing
	return q.oldest(ctx)
}
