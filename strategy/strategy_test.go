package strategy_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy"
)

// A Candidacy that no elector made serves a strategy's own tests.
func TestWithoutHost(t *testing.T) {
	s := must.Get(memory.New(memory.Options{}).Open(t.Context(), backend.OpenOptions{}))(t)
	defer func() { assert.NoError(t, s.Close(t.Context())) }()
	c := &strategy.Candidacy{Session: s, Dir: "/e", ID: "a"}
	c.Begin(strategy.StageOffer)(errors.New("refused"))
	c.Sees(strategy.Leader{}, 1)
	c.Aside(strategy.ErrTransfer)
	changed, unfit := c.Fit()
	assert.Nil(t, changed)
	assert.NoError(t, unfit)
	me := must.Get(s.Commit(t.Context(), nil, backend.CreateEphemeral("/e", nil)))(t)[0]
	require.NoError(t, c.Withdraw(t.Context(), me))
	_, err := s.Get(t.Context(), "/e")
	assert.ErrorIs(t, err, backend.ErrNoEntry)
}
