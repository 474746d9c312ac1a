package mutants

import (
	"context"
	"errors"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// fenceMutants break rules about what a term may write.
var fenceMutants = []Mutant{
	{
		Name:   "guard without conditions",
		Breaks: "Guard returns no conditions, so that a transaction of the user's own always goes through.",
		Rules:  rules{"fair": {"fence/guard"}},
		elector: onTerm(func(t *elector.Term, c *elector.TermConfig) {
			c.Guard = func() elector.Guard { return elector.Guard{Session: t.Guard().Session} }
		}),
	}, {
		Name:   "get after the end",
		Breaks: "Get reads on when the term is over.",
		Rules:  rules{"fair": {"fence/get"}},
		elector: onTerm(func(t *elector.Term, c *elector.TermConfig) {
			c.Get = func(ctx context.Context, key string) (backend.Entry, error) { return t.Guard().Session.Get(ctx, key) }
		}),
	}, {
		Name:    "bad input told without its key",
		Breaks:  "The error of a commit that cannot be right does not say what is wrong with it.",
		Rules:   rules{"fair": {"fence/bad-input"}},
		elector: commitTells(backend.ErrBadKey, backend.ErrBadKey),
	}, {
		Name:    "limit told as an unknown outcome",
		Breaks:  "A commit over a limit of the service is said to have happened, perhaps.",
		Rules:   rules{"fair": {"fence/too-large"}},
		elector: commitTells(backend.ErrTooLarge, elector.ErrIndeterminate),
	}, {
		Name:    "end of the term kept from the writer",
		Breaks:  "A commit after the term has ended does not say that it was deposed, but only that a context has ended.",
		Rules:   rules{"fair": {"fence/ended", "fence/frozen"}},
		elector: commitTells(elector.ErrDeposed, context.Canceled),
	}, {
		Name:    "refused write told to its caller only",
		Breaks:  "A term goes on after the service has refused its write for good.",
		Rules:   rules{"fair": {"fence/frozen"}},
		trusted: calls(told(backend.ErrCondition, errors.New("refused"))),
	}, {
		Name:   "queued write without its guards",
		Breaks: "A commit that waits for the link loses its conditions meanwhile.",
		Rules:  rules{"fair": {"fence/queued"}},
		session: calls(asks(func(_ context.Context, s *backend.Session, c *commit) {
			if s.State() == backend.Suspended && len(c.ops) > 0 {
				c.conditions = nil
			}
		})),
	}, {
		Name:   "proclaimed value not published",
		Breaks: "Proclaim returns nil and writes nothing.",
		Rules:  rules{"fair": {"term/proclaim", "view/observe"}},
		elector: onTerm(func(t *elector.Term, c *elector.TermConfig) {
			c.Proclaim = func(context.Context, []byte) error { return nil }
		}),
	},
}

// commitTells is the elector of a mutant whose terms tell an error of Commit as another.
func commitTells(err, as error) electorOf {
	return onTerm(func(t *elector.Term, c *elector.TermConfig) {
		c.Commit = func(ctx context.Context, ops ...elector.Op) ([]backend.Entry, error) {
			made, failed := t.Commit(ctx, ops...)
			return made, instead(err, as)(failed)
		}
	})
}
