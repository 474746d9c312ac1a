package mutants

import (
	"context"
	"slices"
	"strconv"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// tokenMutants break rules about tokens and epochs.
func tokenMutants() []Mutant {
	return []Mutant{
		{
			Name:     "token repeats",
			Breaks:   "Two terms that follow one another can have the same token.",
			Rules:    map[string][]string{"fair": {"term/token"}, "kafka": {"term/token", "epoch/dense"}},
			campaign: claiming(func(c *elector.Claim) { c.Token = c.Token/4 + 1 }),
		},
		{
			Name:   "token from a restarting counter",
			Breaks: "Tokens count from the founding of the election, and begin anew with the next one.",
			Rules:  map[string][]string{"fair": {"term/token"}, "unfair": {"term/token"}},
			campaign: func(ctx context.Context, c *elector.Candidacy, inner campaign) (elector.Claim, error) {
				claim, err := inner(ctx, c)
				if err != nil {
					return claim, err
				}
				if dir, err := c.Session.Get(ctx, c.Dir); err == nil {
					claim.Token -= dir.Rev
				}
				return claim, nil
			},
		},
		{
			Name:   "epoch begins anew with each founder",
			Breaks: "A candidate that finds nobody there begins to count from 1.",
			Rules:  map[string][]string{"kafka": {"epoch/dense", "epoch/restart", "term/token"}},
			campaign: inSession(func(s *backend.Session, o *over) {
				first := true
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					if first && len(ops) == 2 {
						ops = slices.Clone(ops)
						ops[0].Value = []byte("1")
					}
					return s.Commit(ctx, guards, ops...)
				}
				o.await = func(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
					now, err := s.Await(ctx, known...)
					if err == nil && now[0].Exists() {
						first = false // somebody leads
					}
					if err == nil && first && now[1].Exists() {
						now[1].Value = []byte("0")
					}
					return now, err
				}
			}),
		},
		{
			Name:   "epoch raised by two",
			Breaks: "A claim raises the epoch by two.",
			Rules:  map[string][]string{"kafka": {"epoch/dense", "epoch/stalled-claim", "epoch/restart"}},
			campaign: inSession(func(s *backend.Session, o *over) {
				o.await = func(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
					now, err := s.Await(ctx, known...)
					if err == nil && now[1].Exists() {
						last, _ := strconv.Atoi(string(now[1].Value)) // what is no number stays refused
						now[1].Value = strconv.AppendInt(nil, int64(last+1), 10)
					}
					return now, err
				}
			}),
		},
		{
			Name:   "claim in two steps",
			Breaks: "The epoch is raised first, and the seat taken then.",
			Rules:  map[string][]string{"kafka": {"epoch/stalled-claim"}},
			campaign: inSession(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					var made []backend.Entry
					for _, op := range ops {
						one, err := s.Commit(ctx, guards, op)
						if err != nil {
							return nil, err
						}
						made = append(made, one...)
					}
					return made, nil
				}
			}),
		},
		{
			Name:   "claim without the epoch's condition",
			Breaks: "The writes of a term are not bound to its epoch.",
			Rules:  map[string][]string{"kafka": {"epoch/raised"}},
			campaign: claiming(func(c *elector.Claim) {
				c.Conditions = []backend.Condition{backend.IfExists(c.Entry)}
			}),
		},
		{
			Name:     "claim without conditions",
			Breaks:   "The writes of a term are bound to nothing.",
			Rules:    map[string][]string{"unfair": {"fence/frozen", "fence/stalled", "fence/race"}},
			campaign: claiming(func(c *elector.Claim) { c.Conditions = nil }),
		},
	}
}
