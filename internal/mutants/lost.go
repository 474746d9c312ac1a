package mutants

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// lostMutants break rules about requests and replies that are lost.
var lostMutants = []Mutant{
	{
		Name:   "lost reply retried as a second entry",
		Breaks: "A commit whose reply was lost is sent again as if nothing had been done.",
		Rules: rules{
			Backend: {"lost-reply/once", "lost-reply/overwritten"},
			"fair":  {"reply/lost"},
		},
		backend: lossy(func(ctx context.Context, s *backend.Session, c *lost) ([]backend.Entry, error) {
			return c.by(ctx, s)
		}),
	}, {
		Name:   "lost reply told as a failure",
		Breaks: "A commit whose reply was lost returns an error that says that nothing was written.",
		Rules: rules{
			Backend: {"lost-reply/once", "lost-reply/race", "lost-reply/deleted"},
			"fair":  {"reply/lost"},
		},
		backend: lossy(func(ctx context.Context, s *backend.Session, c *lost) ([]backend.Entry, error) {
			if c.reached {
				return nil, fmt.Errorf("%v: connection lost: %w", "memory", backend.ErrConflict)
			}
			return c.by(ctx, s)
		}),
	}, {
		Name:   "lost reply resolved by the value",
		Breaks: "A commit whose reply was lost takes what stands under its keys for its own if the value is the same.",
		Rules:  rules{Backend: {"lost-reply/refused", "lost-reply/not-mine"}},
		backend: lossy(func(ctx context.Context, s *backend.Session, c *lost) ([]backend.Entry, error) {
			var found []backend.Entry
			for _, op := range c.ops {
				e, err := s.Get(ctx, op.Key)
				if err != nil || string(e.Value) != string(op.Value) || op.Kind == backend.OpEnqueue {
					return answer(ctx, s, c)
				}
				found = append(found, e)
			}
			return found, nil
		}),
	}, {
		Name:    "late reply believed",
		Breaks:  "A commit whose reply comes late returns what it made, though somebody has removed it since.",
		Rules:   rules{Backend: {"lost-reply/deleted"}},
		backend: lossy(answer),
	}, {
		Name:   "lost request not sent again",
		Breaks: "A commit whose request was lost returns an error, though it could be sent again.",
		Rules: rules{
			Backend: {"lost-request/once"},
			"fair":  {"reply/lost-request"},
		},
		backend: lossy(func(ctx context.Context, s *backend.Session, c *lost) ([]backend.Entry, error) {
			if !c.reached {
				return nil, fmt.Errorf("memory: commit: %w", backend.ErrUnavailable)
			}
			return answer(ctx, s, c)
		}),
	}, {
		Name:   "ghost of an abandoned commit",
		Breaks: "An entry whose creation could not be reported, because the context ended, stays.",
		Rules:  rules{Backend: {"lost-reply/cancelled"}, "fair": {"cancel/lost-reply"}},
		backend: lossy(func(ctx context.Context, s *backend.Session, c *lost) ([]backend.Entry, error) {
			if c.cut != nil {
				return nil, fmt.Errorf("memory: commit: %w: %w", backend.ErrIndeterminate, c.cut)
			}
			return answer(ctx, s, c)
		}),
	}, {
		Name:   "commit given up done late",
		Breaks: "A commit that is given up before it is answered is done a second later, whatever has been done since.",
		Rules:  rules{Backend: {"late/overtaken", "late/given-up"}, "fair": {"fence/late"}},
		session: calls(commits(func(ctx context.Context, s *backend.Session, c commit) (made []backend.Entry, err error) {
			select {
			case <-time.After(time.Millisecond / 2): // of a fake clock
				if made, err = c.by(ctx, s); !errors.Is(err, backend.ErrIndeterminate) {
					return made, err
				}
			case <-ctx.Done():
				err = driver.Indeterminate(ctx.Err())
			}
			time.AfterFunc(time.Second, func() { _, _ = c.by(context.Background(), s) })
			return nil, err
		})),
	}, {
		Name:   "unknown outcome told as a failure",
		Breaks: "A commit whose outcome could not be learnt returns why, and not ErrIndeterminate.",
		Rules: rules{
			Backend: {"lost-reply/cancelled", "lost-reply/session-lost", "lost-reply/deleted"},
			"fair":  {"fence/lost-and-cut", "fence/cancel"},
		},
		session: calls(failing(func(err error) error {
			if !errors.Is(err, backend.ErrIndeterminate) {
				return err
			}
			for _, plain := range []error{context.Canceled, context.DeadlineExceeded, backend.ErrSessionLost} {
				if errors.Is(err, plain) {
					return fmt.Errorf("memory: commit: %w", plain)
				}
			}
			return fmt.Errorf("memory: commit: %w", backend.ErrNoEntry)
		})),
	}, {
		Name:    "unknown outcome ends the campaign",
		Breaks:  "A commit whose outcome could not be learnt returns an error that nobody knows.",
		Rules:   rules{Backend: {"lost-reply/cancelled"}, "fair": {"reply/lost-and-cut"}},
		session: calls(told(backend.ErrIndeterminate, errors.New("connection lost"))),
	},
}
