package mutants

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
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
			backend: opening(func(ctx context.Context, b backend.Backend, o backend.OpenOptions) (*backend.Session, error) {
				return b.Open(context.WithoutCancel(ctx), o)
			}),
		},
		{
			Name:   "open waits for the service",
			Breaks: "Open blocks until the service is there instead of saying that it is not.",
			Rules:  map[string][]string{Backend: {"service/down"}},
			backend: opening(func(ctx context.Context, b backend.Backend, o backend.OpenOptions) (*backend.Session, error) {
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
			backend: opening(func(ctx context.Context, b backend.Backend, o backend.OpenOptions) (*backend.Session, error) {
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
			session: calls(func(s *backend.Session, o *over) {
				o.get = func(ctx context.Context, key string) (backend.Entry, error) {
					return s.Get(context.WithoutCancel(ctx), key)
				}
			}),
		},
		{
			Name:   "error without a key",
			Breaks: "An error is the bare sentinel, which names neither backend nor key.",
			Rules:  map[string][]string{Backend: {"errors/wrapped"}},
			session: calls(func(s *backend.Session, o *over) {
				o.mapErrors(func(err error) error {
					for _, bare := range []error{backend.ErrNoEntry, backend.ErrCondition, backend.ErrExists} {
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
			session: calls(func(*backend.Session, *over) {
				go func() { time.Sleep(lingering) }()
			}),
		},
		{
			Name:   "key left behind by each commit",
			Breaks: "Each commit leaves a key of a kilobyte that nobody asked for.",
			Rules:  map[string][]string{Backend: {"service/nothing-left"}, "fair": {"leave/nothing"}},
			session: notes(func(ctx context.Context, s *backend.Session) {
				_, _ = s.Commit(ctx, nil, backend.CompareAndSet("/notes/"+rand.Text(), make([]byte, 1024), 0))
			}),
		},
		{
			Name:   "commits noted down",
			Breaks: "Each commit makes one key longer that nobody asked for.",
			Rules:  map[string][]string{Backend: {"service/nothing-left"}, "kafka": {"leave/nothing"}},
			session: notes(func(ctx context.Context, s *backend.Session) {
				if e, err := s.Get(ctx, "/notes"); err == nil || isNoEntry(err) {
					_, _ = s.Commit(ctx, nil, backend.CompareAndSet("/notes", append(slices.Clone(e.Value), make([]byte, 100)...), e.Version))
				}
			}),
		},
		{
			Name:   "key left behind by each session",
			Breaks: "Close leaves a key in the service that tells of the session.",
			Rules:  map[string][]string{Backend: {"service/nothing-left"}, "fair": {"leave/nothing"}},
			session: calls(func(s *backend.Session, o *over) {
				o.close = func(ctx context.Context) error {
					_, _ = s.Commit(ctx, nil, backend.CompareAndSet("/notes/"+s.ID(), nil, 0))
					return s.Close(ctx)
				}
			}),
		},
		{
			Name:   "watch left behind",
			Breaks: "A wait that has ended leaves a watch in the service until the session ends.",
			Rules:  map[string][]string{"fair": {"recipe/two-watches"}},
			session: awaits(func(s *backend.Session) awaiting {
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

// notes has a session do something beside each commit that was done.
func notes(note func(ctx context.Context, s *backend.Session)) *opener {
	return calls(func(s *backend.Session, o *over) {
		o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
			made, err := s.Commit(ctx, guards, ops...)
			if err == nil {
				note(ctx, s)
			}
			return made, err
		}
	})
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
