package entries

import (
	"context"
	"fmt"
	"iter"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy"
)

// A Seat has the methods by which outsiders see a strategy whose candidates share one entry: the candidate
// that creates it leads. The strategy embeds it.
type Seat struct{}

// SeatKey is the key of the seat in an election's directory (strategy.Candidacy.Dir).
func SeatKey(dir string) string { return dir + "/seat" }

// PersistentError returns the error of a candidate that finds e in its way: no session holds e, so it would
// never go. The error is strategy.ErrStrategyMismatch, which ends the campaign, and says what an operator can
// do.
func PersistentError(e backend.Entry) error {
	return fmt.Errorf("%w: %s is persistent, so no candidate made it and it would never go: delete it", strategy.ErrStrategyMismatch, e.Key)
}

// Observe follows the seat, by the contract of strategy.Strategy.
func (Seat) Observe(ctx context.Context, s *backend.Session, dir string) iter.Seq2[strategy.Leader, error] {
	return func(yield func(strategy.Leader, error) bool) {
		seat, err := Get(ctx, s, SeatKey(dir))
		for yield(Leader(seat), err) && err == nil {
			var now []backend.Entry
			if now, err = s.Await(ctx, seat); err != nil {
				seat = backend.Entry{}
			} else {
				seat = now[0]
			}
		}
	}
}

// Candidates lists only the leader: other candidates have no entry.
func (Seat) Candidates(ctx context.Context, s *backend.Session, dir string) ([]strategy.Candidate, error) {
	seat, err := Get(ctx, s, SeatKey(dir))
	if err != nil || seat.Session == "" {
		return nil, err
	}
	return []strategy.Candidate{Candidate(seat, true)}, nil
}
