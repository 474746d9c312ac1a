package inspect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/catalog"
	"github.com/elector-go/elector/strategy/entries"
)

// known is a strategy, and what it shows.
type known struct {
	use     strategy.Strategy
	lists   bool // Candidates also lists those who wait
	unknown bool // what is known comes only from the entries
}

// all returns the caller's own strategies, and then those of the library.
func all(own []strategy.Strategy) (all []known) {
	for _, s := range own {
		all = append(all, known{use: s, lists: true})
	}
	for _, item := range slices.Concat(catalog.All(), catalog.Variants()) {
		all = append(all, known{use: item.Strategy, lists: item.Lists})
	}
	return all
}

// named returns the strategy that a record names.
func (i *Inspector) named(name string) known {
	at := slices.IndexFunc(i.strategies, func(k known) bool {
		_, foreign := k.use.(strategy.CustomLayout) // it keeps no record
		return k.use.Name() == name && !foreign
	})
	if at < 0 {
		return known{use: stranger(name), lists: true, unknown: true}
	}
	return i.strategies[at]
}

// stranger is a strategy of which only the name is known, read as by an outsider: candidates have entries
// as package strategy/entries makes them, in a queue or with a seat. The leader holds the seat or has the
// leader's mark.
type stranger string

var _ strategy.Strategy = stranger("")

func (s stranger) Name() string { return string(s) }

func (s stranger) Campaign(context.Context, *strategy.Candidacy) (strategy.Claim, error) {
	return strategy.Claim{}, fmt.Errorf("strategy %q: %w", string(s), ErrUnknownStrategy)
}

// lookAgain is how often to look if nothing shows what to wait for.
const lookAgain = 5 * time.Second

// Observe follows the leader's entry, and looks for another one from time to time.
func (s stranger) Observe(ctx context.Context, session *backend.Session, dir string) iter.Seq2[elector.Leader, error] {
	return func(yield func(elector.Leader, error) bool) {
		for {
			all, err := s.Candidates(ctx, session, dir)
			leader := elector.Leader{Seat: backend.Entry{Key: entries.SeatKey(dir)}}
			if len(all) > 0 && all[0].Leads {
				leader = entries.Leader(all[0].Entry)
			}
			if !yield(leader, err) || err != nil {
				return
			}
			until, cancel := context.WithTimeout(ctx, lookAgain)
			_, err = session.Await(until, leader.Seat)
			due := until.Err() != nil && ctx.Err() == nil
			cancel()
			if err != nil && !due {
				yield(elector.Leader{}, err)
				return
			}
		}
	}
}

// Candidates lists the leader, if one is identified, and then the others by age.
func (s stranger) Candidates(ctx context.Context, session *backend.Session, dir string) (all []elector.Candidate, err error) {
	listing, err := session.List(ctx, dir)
	if err != nil {
		return nil, err
	}
	for n, key := range append([]string{entries.SeatKey(dir)}, listing.Keys...) {
		switch e, err := session.Get(ctx, key); {
		case errors.Is(err, backend.ErrNoEntry) || err == nil && e.Session == "": // gone since, or not a candidate's
		case err != nil:
			return nil, err
		default:
			led := len(all) > 0 && all[0].Leads
			if n == 0 || entries.Marked(e) && !led {
				all = slices.Insert(all, 0, entries.Candidate(e, true))
			} else {
				all = append(all, entries.Candidate(e, false))
			}
		}
	}
	return all, nil
}
