package mutants

import (
	"context"
	"errors"
	"time"

	"github.com/elector-go/elector/backend"
)

// serviceMutants break rules about opening, errors, and what is left behind.
func serviceMutants() []Mutant {
	return []Mutant{
		{
			Name:   "open ignores its context",
			Breaks: "Open goes on when its context has ended.",
			Rules:  map[string][]string{Backend: {"session/open"}},
			backend: opening(func(ctx context.Context, b backend.Backend, o backend.OpenOptions) (backend.Session, error) {
				return b.Open(context.WithoutCancel(ctx), o)
			}),
		},
		{
			Name:   "open waits for the service",
			Breaks: "Open blocks until the service is there instead of saying that it is not.",
			Rules:  map[string][]string{Backend: {"service/down"}},
			backend: opening(func(ctx context.Context, b backend.Backend, o backend.OpenOptions) (backend.Session, error) {
				for {
					s, err := b.Open(ctx, o)
					if !errors.Is(err, backend.ErrUnavailable) {
						return s, err
					}
					select {
					case <-time.After(time.Second):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
			}),
		},
		{
			Name:   "unreachable service is final",
			Breaks: "The error of an Open that reached no server is one that nobody knows.",
			Rules:  map[string][]string{Backend: {"service/down"}, "fair": {"server/unreachable-at-start", "server/none-at-start", "server/long-outage"}},
			backend: opening(func(ctx context.Context, b backend.Backend, o backend.OpenOptions) (backend.Session, error) {
				s, err := b.Open(ctx, o)
				if errors.Is(err, backend.ErrUnavailable) {
					err = errors.New("connection refused")
				}
				return s, err
			}),
		},
		{
			Name:   "ended context not heeded",
			Breaks: "A read whose context has ended is answered all the same.",
			Rules:  map[string][]string{Backend: {"errors/context"}},
			session: calls(func(s backend.Session, o *over) {
				o.get = func(ctx context.Context, key string) (backend.Entry, error) {
					return s.Get(context.WithoutCancel(ctx), key)
				}
			}),
		},
		{
			Name:   "error without a key",
			Breaks: "An error is the bare sentinel, which names neither backend nor key.",
			Rules:  map[string][]string{Backend: {"errors/wrapped"}},
			session: calls(func(s backend.Session, o *over) {
				o.mapErrors(func(err error) error {
					for _, bare := range []error{backend.ErrNoEntry, backend.ErrGuard, backend.ErrExists} {
						if errors.Is(err, bare) {
							return bare
						}
					}
					return err
				})
			}),
		},
		{
			Name:   "goroutine left behind",
			Breaks: "Each session starts a goroutine that outlives its Close.",
			Rules:  map[string][]string{Backend: {"many/goroutines"}},
			session: calls(func(backend.Session, *over) {
				go func() { time.Sleep(lingering) }()
			}),
		},
		{
			Name:   "watch left behind",
			Breaks: "A wait that has ended leaves a watch in the service until the session ends.",
			Rules:  map[string][]string{"fair": {"recipe/two-watches"}},
			session: awaits(func(s backend.Session) awaiting {
				return func(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
					now, err := s.Await(ctx, known...)
					go func() { // ends with the session
						_, _ = s.Await(context.Background(), backend.Entry{Key: "/never"})
					}()
					return now, err
				}
			}),
		},
	}
}

// lingering is longer than a rule of a backend is patient. It ends, so that a bubble can
// be left.
const lingering = 2 * time.Hour

// opening is the backend of a mutant that opens sessions otherwise.
func opening(open func(context.Context, backend.Backend, backend.OpenOptions) (backend.Session, error)) func(backend.Backend) backend.Backend {
	return func(b backend.Backend) backend.Backend { return &opens{b, open} }
}

type opens struct {
	backend.Backend
	open func(context.Context, backend.Backend, backend.OpenOptions) (backend.Session, error)
}

func (b *opens) Open(ctx context.Context, o backend.OpenOptions) (backend.Session, error) {
	return b.open(ctx, b.Backend, o)
}
