package mutants

import (
	"context"
	"errors"
	"strings"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
	"github.com/elector-go/elector/strategy/entries"
	"github.com/elector-go/elector/strategy/ranked"
)

// rankedMutants break the recipe in which the best candidate leads.
var rankedMutants = []Mutant{
	{
		Name:     "rank not read",
		Breaks:   "A candidate takes the rank of all others for that of no numbers.",
		Rules:    rules{"ranked": {"ranked/best-leads"}},
		campaign: readAs(false, func(c *layout.Candidate) { c.Rank = nil }),
	}, {
		Name:     "rank as it was",
		Breaks:   "A candidate does not notice that its rank has changed.",
		Rules:    rules{"ranked": {"ranked/changes", "ranked/negative", "ranked/quorum"}},
		strategy: settings(func(s *ranked.Strategy) { s.Rank = ranked.NewRank(s.Rank.Numbers()...) }),
	}, {
		Name:     "rank below zero read as zero",
		Breaks:   "A candidate waits for one that never leads, and takes it for one of a quorum.",
		Rules:    rules{"ranked": {"ranked/negative", "ranked/quorum"}},
		campaign: readAs(false, func(c *layout.Candidate) { c.Rank[0] = max(c.Rank[0], 0) }),
	}, {
		Name:     "quorum ignored",
		Breaks:   "A candidate leads although too few stand.",
		Rules:    rules{"ranked": {"ranked/quorum"}},
		strategy: settings(func(s *ranked.Strategy) { s.Quorum = 0 }),
	}, {
		Name:     "unseats unasked",
		Breaks:   "The best candidate asks a leader of lower rank to go although it was not told to.",
		Rules:    rules{"ranked": {"ranked/sticky", "ranked/designated"}},
		strategy: settings(func(s *ranked.Strategy) { s.Preempt = true }),
	}, {
		Name:     "never unseats",
		Breaks:   "The best candidate asks no leader to go, whatever it was told.",
		Rules:    rules{"ranked": {"ranked/preempts", "ranked/unseated"}},
		strategy: settings(func(s *ranked.Strategy) { s.Preempt = false }),
	}, {
		Name:     "hold-off ignored",
		Breaks:   "The best candidate asks a leader of lower rank to go at once.",
		Rules:    rules{"ranked": {"ranked/preempts"}},
		strategy: settings(func(s *ranked.Strategy) { s.HoldOff = 0 }),
	}, {
		Name:   "designation overlooked",
		Breaks: "A candidate does not read who is designated.",
		Rules:  rules{"ranked": {"ranked/designated", "ranked/unseated"}},
		campaign: readRecord(func(r *layout.Record) {
			r.Designated = nil
		}),
	}, {
		Name:   "seat taken by an old record",
		Breaks: "A candidate takes the seat by the record that it has read, whatever that has become.",
		Rules:  rules{"ranked": {"ranked/designated"}},
		campaign: inSession(asks(func(_ context.Context, _ *backend.Session, c *commit) {
			if c.ops[0].Kind == backend.OpCreateEphemeral {
				c.conditions = nil
			}
		})),
	}, {
		Name:   "candidate that moves is not looked for",
		Breaks: "Candidates leaves out whoever has another entry by the time at which it is read.",
		Rules:  rules{"ranked": {"ranked/listed"}},
		trusted: calls(gets(func(ctx context.Context, s *backend.Session, key string) (backend.Entry, error) {
			e, err := s.Get(ctx, key)
			if errors.Is(err, backend.ErrNoEntry) && strings.Contains(key, "-") { // no seat, nor record
				return backend.Entry{Key: key, Rev: 1, Version: 1}, nil // a foreign one
			}
			return e, err
		})),
	},
}

// settings are those of a mutant whose strategy is right, and told something else.
func settings(set func(s *ranked.Strategy)) func(elector.Strategy) elector.Strategy {
	return func(s elector.Strategy) elector.Strategy {
		is := s.(ranked.Strategy)
		set(&is)
		return is
	}
}

// readAs is the campaign of a mutant that takes the entry of another candidate with a rank for something
// else: those of the leader, or those of the others.
func readAs(leader bool, worsen func(c *layout.Candidate)) campaigner {
	return inSession(answering(func(call *backend.Call) {
		isSeat := call.Key == entries.SeatKey(backend.Parent(call.Key))
		if c := layout.DecodeCandidate(call.Found.Value); isSeat == leader && len(c.Rank) > 0 {
			worsen(&c)
			call.Found.Value = c.Encode()
		}
	}, backend.CallGet))
}

// readRecord is the campaign of a mutant that reads the election's record wrongly.
func readRecord(worsen func(r *layout.Record)) campaigner {
	return inSession(answering(func(c *backend.Call) {
		if r, not := layout.DecodeRecord(c.Found.Value); not == nil {
			worsen(&r)
			c.Found.Value = r.Encode()
		}
	}, backend.CallGet))
}
