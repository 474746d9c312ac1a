package mutants

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// scaleMutants are correct for small numbers, for a while, and the first few times.
var scaleMutants = []Mutant{
	mutant("ops beyond the 64th forgotten", rules{Backend: {"scale/commit"}},
		"A commit does its first 64 ops, and returns as if all were done.",
		ofSession(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			all := c.ops
			c.ops = all[:min(len(all), 64)]
			made, err := c.by(ctx, s)
			for _, op := range all[len(c.ops):] {
				if err == nil {
					made = append(made, backend.Entry{Key: op.Key, Value: op.Value, Rev: made[0].Rev, Version: op.Version + 1})
				}
			}
			return made, err
		}))),
	mutant("update after a create forgotten", rules{Backend: {"write/random"}},
		"A commit with a CreateEphemeral before an Update does not do the Update, and returns as if it had.",
		ofSession(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			kind := func(kind backend.OpKind) int {
				return slices.IndexFunc(c.ops, func(op backend.Op) bool { return op.Kind == kind })
			}
			create, update := kind(backend.OpCreateEphemeral), kind(backend.OpUpdate)
			if create < 0 || update < create {
				return c.by(ctx, s)
			}
			forgotten := c.ops[update]
			c.ops = slices.Delete(slices.Clone(c.ops), update, update+1)
			made, err := c.by(ctx, s)
			if err != nil {
				return nil, err
			}
			e, _ := s.Get(ctx, forgotten.Key)
			e.Value = forgotten.Value
			return slices.Insert(made, update, e), nil
		}))),
	mutant("predecessor that is far away not seen", rules{Backend: {"scale/directory"}},
		"Predecessor does not find an entry whose revision is lower by more than fifty.",
		ofSession(answering(func(c *backend.Call) {
			if c.Found.Rev+50 < c.Entry.Rev {
				c.Found = backend.Entry{}
			}
		}, backend.CallPredecessor))),
	mutant("ninth awaited entry not watched", rules{Backend: {"await/several"}},
		"Await of more than eight entries waits only for the first eight.",
		ofSession(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			if len(known) <= 8 {
				return s.Await(ctx, known...)
			}
			now, err := s.Await(ctx, known[:8]...)
			return append(now, known[8:]...), err
		}))),
	mutant("ninth stranger not seen", rules{Backend: {"read/survey"}},
		"Survey returns eight strangers at most.",
		ofSession(answering(func(c *backend.Call) { c.Strangers = c.Strangers[:min(8, len(c.Strangers))] }, backend.CallSurvey))),
	mutant("version of one byte", rules{Backend: {"scale/directory"}},
		"CompareAndSet compares only the lowest eight bits of versions.",
		ofSession(asks(func(ctx context.Context, s *backend.Session, c *commit) {
			for i, op := range c.ops {
				if op.Kind != backend.OpCompareAndSet || op.Version == 0 {
					continue
				}
				if e, err := s.Get(ctx, op.Key); err == nil && uint8(e.Version) == uint8(op.Version) {
					c.ops[i].Version = e.Version
				}
			}
		}))),
	mutant("discard of what is often written to", rules{Backend: {"write/update-of-anothers"}},
		"Discard of an entry that was written to three times since its creation returns nil and does nothing.",
		ofSession(drops(func(ctx context.Context, s *backend.Session, e backend.Entry) error {
			if now, err := s.Get(ctx, e.Key); err == nil && now.Version > e.Version+2 {
				return nil
			}
			return s.Discard(ctx, e)
		}))),
	mutant("wait that goes deaf", rules{Backend: {"await/blocks"}},
		"Await does not notice a change more than half an hour after it began.",
		ofSession(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			began := time.Now()
			now, err := s.Await(ctx, known...)
			if err == nil && time.Since(began) > 30*time.Minute {
				return s.Await(ctx, backend.Entry{Key: "/never"})
			}
			return now, err
		}))),
	mutant("twentieth removal forgotten", rules{Backend: {"scale/again"}},
		"From the twentieth Discard of a session on, Discard returns nil and does nothing.",
		ofSession(func(s *backend.Session, o *over) {
			var n atomic.Int64
			drops(func(ctx context.Context, s *backend.Session, e backend.Entry) error {
				if n.Add(1) >= 20 {
					return nil
				}
				return s.Discard(ctx, e)
			})(s, o)
		})),
}

// A hoard keeps its items forever.
type hoard[T any] struct {
	mu  sync.Mutex
	all []T
}

func (h *hoard[T]) keep(some ...T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, some...)
}

// keptSessions are the sessions of one mutant.
var keptSessions hoard[*over]

// soakMutants break rules about memory that is kept after its use is over.
var soakMutants = []Mutant{
	mutant("closed sessions kept", rules{Backend: {"soak/sessions"}},
		"A process keeps every session that it has opened in memory, closed ones included.",
		ofSession(func(_ *backend.Session, o *over) { keptSessions.keep(o) })),
	mutant("entries kept that are gone", rules{Backend: {"soak/entries"}},
		"A session keeps every entry that it has written in memory, even if it is gone.",
		ofSession(func(s *backend.Session, o *over) {
			var made hoard[backend.Op]
			asks(func(_ context.Context, _ *backend.Session, c *commit) { made.keep(c.ops...) })(s, o)
		})),
	mutant("watches kept for each link", rules{Backend: {"soak/links"}},
		"A session keeps a channel for each watch that it sets, and sets all watches again on each link.",
		ofSession(func(s *backend.Session, o *over) {
			var watches hoard[chan backend.Entry]
			awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
				for range known {
					watches.keep(make(chan backend.Entry, 1))
				}
				return s.Await(ctx, known...)
			})(s, o)
		})),
	mutant("terms kept that are over", rules{"fair": {"soak/terms"}},
		"An elector keeps all its terms in memory.",
		ofElector(func(cfg elector.Config, e elector.Elector) elector.Elector {
			var terms hoard[*elector.Term]
			return campaigning(func(ctx context.Context, e elector.Elector) (*elector.Term, error) {
				t, err := e.Campaign(ctx)
				terms.keep(t)
				return t, err
			})(cfg, e)
		})),
}

// serviceMutants break rules about opening, errors, and leftovers.
var serviceMutants = []Mutant{
	mutant("open ignores its context", rules{Backend: {"session/open"}},
		"Open works even if its context has ended.",
		ofBackend(opening(func(ctx context.Context, b backend.Backend, o backend.OpenOptions) (*backend.Session, error) {
			return b.Open(context.WithoutCancel(ctx), o)
		}))),
	mutant("unreachable service is final",
		rules{Backend: {"service/down"}, "fair": {"server/unreachable-at-start", "server/outage"}},
		"An Open that reached no server returns an error that matches no sentinel.",
		ofBackend(opening(func(ctx context.Context, b backend.Backend, o backend.OpenOptions) (*backend.Session, error) {
			s, err := b.Open(ctx, o)
			return s, instead(backend.ErrUnavailable, errors.New("connection refused"))(err)
		}))),
	mutant("ended context not heeded", rules{Backend: {"errors/context"}},
		"A read works even if its context has ended.",
		ofSession(on(backend.CallGet, func(ctx context.Context, s *backend.Session, c *backend.Call) error {
			return c.By(context.WithoutCancel(ctx), s)
		}))),
	mutant("error without a key", rules{Backend: {"errors/wrapped"}},
		"Errors are bare sentinels, without the backend and the key.",
		ofSession(failing(func(err error) error {
			for _, bare := range []error{backend.ErrNoEntry, backend.ErrCondition, backend.ErrExists} {
				if errors.Is(err, bare) {
					return bare
				}
			}
			return err
		}))),
	mutant("goroutine left behind", rules{Backend: {"many/goroutines"}},
		"Each session starts a goroutine that outlives the session's Close.",
		ofSession(func(*backend.Session, *over) {
			go func() { time.Sleep(lingering) }()
		})),
	mutant("key left behind by each commit", rules{Backend: {"service/nothing-left"}, "fair": {"leave/nothing"}},
		"Each commit leaves an extra key with a kilobyte in the service.",
		ofSession(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			made, err := c.by(ctx, s)
			if err == nil {
				_, _ = s.Commit(ctx, nil, backend.CompareAndSet("/notes/"+rand.Text(), make([]byte, 1024), 0))
			}
			return made, err
		}))),
	mutant("watch left behind", rules{"fair": {"recipe/two-watches"}},
		"A wait that has ended leaves a watch in the service until the session ends.",
		ofSession(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			now, err := s.Await(ctx, known...)
			go func() { // ends with the session
				_, _ = s.Await(context.Background(), backend.Entry{Key: "/never"})
			}()
			return now, err
		}))),
}

// lingering is longer than the patience of a backend's rule. It ends, so that a bubble can end.
const lingering = 2 * time.Hour

// opening is the backend of a mutant that replaces Open.
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
