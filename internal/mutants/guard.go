package mutants

import (
	"context"
	"time"

	"github.com/elector-go/elector/backend"
)

// guardMutants break rules about conditions, and about the removal of entries.
var guardMutants = []Mutant{
	{
		Name:    "held asks for the version",
		Breaks:  "The condition that an entry exists fails when it has a new value.",
		Rules:   rules{Backend: {"condition/holds"}, "fair": {"fence/guard"}},
		session: calls(exact(true)),
	}, {
		Name:    "unchanged asks for no version",
		Breaks:  "The condition that an entry is unchanged holds as long as there is the entry.",
		Rules:   rules{Backend: {"condition/holds"}, "kafka": {"epoch/raised"}},
		session: calls(exact(false)),
	}, {
		Name:   "question not asked",
		Breaks: "A commit of guards without ops always succeeds.",
		Rules:  rules{Backend: {"condition/holds"}, "fair": {"fence/guard"}},
		session: calls(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			if len(c.ops) == 0 {
				return nil, nil
			}
			return c.by(ctx, s)
		})),
	}, {
		Name:   "drop not confirmed",
		Breaks: "Drop returns at once and does its work a little later.",
		Rules:  rules{Backend: {"discard/confirmed"}, "fair": {"leave/withdraw", "cancel/every-stage"}},
		session: calls(drops(func(ctx context.Context, s *backend.Session, e backend.Entry) error {
			time.AfterFunc(s.TTL()/20, func() { _ = s.Discard(context.WithoutCancel(ctx), e) })
			return nil
		})),
	}, {
		Name:   "drop of anybody's",
		Breaks: "Drop removes an entry that is another session's, or nobody's.",
		Rules:  rules{Backend: {"discard/confirmed"}},
		session: calls(drops(func(ctx context.Context, s *backend.Session, e backend.Entry) error {
			if e.Session == s.ID() {
				return s.Discard(ctx, e)
			}
			_, err := s.Commit(ctx, nil, backend.Delete(e))
			return err
		})),
	}, {
		Name:   "drop given up with its context",
		Breaks: "A Drop whose context ends before it could be sent is not done in the background.",
		Rules:  rules{Backend: {"discard/background"}, "fair": {"cancel/out-of-touch"}},
		session: calls(drops(func(ctx context.Context, s *backend.Session, e backend.Entry) error {
			if _, err := s.Get(ctx, e.Key); err != nil && !isNoEntry(err) {
				return err
			}
			return s.Discard(ctx, e)
		})),
	}, {
		Name:   "withdrawn entry forgotten",
		Breaks: "Drop says that the entry is gone, and removes nothing.",
		Rules:  rules{Backend: {"discard/confirmed"}, "fair": {"leave/withdraw", "cancel/handover", "sharing/close-one"}},
		session: calls(drops(func(ctx context.Context, s *backend.Session, e backend.Entry) error {
			_, err := s.Get(ctx, e.Key) // for the errors of the call itself
			if isNoEntry(err) {
				return nil
			}
			return err
		})),
	},
}

// exact has all guards ask for the version, or none.
func exact(all bool) worsening {
	return asks(func(_ context.Context, _ *backend.Session, c *commit) {
		for i := range c.conditions {
			c.conditions[i].Exact = all
		}
	})
}
