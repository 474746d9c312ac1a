package mutants

import (
	"context"
	"errors"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
)

// recipeMutants break rules about who waits for whom.
var recipeMutants = []Mutant{
	{
		Name:     "all woken",
		Breaks:   "A candidate waits for any change of the directory instead of its predecessor's going.",
		Rules:    rules{"fair": {"recipe/one-wake-up", "recipe/withdrawal-wakes-one", "recipe/joining-wakes-nobody"}},
		campaign: anyChange,
	}, {
		Name:     "all woken, whoever is better",
		Breaks:   "A candidate waits for any change of the directory instead of one that is better.",
		Rules:    rules{"ranked": {"recipe/withdrawal-wakes-one", "recipe/joining-wakes-nobody", "ranked/newcomer", "ranked/wakes-few"}},
		campaign: anyChange,
	}, {
		Name:   "mark that nobody needs",
		Breaks: "Whoever takes the seat writes to it once more, which wakes everybody a second time.",
		Rules:  rules{"unfair": {"recipe/herd"}},
		campaign: claiming(func(c *elector.Claim) {
			time.Sleep(time.Millisecond) // of a fake clock: the others hear of the seat, lest both come as one
			c.MarkLeader = true
		}),
	}, {
		Name:   "list read at each news",
		Breaks: "Who observes lists the directory whenever the leader's entry has changed.",
		Rules:  rules{"fair": {"recipe/observing"}},
		trusted: calls(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			now, err := s.Await(ctx, known...)
			if err == nil {
				_, err = s.List(ctx, backend.Parent(known[0].Key))
			}
			return now, err
		})),
	}, {
		Name:   "one step back at each wake-up",
		Breaks: "Every second candidate enrols again when it is woken, at the end of the line.",
		Rules:  rules{"fair": {"term/order", "run/failing-candidates"}},
		campaign: func(ctx context.Context, c *elector.Candidacy, inner campaign) (elector.Claim, error) {
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
		},
	}, {
		Name:   "waits for foreign seats",
		Breaks: "A candidate waits for an entry on the seat that nobody's session will ever take away.",
		Rules:  rules{"unfair": {"data/foreign-seat"}},
		campaign: inSession(answering(func(c *backend.Call) {
			for i, e := range c.Entries {
				if e.Exists() && e.Session == "" {
					c.Entries[i].Session = "somebody"
				}
			}
		}, backend.CallAwait)),
	}, {
		Name:     "missing directory is final",
		Breaks:   "A candidate that finds the election's directory gone gives up with an error that nobody knows.",
		Rules:    rules{"fair": {"data/election-deleted", "data/deleted-at-enrolment"}},
		campaign: inSession(told(backend.ErrNoParent, errors.New("no such directory"))),
	}, {
		Name:   "equal ID taken for the own earlier self",
		Breaks: "A candidate that enters removes the entries of those who have its ID.",
		Rules:  rules{"fair": {"term/same-id"}},
		campaign: func(ctx context.Context, c *elector.Candidacy, inner campaign) (elector.Claim, error) {
			l, err := c.Session.List(ctx, c.Dir)
			if err != nil {
				return elector.Claim{}, err
			}
			for _, key := range l.Keys {
				e, err := c.Session.Get(ctx, key)
				if err == nil && layout.DecodeCandidate(e.Value).ID == c.ID {
					// Somebody may have been faster.
					_, _ = c.Session.Commit(ctx, nil, backend.Delete(e))
				}
			}
			return inner(ctx, c)
		},
	}, {
		Name:    "cancelled campaign keeps its entry",
		Breaks:  "A candidate that is cancelled while it waits leaves its entry in the line.",
		Rules:   rules{"fair": {"leave/withdraw", "cancel/deadline", "cancel/handover"}},
		trusted: calls(drops(func(context.Context, *backend.Session, backend.Entry) error { return nil })),
	},
}

// anyChange has whoever waits be woken by each change of the directory.
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
