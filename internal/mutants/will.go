package mutants

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector/backend"
)

// willMutants break rules about wills.
var willMutants = []Mutant{
	{
		Name:   "will said to be executed before it is",
		Breaks: "Execute returns before the service has confirmed that the session is over.",
		Rules:  rules{Backend: {"will/executed", "will/out-of-touch", "will/one", "will/again"}},
		backend: executing(func(ctx context.Context, b below, w backend.Will) error {
			go func() {
				time.Sleep(w.TTL / 100)
				_ = b.Execute(context.WithoutCancel(ctx), w) // nobody is told of it
			}()
			return nil
		}),
	}, {
		Name:   "will executed when the session times out",
		Breaks: "Execute waits until the service has dropped the session by itself.",
		Rules:  rules{Backend: {"will/executed", "will/out-of-touch"}, "fair": {"loss/process-dies"}},
		backend: executing(func(ctx context.Context, b below, w backend.Will) error {
			select {
			case <-time.After(w.TTL):
			case <-ctx.Done():
				return ctx.Err()
			}
			return b.Execute(ctx, w)
		}),
	}, {
		Name:   "will ends the next session, too",
		Breaks: "Execute ends the session of the will, and the one that was opened after it.",
		Rules:  rules{Backend: {"will/one"}},
		backend: executing(func(ctx context.Context, b below, w backend.Will) error {
			err := b.Execute(ctx, w)
			var n uint64
			if _, no := fmt.Sscanf(w.Session, "s%d", &n); no != nil {
				return err
			}
			w.Session = fmt.Sprintf("s%d", n+1) // so memory names them
			return errors.Join(err, b.Execute(ctx, w))
		}),
	}, {
		Name:   "will executed without its secret",
		Breaks: "Execute does not look at the secret.",
		Rules:  rules{Backend: {"will/wrong"}},
		backend: executing(func(ctx context.Context, b below, w backend.Will) error {
			w.Secret = nil
			return b.Execute(ctx, w)
		}),
	}, {
		Name:   "will given up while no server answers",
		Breaks: "Execute is ErrUnavailable as soon as no server answers.",
		Rules:  rules{Backend: {"will/down"}},
		backend: executing(func(ctx context.Context, b below, w backend.Will) error {
			soon, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			err := b.Execute(soon, w)
			if soon.Err() != nil {
				return backend.ErrUnavailable
			}
			return err
		}),
	},
}

// executing is the backend of a mutant that executes wills otherwise.
func executing(execute func(context.Context, below, backend.Will) error) func(backend.Backend) backend.Backend {
	return func(b backend.Backend) backend.Backend { return &executes{below{b}, execute} }
}

type executes struct {
	below
	execute func(context.Context, below, backend.Will) error
}

func (b *executes) Execute(ctx context.Context, w backend.Will) error {
	return b.execute(ctx, b.below, w)
}
