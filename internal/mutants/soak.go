package mutants

import (
	"context"
	"sync"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

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
