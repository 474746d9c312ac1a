package mutants

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
	"github.com/elector-go/elector/backend/memory"
)

// lostMutants break rules about requests and replies that are lost.
var lostMutants = []Mutant{
	mutant("old place told for the new one", rules{Backend: {"lost-reply/crowd"}},
		"For an entry that was enqueued in one commit with the deletion of another, Predecessor returns that one's predecessor.",
		ofSession(func(s *backend.Session, o *over) {
			var was sync.Map // by the new key
			all(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
				if len(c.ops) != 2 || c.ops[0].Kind != backend.OpEnqueue || c.ops[1].Kind != backend.OpDelete {
					return c.by(ctx, s)
				}
				p, err := s.Predecessor(ctx, backend.Entry{Key: c.ops[1].Key, Rev: c.ops[1].Rev})
				made, failed := c.by(ctx, s)
				if err == nil && failed == nil {
					was.Store(made[0].Key, p)
				}
				return made, failed
			}), on(backend.CallPredecessor, func(ctx context.Context, s *backend.Session, c *backend.Call) error {
				if p, moved := was.Load(c.Key); moved {
					c.Found = p.(backend.Entry)
					return nil
				}
				return c.By(ctx, s)
			}))(s, o)
		})),
	mutant("lost reply retried as a second entry",
		rules{Backend: {"lost-reply/once", "lost-reply/overwritten"}, "fair": {"reply/lost"}},
		"A commit whose reply was lost is sent again as if it had not been done.",
		ofBackend(lossy(func(ctx context.Context, s *backend.Session, c *lost) ([]backend.Entry, error) {
			return c.by(ctx, s)
		}))),
	mutant("lost reply told as a failure",
		rules{Backend: {"lost-reply/once", "lost-reply/race", "lost-reply/deleted"}, "fair": {"reply/lost"}},
		"A commit whose reply was lost returns an error that means that nothing was written.",
		ofBackend(lossy(func(ctx context.Context, s *backend.Session, c *lost) ([]backend.Entry, error) {
			if c.reached {
				return nil, fmt.Errorf("memory: connection lost: %w", backend.ErrConflict)
			}
			return c.by(ctx, s)
		}))),
	mutant("lost reply resolved by the value", rules{Backend: {"lost-reply/refused", "lost-reply/not-mine"}},
		"A commit whose reply was lost treats the entries under its keys as its own if they have its values.",
		ofBackend(lossy(func(ctx context.Context, s *backend.Session, c *lost) ([]backend.Entry, error) {
			var found []backend.Entry
			for _, op := range c.ops {
				e, err := s.Get(ctx, op.Key)
				if err != nil || string(e.Value) != string(op.Value) || op.Kind == backend.OpEnqueue {
					return answer(ctx, s, c)
				}
				found = append(found, e)
			}
			return found, nil
		}))),
	mutant("late reply believed", rules{Backend: {"lost-reply/deleted"}},
		"A commit whose reply comes late returns what it created even if somebody has deleted that since.",
		ofBackend(lossy(answer))),
	mutant("lost request not sent again", rules{Backend: {"lost-request/once"}, "fair": {"reply/lost-request"}},
		"A commit whose request was lost returns an error instead of sending the request again.",
		ofBackend(lossy(func(ctx context.Context, s *backend.Session, c *lost) ([]backend.Entry, error) {
			if !c.reached {
				return nil, fmt.Errorf("memory: commit: %w", backend.ErrUnavailable)
			}
			return answer(ctx, s, c)
		}))),
	mutant("ghost of an abandoned commit", rules{Backend: {"lost-reply/cancelled"}, "fair": {"cancel/lost-reply"}},
		"An entry whose creation was not reported, because the context ended, stays.",
		ofBackend(lossy(func(ctx context.Context, s *backend.Session, c *lost) ([]backend.Entry, error) {
			if c.cut != nil {
				return nil, fmt.Errorf("memory: commit: %w: %w", backend.ErrIndeterminate, c.cut)
			}
			return answer(ctx, s, c)
		}))),
	mutant("ghost of a deadline", rules{Backend: {"lost-reply/cancelled"}},
		"An entry whose creation was not reported, because a deadline passed, stays.",
		ofBackend(lossy(func(ctx context.Context, s *backend.Session, c *lost) ([]backend.Entry, error) {
			if errors.Is(c.cut, context.DeadlineExceeded) {
				return nil, driver.Indeterminate(c.cut)
			}
			return answer(ctx, s, c)
		}))),
	mutant("done and told as denied", rules{Backend: {"lost-reply/denied"}},
		"A commit whose reply was lost returns only ErrDenied if the service denies the session's requests since.",
		ofBackend(lossy(func(ctx context.Context, s *backend.Session, c *lost) ([]backend.Entry, error) {
			if errors.Is(c.cut, backend.ErrDenied) {
				return nil, c.cut
			}
			return answer(ctx, s, c)
		}))),
	mutant("request lost again told as a conflict", rules{Backend: {"lost-request/once"}},
		"A commit whose request was lost twice returns ErrConflict.",
		ofBackend(lossy(func(ctx context.Context, s *backend.Session, c *lost) ([]backend.Entry, error) {
			if c.again {
				return nil, fmt.Errorf("memory: commit: %w", backend.ErrConflict)
			}
			return answer(ctx, s, c)
		}))),
	mutant("late entry stays", rules{Backend: {"late/left"}},
		"A commit of one ephemeral entry that was given up is applied a second later, and the entry stays.",
		ofSession(doneLate(func(all []*givenUp, ops []backend.Op) {
			for _, g := range all {
				g.overtaken = true
			}
		}, func(op backend.Op) bool { return op.Ephemeral() }))),
	mutant("overtaken by its first op alone", rules{Backend: {"late/overtaken"}},
		"A commit that was given up is applied late, unless the first op of a later commit has one of its keys.",
		ofSession(doneLate(func(all []*givenUp, ops []backend.Op) {
			for _, g := range all {
				g.overtaken = g.overtaken || g.about(ops[0].Key)
			}
		}, writes))),
	mutant("last one overtaken alone", rules{Backend: {"late/overtaken"}},
		"Of several commits that were given up, a later commit overtakes only the one that was given up last.",
		ofSession(doneLate(func(all []*givenUp, ops []backend.Op) {
			for _, op := range ops {
				last := all[len(all)-1]
				last.overtaken = last.overtaken || last.about(op.Key)
			}
		}, writes))),
	mutant("commit given up done late", rules{Backend: {"late/overtaken", "late/given-up"}, "fair": {"fence/late"}},
		"A commit that is given up before its reply is applied a second later, even after later commits.",
		ofSession(commits(func(ctx context.Context, s *backend.Session, c commit) (made []backend.Entry, err error) {
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
		}))),
	mutant("unknown outcome told as a failure",
		rules{Backend: {"lost-reply/cancelled", "lost-reply/session-lost", "lost-reply/deleted"}, "fair": {"fence/lost-and-cut", "fence/cancel"}},
		"A commit whose outcome is unknown returns the reason for that, without ErrIndeterminate.",
		ofSession(failing(func(err error) error {
			if !errors.Is(err, backend.ErrIndeterminate) {
				return err
			}
			for _, plain := range []error{context.Canceled, context.DeadlineExceeded, backend.ErrSessionLost} {
				if errors.Is(err, plain) {
					return fmt.Errorf("memory: commit: %w", plain)
				}
			}
			return fmt.Errorf("memory: commit: %w", backend.ErrNoEntry)
		}))),
	mutant("unknown outcome ends the campaign", rules{Backend: {"lost-reply/cancelled"}, "fair": {"reply/lost-and-cut"}},
		"A commit whose outcome is unknown returns an error that matches no sentinel.",
		ofSession(told(backend.ErrIndeterminate, errors.New("connection lost")))),
}

// A givenUp is a commit that its caller gave up while its request was pending.
type givenUp struct {
	commit
	overtaken bool
}

// about reports whether g has an op on key.
func (g *givenUp) about(key string) bool {
	return slices.ContainsFunc(g.ops, func(op backend.Op) bool { return op.Key == key })
}

// writes reports whether an op is about an existing entry.
func writes(op backend.Op) bool { return !op.Ephemeral() }

// doneLate repeats a given-up commit after one second, if pick picks its only op, unless overtakes has marked
// the commit when a later one succeeded.
func doneLate(overtakes func(all []*givenUp, later []backend.Op), pick func(backend.Op) bool) worsening {
	return func(s *backend.Session, o *over) {
		var mu sync.Mutex
		var all []*givenUp
		commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			made, err := c.by(ctx, s)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && len(all) > 0 && len(c.ops) > 0:
				overtakes(all, c.ops)
			case errors.Is(err, backend.ErrIndeterminate) && ctx.Err() != nil && len(c.ops) == 1 && pick(c.ops[0]):
				g := &givenUp{commit: c}
				all = append(all, g)
				time.AfterFunc(time.Second, func() {
					mu.Lock()
					defer mu.Unlock()
					if !g.overtaken {
						_, _ = g.by(context.Background(), s)
					}
				})
			}
			return made, err
		})(s, o)
	}
}

// link is what a client can do with its link to the service.
type link interface {
	Suspend()
	Resume()
}

// lost is a commit whose reply or request was lost.
type lost struct {
	commit
	again   bool // its request was lost twice
	reached bool // the service has done it and replied:
	made    []backend.Entry
	err     error
	cut     error // why the process gave up before the link was back
}

// answer resolves a loss correctly, except that nobody checks whether the entries still exist.
func answer(ctx context.Context, s *backend.Session, c *lost) ([]backend.Entry, error) {
	switch {
	case !c.reached:
		return c.by(ctx, s)
	case c.err != nil:
		return nil, c.err
	case c.cut != nil:
		for _, e := range c.made {
			if e.Session != "" {
				_ = s.Discard(ctx, e) // continues in the background
			}
		}
		return nil, driver.Indeterminate(c.cut)
	}
	return c.made, nil
}

// lossy is the backend of a mutant that handles losses wrongly.
func lossy(resolve func(ctx context.Context, s *backend.Session, c *lost) ([]backend.Entry, error)) func(backend.Backend) backend.Backend {
	return func(b backend.Backend) backend.Backend { return &losing{below: below{b}, resolve: resolve} }
}

// losing is a process whose losses are armed here and not at the client below, because its handling of
// losses is the fault.
type losing struct {
	below
	resolve func(context.Context, *backend.Session, *lost) ([]backend.Entry, error)

	mu    sync.Mutex
	armed []loss
}

type loss struct {
	match   memory.Match
	request bool // lose the request, not the reply
	cut     bool // until the link is resumed
}

func (b *losing) arm(l loss) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed = append(b.armed, l)
}

func (b *losing) loseReply(kind backend.OpKind) { b.arm(loss{match: memory.Kind(kind)}) }
func (b *losing) cutReply(kind backend.OpKind)  { b.arm(loss{match: memory.Kind(kind), cut: true}) }
func (b *losing) loseRequest(kind backend.OpKind) {
	b.arm(loss{match: memory.Kind(kind), request: true})
}

// next disarms and returns the loss that matches ops, if any.
func (b *losing) next(ops []backend.Op) (loss, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.armed, func(l loss) bool { return l.match(ops) })
	if i < 0 {
		return loss{}, false
	}
	l := b.armed[i]
	b.armed = slices.Delete(b.armed, i, i+1)
	return l, true
}

func (b *losing) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	s, err := b.Backend.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return worsened(s, commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
		l, ok := b.next(c.ops)
		if !ok {
			return c.by(ctx, s)
		}
		lost := &lost{commit: c, reached: !l.request}
		if l.request {
			_, lost.again = b.next(c.ops)
		}
		if lost.reached {
			lost.made, lost.err = c.by(ctx, s)
		}
		if at, ok := b.Backend.(link); ok && l.cut {
			at.Suspend()
			_, lost.cut = s.List(ctx, "/any") // blocks until the link is back
		}
		return b.resolve(ctx, s, lost)
	})), nil
}

// losingBy returns the losing process in a mutant's backend, if any.
func losingBy(b backend.Backend) (*losing, bool) {
	w, ok := b.(wrapped)
	if !ok {
		return nil, false
	}
	l, ok := w.Backend.(*losing)
	return l, ok
}
