package explore_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/conformance/explore"
	"github.com/elector-go/elector/strategy/ranked"
)

// byNumber is the strategy ranked with the candidate's ID for its rank.
type byNumber struct{ ranked.Strategy }

func (s byNumber) Campaign(ctx context.Context, c *elector.Candidacy) (elector.Claim, error) {
	n, err := strconv.Atoi(c.ID)
	if err != nil {
		return elector.Claim{}, err
	}
	s.Rank = ranked.NewRank(int64(n))
	return s.Strategy.Campaign(ctx, c)
}

var ranks = explore.Config{Strategy: func() elector.Strategy { return byNumber{} }, Distinct: true}

// The candidates have ranks of their own. What an operator designates, whom a leader names, and a rank
// that falls below zero and rises again may have them wait for each other.
func TestRanks(t *testing.T) {
	t.Run("two and a fault", func(t *testing.T) { exhaustOne(t, ranks) })
	t.Run("two, twice designated", func(t *testing.T) {
		cfg := ranks
		cfg.Faults, cfg.Kinds = 2, []explore.Fault{explore.Designate}
		exhaust(t, cfg)
	})
	t.Run("three", func(t *testing.T) {
		cfg := ranks
		cfg.Candidates = 3
		exhaust(t, cfg)
	})
	t.Run("five", func(t *testing.T) {
		cfg := ranks
		cfg.Candidates, cfg.Faults, cfg.Terms = 5, 4, 2
		explore.Random(t, cfg, 1, 60)
	})
}
