package servicetest

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
)

// Stand makes a candidate. Without a strategy it is fair, and without an ID it gets one.
func (f *Fixture) Stand(cfg elector.Config) elector.Elector {
	f.T.Helper()
	if cfg.Strategy == nil {
		cfg.Strategy = fair.Strategy{}
	}
	cfg.ID = cmp.Or(cfg.ID, fmt.Sprint(roots.Add(1))) // kafka takes numbers only
	e := must.Get(elector.New(cfg))(f.T)
	f.T.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = e.Close(ctx) // tests that check its error close it themselves
	})
	return e
}

func (f *Fixture) Campaign(e elector.Elector) *elector.Term {
	f.T.Helper()
	return must.Get(e.Campaign(f.Ctx))(f.T)
}

// Campaigns starts a campaign.
func (f *Fixture) Campaigns(e elector.Elector) <-chan wait.Result[*elector.Term] {
	return wait.Later(func() (*elector.Term, error) { return e.Campaign(f.Ctx) })
}

// Succeeds waits for the term after last.
func (f *Fixture) Succeeds(winning <-chan wait.Result[*elector.Term], last *elector.Term) *elector.Term {
	f.T.Helper()
	term := wait.Value(f.T, winning)
	assert.Greater(f.T, term.Token(), last.Token())
	return term
}

// Queue waits until there are n candidates.
func (f *Fixture) Queue(e elector.Elector, n int) {
	f.T.Helper()
	wait.For(f.T, "the candidates", func() bool { return len(must.Get(e.Candidates(f.Ctx))(f.T)) == n })
}

// Ends waits for a term's end.
func (f *Fixture) Ends(term *elector.Term, cause error) {
	f.T.Helper()
	select {
	case <-term.Context().Done():
	case <-f.Ctx.Done():
		f.T.Fatal("the term does not end")
	}
	require.ErrorIs(f.T, context.Cause(term.Context()), cause)
}
