package mutants

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/elector-go/elector/backend"
)

// usedUpMutants break rules about a directory that takes no more entries.
func usedUpMutants() []Mutant {
	const tie = "/tie"
	var ties atomic.Uint64
	return []Mutant{
		{
			Name:   "goes on past the end of the numbers",
			Breaks: "Where the numbers have ended an entry is made all the same, which nobody is before.",
			Rules:  map[string][]string{Backend: {"write/used-up"}, "fair": {"data/used-up"}},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					made, err := s.Commit(ctx, guards, ops...)
					if errors.Is(err, backend.ErrUsedUp) && len(ops) == 1 {
						return s.Commit(ctx, guards, backend.CreateEphemeral(fmt.Sprint(ops[0].Key, tie, ties.Add(1)), ops[0].Value))
					}
					return made, err
				}
				o.predecessor = func(ctx context.Context, e backend.Entry) (backend.Entry, error) {
					if strings.Contains(e.Key, tie) {
						return backend.Entry{}, nil
					}
					return s.Predecessor(ctx, e)
				}
			}),
		},
		{
			Name:   "new directory beside the old one",
			Breaks: "A directory that takes no more looks empty, so that the election moves on while candidates stand there.",
			Rules:  map[string][]string{Backend: {"write/used-up"}, "fair": {"data/used-up"}, "parentwatch": {"data/used-up"}},
			session: calls(func(s *backend.Session, o *over) {
				var used sync.Map
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					made, err := s.Commit(ctx, guards, ops...)
					if errors.Is(err, backend.ErrUsedUp) {
						used.Store(ops[0].Key, true)
					}
					return made, err
				}
				o.list = func(ctx context.Context, dir string) (backend.Listing, error) {
					l, err := s.List(ctx, dir)
					if _, ok := used.Load(dir); ok {
						l.Keys = nil
					}
					return l, err
				}
			}),
		},
		{
			Name:   "end of the numbers is the end",
			Breaks: "That a directory takes no more is an error like any other, and ends the campaign.",
			Rules:  map[string][]string{Backend: {"write/used-up"}, "fair": {"data/used-up"}},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					made, err := s.Commit(ctx, guards, ops...)
					if errors.Is(err, backend.ErrUsedUp) {
						err = errors.New("no number left")
					}
					return made, err
				}
			}),
		},
	}
}
