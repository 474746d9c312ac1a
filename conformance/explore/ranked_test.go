package explore

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/ranked"
)

// byNumber is the strategy ranked with the candidate's ID as its rank.
type byNumber struct{ ranked.Strategy }

func (s byNumber) Campaign(ctx context.Context, c *strategy.Candidacy) (strategy.Claim, error) {
	n, err := strconv.Atoi(c.ID)
	if err != nil {
		return strategy.Claim{}, err
	}
	s.Rank = ranked.NewRank(int64(n))
	return s.Strategy.Campaign(ctx, c)
}

var ranks = Config{Strategy: func() strategy.Strategy { return byNumber{} }, Distinct: true}

// No rule is broken when candidates have ranks of their own, and may wait for each other because of a
// designation, a named heir, or a rank that falls below zero and rises again. The test explores as much
// as its budget allows, and logs how much.
func TestRanks(t *testing.T) {
	for _, c := range []struct {
		name               string
		candidates, faults int
		kinds              []Fault
	}{
		{"two, and what operators want", 2, 1, recorded},
		{"two, twice designated", 2, 2, recorded[:1]},
		{"two, and another fault", 2, 1, others},
		{"three", 3, 0, nil},
		{"three, one designated", 3, 1, recorded[:1]},
		{"three, one not fit", 3, 1, []Fault{Unfit}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := ranks
			cfg.Candidates, cfg.Faults, cfg.Kinds, cfg.Budget = c.candidates, c.faults, c.kinds, *budget
			Exhaustive(t, cfg)
		})
	}
	for name, s := range map[string]ranked.Strategy{
		"five":                                {},
		"five that preempt":                   {Preempt: true},
		"five that preempt, after a while":    {Preempt: true, HoldOff: time.Second},
		"five, of whom two have to stand":     {Quorum: 2},
		"five that preempt, and a quorum too": {Preempt: true, Quorum: 2},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := ranks
			cfg.Strategy = func() strategy.Strategy { return byNumber{s} }
			cfg.Candidates, cfg.Faults, cfg.Terms, cfg.Quorum = 5, 4, 2, s.Quorum
			Random(t, cfg, 1, 60)
		})
	}
}
