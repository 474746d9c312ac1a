package mutants

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector"
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

// A hoard keeps what it is given.
type hoard[T any] struct {
	mu  sync.Mutex
	all []T
}

func (h *hoard[T]) keep(some ...T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, some...)
}

// keptSessions are those of one mutant.
var keptSessions hoard[*over]

// soakMutants break rules about what is kept of what is over.
var soakMutants = []Mutant{
	{
		Name:    "closed sessions kept",
		Breaks:  "A process keeps each session that it has opened, closed ones included.",
		Rules:   rules{Backend: {"soak/sessions"}},
		session: calls(func(_ *backend.Session, o *over) { keptSessions.keep(o) }),
	}, {
		Name:   "entries kept that are gone",
		Breaks: "A session keeps each entry that it has made, whether or not it is gone.",
		Rules:  rules{Backend: {"soak/entries"}},
		session: calls(func(s *backend.Session, o *over) {
			var made hoard[backend.Op]
			asks(func(_ context.Context, _ *backend.Session, c *commit) { made.keep(c.ops...) })(s, o)
		}),
	}, {
		Name:   "watches kept for each link",
		Breaks: "A session keeps a channel for each watch that it sets, and sets all of them again on each link.",
		Rules:  rules{Backend: {"soak/links"}},
		session: calls(func(s *backend.Session, o *over) {
			var watches hoard[chan backend.Entry]
			awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
				for range known {
					watches.keep(make(chan backend.Entry, 1))
				}
				return s.Await(ctx, known...)
			})(s, o)
		}),
	}, {
		Name:   "terms kept that are over",
		Breaks: "An elector keeps all its terms.",
		Rules:  rules{"fair": {"soak/terms"}},
		elector: func(cfg elector.Config, e elector.Elector) elector.Elector {
			var terms hoard[*elector.Term]
			return campaigning(func(ctx context.Context, e elector.Elector) (*elector.Term, error) {
				t, err := e.Campaign(ctx)
				terms.keep(t)
				return t, err
			})(cfg, e)
		},
	},
}

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
