package mutants

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend"
)

// scaleMutants are right for few, for a while, and the first times.
var scaleMutants = []Mutant{
	{
		Name:   "ops beyond the 64th forgotten",
		Breaks: "A commit does its first 64 ops, and tells that all are done.",
		Rules:  rules{Backend: {"scale/commit"}},
		session: calls(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			all := c.ops
			c.ops = all[:min(len(all), 64)]
			made, err := c.by(ctx, s)
			for _, op := range all[len(c.ops):] {
				if err == nil {
					made = append(made, backend.Entry{Key: op.Key, Value: op.Value, Rev: made[0].Rev, Version: op.Version + 1})
				}
			}
			return made, err
		})),
	}, {
		Name:   "predecessor that is far away not seen",
		Breaks: "Predecessor finds none whose revision is more than fifty lower.",
		Rules:  rules{Backend: {"scale/directory"}},
		session: calls(answering(func(c *backend.Call) {
			if c.Found.Rev+50 < c.Entry.Rev {
				c.Found = backend.Entry{}
			}
		}, backend.CallPredecessor)),
	}, {
		Name:   "ninth awaited entry not watched",
		Breaks: "Await of more than eight entries waits for the first eight.",
		Rules:  rules{Backend: {"scale/waits"}},
		session: calls(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			if len(known) <= 8 {
				return s.Await(ctx, known...)
			}
			now, err := s.Await(ctx, known[:8]...)
			return append(now, known[8:]...), err
		})),
	}, {
		Name:   "wait that goes deaf",
		Breaks: "What changes later than half an hour after Await has begun is not noticed.",
		Rules:  rules{Backend: {"scale/age"}},
		session: calls(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			began := time.Now()
			now, err := s.Await(ctx, known...)
			if err == nil && time.Since(began) > 30*time.Minute {
				return s.Await(ctx, backend.Entry{Key: "/never"})
			}
			return now, err
		})),
	}, {
		Name:   "twentieth removal forgotten",
		Breaks: "A session confirms that its twentieth entry is discarded, and later ones, and does nothing.",
		Rules:  rules{Backend: {"scale/again"}},
		session: calls(func(s *backend.Session, o *over) {
			var n atomic.Int64
			drops(func(ctx context.Context, s *backend.Session, e backend.Entry) error {
				if n.Add(1) >= 20 {
					return nil
				}
				return s.Discard(ctx, e)
			})(s, o)
		}),
	},
}
