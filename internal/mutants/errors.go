package mutants

import (
	"context"
	"errors"

	"github.com/elector-go/elector/backend"
)

func isNoEntry(err error) bool { return errors.Is(err, backend.ErrNoEntry) }
func isExists(err error) bool  { return errors.Is(err, backend.ErrExists) }

// mapErrors has every call but Close and AwaitState return another error.
func (s *over) mapErrors(to func(error) error) {
	at := s.Session
	s.get = func(ctx context.Context, key string) (backend.Entry, error) {
		e, err := at.Get(ctx, key)
		return e, to(err)
	}
	s.survey = func(ctx context.Context, key string, known func(backend.Entry) string) (backend.Entry, []string, error) {
		e, strangers, err := at.Survey(ctx, key, known)
		return e, strangers, to(err)
	}
	s.children = func(ctx context.Context, key string, most int) ([]string, bool, error) {
		keys, more, err := at.Children(ctx, key, most)
		return keys, more, to(err)
	}
	s.list = func(ctx context.Context, dir string) (backend.Listing, error) {
		l, err := at.List(ctx, dir)
		return l, to(err)
	}
	s.awaitList = func(ctx context.Context, known backend.Listing) (backend.Listing, error) {
		l, err := at.AwaitList(ctx, known)
		return l, to(err)
	}
	s.predecessor = func(ctx context.Context, e backend.Entry) (backend.Entry, error) {
		p, err := at.Predecessor(ctx, e)
		return p, to(err)
	}
	s.await = func(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
		now, err := at.Await(ctx, known...)
		return now, to(err)
	}
	s.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
		made, err := at.Commit(ctx, guards, ops...)
		return made, to(err)
	}
	s.drop = func(ctx context.Context, e backend.Entry) error { return to(at.Discard(ctx, e)) }
}
