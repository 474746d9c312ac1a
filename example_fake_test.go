package elector_test

import (
	"context"
	"fmt"
	"iter"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// standIn is an Elector for your own test. It is elected when the test says so.
type standIn struct {
	elected chan *elector.Term
}

func (f *standIn) Campaign(ctx context.Context) (*elector.Term, error) {
	select {
	case t := <-f.elected:
		return t, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *standIn) Leader(context.Context) (elector.Leader, error) {
	return elector.Leader{}, elector.ErrNoLeader
}
func (f *standIn) Candidates(context.Context) ([]elector.Candidate, error) { return nil, nil }
func (f *standIn) Observe(context.Context) iter.Seq2[elector.Leader, error] {
	return func(func(elector.Leader, error) bool) {}
}
func (f *standIn) Term() *elector.Term         { return nil }
func (f *standIn) Status() elector.Status      { return elector.Status{} }
func (f *standIn) Close(context.Context) error { return nil }

// standInTerm returns a term that the test ends with depose. Its commits are noted in written.
func standInTerm(token uint64, written *[]string) (t *elector.Term, depose func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	return elector.NewTerm(elector.TermConfig{
		Token:   token,
		Context: ctx,
		Valid:   func() bool { return ctx.Err() == nil },
		Commit: func(_ context.Context, writes ...elector.Write) ([]backend.Entry, error) {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			*written = append(*written, fmt.Sprintf("%d writes with token %d", len(writes), token))
			return make([]backend.Entry, len(writes)), nil
		},
		Proclaim: func(context.Context, []byte) error { return context.Cause(ctx) },
		Guard:    func() elector.Guard { return elector.Guard{} },
		Resign:   func(context.Context) error { cancel(elector.ErrResigned); return nil },
	}), func() { cancel(elector.ErrDeposed) }
}

// A test of a lead function without a service: the test decides when it leads, and when it is deposed in
// the middle of its work.
func ExampleNewTerm() {
	var written []string
	term, depose := standInTerm(7, &written)
	e := &standIn{elected: make(chan *elector.Term, 1)}
	e.elected <- term

	// The function under test: it must stop when its term is over.
	lead := func(ctx context.Context, t *elector.Term) error {
		for step := 1; ; step++ {
			if step == 3 {
				depose()
			}
			if _, err := t.Commit(ctx, elector.Put("/jobs/state", fmt.Append(nil, step))); err != nil {
				return fmt.Errorf("step %d: %w: %w", step, err, elector.ErrStop)
			}
		}
	}
	fmt.Println(elector.Run(context.Background(), e, lead))
	fmt.Println(written)
	// Output:
	// step 3: deposed: stop running
	// [1 writes with token 7 1 writes with token 7]
}
