package mutants

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/elector-go/elector/backend"
)

// serviceMutants break rules about opening, errors, and what is left behind.
var serviceMutants = []Mutant{
	{
		Name:   "open ignores its context",
		Breaks: "Open goes on when its context has ended.",
		Rules:  rules{Backend: {"session/open"}},
		backend: opening(func(ctx context.Context, b backend.Backend, o backend.OpenOptions) (*backend.Session, error) {
			return b.Open(context.WithoutCancel(ctx), o)
		}),
	}, {
		Name:   "unreachable service is final",
		Breaks: "The error of an Open that reached no server is one that nobody knows.",
		Rules:  rules{Backend: {"service/down"}, "fair": {"server/unreachable-at-start", "server/outage"}},
		backend: opening(func(ctx context.Context, b backend.Backend, o backend.OpenOptions) (*backend.Session, error) {
			s, err := b.Open(ctx, o)
			return s, instead(backend.ErrUnavailable, errors.New("connection refused"))(err)
		}),
	}, {
		Name:   "ended context not heeded",
		Breaks: "A read whose context has ended is answered all the same.",
		Rules:  rules{Backend: {"errors/context"}},
		session: calls(gets(func(ctx context.Context, s *backend.Session, key string) (backend.Entry, error) {
			return s.Get(context.WithoutCancel(ctx), key)
		})),
	}, {
		Name:   "error without a key",
		Breaks: "An error is the bare sentinel, which names neither backend nor key.",
		Rules:  rules{Backend: {"errors/wrapped"}},
		session: calls(failing(func(err error) error {
			for _, bare := range []error{backend.ErrNoEntry, backend.ErrCondition, backend.ErrExists} {
				if errors.Is(err, bare) {
					return bare
				}
			}
			return err
		})),
	}, {
		Name:   "goroutine left behind",
		Breaks: "Each session starts a goroutine that outlives its Close.",
		Rules:  rules{Backend: {"many/goroutines"}},
		session: calls(func(*backend.Session, *over) {
			go func() { time.Sleep(lingering) }()
		}),
	}, {
		Name:   "key left behind by each commit",
		Breaks: "Each commit leaves a key of a kilobyte that nobody asked for.",
		Rules:  rules{Backend: {"service/nothing-left"}, "fair": {"leave/nothing"}},
		session: calls(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			made, err := c.by(ctx, s)
			if err == nil {
				_, _ = s.Commit(ctx, nil, backend.CompareAndSet("/notes/"+rand.Text(), make([]byte, 1024), 0))
			}
			return made, err
		})),
	}, {
		Name:   "watch left behind",
		Breaks: "A wait that has ended leaves a watch in the service until the session ends.",
		Rules:  rules{"fair": {"recipe/two-watches"}},
		session: calls(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			now, err := s.Await(ctx, known...)
			go func() { // ends with the session
				_, _ = s.Await(context.Background(), backend.Entry{Key: "/never"})
			}()
			return now, err
		})),
	},
}

// lingering is longer than a rule of a backend is patient. It ends, so that a bubble can
// be left.
const lingering = 2 * time.Hour

// opening is the backend of a mutant that opens sessions otherwise.
func opening(open func(context.Context, backend.Backend, backend.OpenOptions) (*backend.Session, error)) func(backend.Backend) backend.Backend {
	return func(b backend.Backend) backend.Backend { return &opens{below{b}, open} }
}

type opens struct {
	below
	open func(context.Context, backend.Backend, backend.OpenOptions) (*backend.Session, error)
}

func (b *opens) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	return b.open(ctx, b.Backend, o)
}
