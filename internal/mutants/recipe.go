package mutants

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/entries"
	"github.com/elector-go/elector/strategy/ranked"
)

// recipeMutants break rules about who waits for whom.
var recipeMutants = []Mutant{
	mutant("all woken", rules{"fair": {"recipe/one-wake-up", "recipe/withdrawal-wakes-one", "recipe/joining-wakes-nobody"}},
		"A candidate waits for any change of the directory, not only for its predecessor to go.",
		ofCampaign(anyChange)),
	mutant("all woken, whoever is better",
		rules{"ranked": {"recipe/withdrawal-wakes-one", "recipe/joining-wakes-nobody", "ranked/newcomer", "ranked/wakes-few"}},
		"A candidate waits for any change of the directory, not only for a better candidate to go.",
		ofCampaign(anyChange)),
	mutant("mark that nobody needs", rules{"unfair": {"recipe/herd"}},
		"A candidate that takes the seat writes to it once more, which wakes everybody a second time.",
		ofCampaign(claiming(func(c *strategy.Claim) {
			time.Sleep(time.Millisecond) // of a fake clock: the others hear of the seat before the mark, not of both at once
			c.MarkLeader = true
		}))),
	mutant("list read at each news", rules{"fair": {"recipe/observing"}},
		"An observer lists the directory whenever the leader's entry changes.",
		ofTrusted(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			now, err := s.Await(ctx, known...)
			if err == nil {
				_, err = s.List(ctx, backend.Parent(known[0].Key))
			}
			return now, err
		}))),
	mutant("one step back at each wake-up", rules{"fair": {"term/order", "run/failing-candidates"}},
		"Every second candidate enrols again, at the end of the line, when it is woken.",
		ofCampaign(func(ctx context.Context, c *strategy.Candidacy, inner campaign) (strategy.Claim, error) {
			steps := c.ID[len(c.ID)-1]%2 == 0
			return inSession(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
				now, err := s.Await(ctx, known...)
				if err == nil && steps && len(now) == 2 && now[0].Exists() && !now[1].Exists() {
					steps = false
					_, err = s.Commit(ctx, nil, backend.Delete(now[0]))
					now[0] = backend.Entry{Key: now[0].Key}
				}
				return now, err
			}))(ctx, c, inner)
		})),
	mutant("waits for foreign seats", rules{"unfair": {"data/foreign-seat"}},
		"A candidate waits for a foreign entry on the seat, which no session will ever remove.",
		ofCampaign(inSession(answering(func(c *backend.Call) {
			for i, e := range c.Entries {
				if e.Exists() && e.Session == "" {
					c.Entries[i].Session = "somebody"
				}
			}
		}, backend.CallAwait)))),
	mutant("missing directory is final", rules{"fair": {"data/election-deleted"}},
		"A candidate that finds the election's directory gone gives up with an error that matches no sentinel.",
		ofCampaign(inSession(told(backend.ErrNoParent, errors.New("no such directory"))))),
	mutant("equal ID taken for the own earlier self", rules{"fair": {"term/same-id"}},
		"A candidate that enters removes the entries of other candidates with its ID.",
		ofCampaign(func(ctx context.Context, c *strategy.Candidacy, inner campaign) (strategy.Claim, error) {
			l, err := c.Session.List(ctx, c.Dir)
			if err != nil {
				return strategy.Claim{}, err
			}
			for _, key := range l.Keys {
				e, err := c.Session.Get(ctx, key)
				if err == nil && layout.DecodeCandidate(e.Value).ID == c.ID {
					// Another process may have been faster.
					_, _ = c.Session.Commit(ctx, nil, backend.Delete(e))
				}
			}
			return inner(ctx, c)
		})),
	mutant("cancelled campaign keeps its entry", of(func(of strategy.Traits) bool { return of.Lists }, "leave/withdraw", "cancel/deadline", "cancel/handover"),
		"A candidate that is cancelled while it waits leaves its entry in the line.",
		ofTrusted(drops(func(context.Context, *backend.Session, backend.Entry) error { return nil }))),
}

// anyChange wakes every waiting candidate at each change of the directory.
var anyChange = inSession(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
	for {
		l, err := s.List(ctx, backend.Parent(known[0].Key))
		if err != nil {
			return nil, err
		}
		read, err := now(ctx, s, known)
		if err != nil || differ(read, known) {
			return read, err
		}
		if _, err := s.AwaitList(ctx, l); err != nil {
			return nil, err
		}
	}
}))

// directoryMutants break the recipe in which all candidates watch the directory.
var directoryMutants = []Mutant{
	mutant("listed once", rules{"parentwatch": {"term/order", "leave/withdraw", "data/predecessor-gone"}},
		"A candidate remembers who was before it when it arrived, and leads when that candidate goes, even if others are still before it.",
		ofCampaign(listed(func(me string, before *string, l *backend.Listing) {
			i := slices.Index(l.Keys, me)
			switch {
			case i > 0 && *before == "":
				*before = l.Keys[i-1]
			case i > 0 && !slices.Contains(l.Keys, *before):
				l.Keys = l.Keys[i:]
			}
		}))),
	mutant("win as the second", rules{"parentwatch": {"term/order", "data/waiting-deleted"}},
		"A candidate leads when one other candidate is before it.",
		// The leaders take turns without end, all at one instant.
		endless("run/failing-candidates"),
		ofCampaign(listed(func(me string, _ *string, l *backend.Listing) {
			if slices.Index(l.Keys, me) == 1 {
				l.Keys = l.Keys[1:]
			}
		}))),
	mutant("win without being listed", rules{"parentwatch": {"data/waiting-deleted", "loss/at-handover", "loss/after-handover"}},
		"A candidate that does not find its own entry in the listing treats it as the oldest.",
		ofCampaign(listed(func(me string, _ *string, l *backend.Listing) {
			if !slices.Contains(l.Keys, me) {
				l.Keys = append([]string{me}, l.Keys...)
			}
		}))),
}

// listed is the campaign of a mutant that changes each listing. me is the key of its entry, and noted is
// what it has noted before.
func listed(worsen func(me string, noted *string, l *backend.Listing)) campaigner {
	return inSession(func(s *backend.Session, o *over) {
		me, noted := "", ""
		all(answering(func(c *backend.Call) {
			if c.Ops[0].Kind == backend.OpEnqueue {
				me = c.Entries[0].Key
			}
		}, backend.CallCommit), answering(func(c *backend.Call) {
			worsen(me, &noted, &c.Listing)
		}, backend.CallList, backend.CallAwaitList))(s, o)
	})
}

// rankedMutants break the recipe in which the best candidate leads.
var rankedMutants = []Mutant{
	mutant("rank not read", rules{"ranked": {"ranked/best-leads"}},
		"A candidate reads the ranks of all others as empty.",
		ofCampaign(readAs(func(c *layout.Candidate) { c.Rank = nil }))),
	mutant("rank as it was", rules{"ranked": {"ranked/changes", "ranked/negative", "ranked/quorum"}},
		"A candidate does not notice that its rank has changed.",
		ofStrategy(settings(func(s *ranked.Strategy) { s.Rank = ranked.NewRank(s.Rank.Numbers()...) }))),
	mutant("rank below zero read as zero", rules{"ranked": {"ranked/negative", "ranked/quorum"}},
		"A candidate waits for another that never leads, and counts it in the quorum.",
		ofCampaign(readAs(func(c *layout.Candidate) { c.Rank[0] = max(c.Rank[0], 0) }))),
	mutant("quorum ignored", rules{"ranked": {"ranked/quorum"}},
		"A candidate leads without a quorum.",
		ofStrategy(settings(func(s *ranked.Strategy) { s.Quorum = 0 }))),
	mutant("unseats unasked", rules{"ranked": {"ranked/preempts", "ranked/designated"}},
		"The best candidate asks a leader of lower rank to go without Preempt.",
		ofStrategy(settings(func(s *ranked.Strategy) { s.Preempt = true }))),
	mutant("never unseats", rules{"ranked": {"ranked/preempts", "ranked/designated"}},
		"The best candidate asks no leader to go, even with Preempt.",
		ofStrategy(settings(func(s *ranked.Strategy) { s.Preempt = false }))),
	mutant("hold-off ignored", rules{"ranked": {"ranked/preempts"}},
		"The best candidate asks a leader of lower rank to go at once, without the hold-off.",
		ofStrategy(settings(func(s *ranked.Strategy) { s.HoldOff = 0 }))),
	mutant("designation overlooked", rules{"ranked": {"ranked/designated"}},
		"A candidate does not read who is designated.",
		ofCampaign(inSession(answering(func(c *backend.Call) {
			if r, not := layout.DecodeRecord(c.Found.Value); not == nil {
				r.Designated = nil
				c.Found.Value = r.Encode()
			}
		}, backend.CallGet)))),
	mutant("seat taken by an old record", rules{"ranked": {"ranked/designated"}},
		"A candidate takes the seat by the record that it has read, even if the record has changed since.",
		ofCampaign(inSession(asks(func(_ context.Context, _ *backend.Session, c *commit) {
			if c.ops[0].Kind == backend.OpCreateEphemeral {
				c.conditions = nil
			}
		})))),
	mutant("candidate that moves is not looked for", rules{"ranked": {"ranked/listed"}},
		"Candidates leaves out a candidate that gets another entry before its old one is read.",
		ofTrusted(on(backend.CallGet, func(ctx context.Context, s *backend.Session, c *backend.Call) error {
			err := c.By(ctx, s)
			if isNoEntry(err) && strings.Contains(c.Key, "-") { // neither seat nor record
				c.Found, err = backend.Entry{Key: c.Key, Rev: 1, Version: 1}, nil // a foreign one
			}
			return err
		}))),
}

// settings is a fault of configuration: the strategy is correct, but has other settings.
func settings(set func(s *ranked.Strategy)) func(strategy.Strategy) strategy.Strategy {
	return func(s strategy.Strategy) strategy.Strategy {
		is := s.(ranked.Strategy)
		set(&is)
		return is
	}
}

// readAs is the campaign of a mutant that misreads the entry of another candidate that has a rank and does
// not lead.
func readAs(worsen func(c *layout.Candidate)) campaigner {
	return inSession(answering(func(call *backend.Call) {
		isSeat := call.Key == entries.SeatKey(backend.Parent(call.Key))
		if c := layout.DecodeCandidate(call.Found.Value); !isSeat && len(c.Rank) > 0 {
			worsen(&c)
			call.Found.Value = c.Encode()
		}
	}, backend.CallGet))
}
