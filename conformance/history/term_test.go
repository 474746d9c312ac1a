package history

import (
	"context"
	"errors"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// newTerm makes a term that holds until end is called.
func newTerm() *elector.Term {
	ctx, cancel := context.WithCancelCause(context.Background())
	return elector.NewTerm(elector.TermConfig{
		Token: 1, Context: ctx,
		Valid:    func() bool { return ctx.Err() == nil },
		Guard:    func() elector.Guard { return elector.Guard{} },
		Proclaim: func(context.Context, []byte) error { return nil },
		Commit:   func(context.Context, ...elector.Op) ([]backend.Entry, error) { return nil, nil },
		Resign:   func(context.Context) error { cancel(elector.ErrResigned); return nil },
	})
}

func end(t *elector.Term) {
	if err := t.Resign(context.Background()); err != nil {
		panic(errors.Join(errors.New("a fake failed"), err))
	}
}
