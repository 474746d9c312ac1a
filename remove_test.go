package elector_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
	"github.com/elector-go/elector/strategy/unfair"
)

func TestRemoveChecksThePath(t *testing.T) {
	service := memory.New(memory.Options{})
	assert.ErrorIs(t, election.Remove(t.Context(), service, fair.Strategy{}, "e"), elector.ErrConfig)
	s := service.Stats()
	assert.Zero(t, s.Sessions, "nobody was asked")
	assert.Zero(t, s.Commits)
}

// The errors of Remove say who stands in the election, or what else is wrong.
func TestRemoveSaysWhoStandsAndWhatDiffers(t *testing.T) {
	service := memory.New(memory.Options{})
	var group sync.WaitGroup
	defer group.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for _, id := range []string{"anna", "ben"} {
		e := standing(t, service, id)
		if id == "anna" {
			leads(t, e)
			continue
		}
		group.Go(func() { _, _ = e.Campaign(ctx) })
		for stand := 0; stand < 2; {
			all := must.Get(e.Candidates(ctx))(t)
			stand = len(all)
		}
	}
	says := func(err, want error, texts ...string) {
		t.Helper()
		require.ErrorIs(t, err, want)
		for _, text := range texts {
			assert.ErrorContains(t, err, text)
		}
	}
	says(election.Remove(ctx, service, fair.Strategy{}, "/e"), elector.ErrInUse, `"anna"`, "2 candidates")
	err := election.Remove(ctx, service, unfair.Strategy{}, "/e")
	says(err, elector.ErrStrategyMismatch, `"fair"`, `"unfair"`)
	assert.NotContains(t, err.Error(), "candidate", "Remove is none")
}

// If the directory holds something that is no candidate, the error names the directory.
func TestRemoveOfADirectoryWithSomethingElse(t *testing.T) {
	service := memory.New(memory.Options{})
	e := standing(t, service, "a")
	term := leads(t, e)
	dir := backend.Parent(term.Guard().Conditions[0].Entry.Key)
	require.NoError(t, e.Close(t.Context()))
	require.NoError(t, service.Put(dir+"/mine", nil))
	err := election.Remove(t.Context(), service, fair.Strategy{}, "/e")
	require.ErrorIs(t, err, elector.ErrInUse)
	assert.ErrorContains(t, err, dir)
	assert.NotContains(t, err.Error(), "candidate")
}

// Remove does not remove an epoch, because it would start again.
func TestRemoveOfAnEpoch(t *testing.T) {
	service := memory.New(memory.Options{})
	e := standing(t, service, "1", func(c *elector.Config) { c.Strategy = kafka.Strategy{} })
	leads(t, e)
	require.NoError(t, e.Close(t.Context()))
	was := service.Dump()
	assert.ErrorIs(t, election.Remove(t.Context(), service, kafka.Strategy{}, "/e"), elector.ErrConfig)
	assert.Equal(t, was, service.Dump())
}
