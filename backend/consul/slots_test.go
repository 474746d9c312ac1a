package consul_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/strategy/fair"
)

// A session keeps few keys of its own, however many campaigns are cancelled.
func TestSlotsOfCancelledCampaigns(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	e, err := elector.New(elector.Config{Backend: f.Backend, Strategy: fair.New(), Election: f.dir + "/e", ID: "a"})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(f.ctx)) }()
	term, err := e.Campaign(f.ctx)
	require.NoError(t, err)
	session := term.Guard().Session.ID()
	require.NoError(t, term.Resign(f.ctx))
	<-term.Context().Done()
	for range 300 {
		ctx, cancel := context.WithTimeout(f.ctx, rand.N(3*time.Millisecond))
		term, err := e.Campaign(ctx)
		cancel()
		if err == nil {
			err = term.Resign(f.ctx)
		} else if errors.Is(err, context.DeadlineExceeded) {
			err = nil
		}
		require.NoError(t, err)
	}
	slots, _, err := f.operator().KV().Keys(".elector/"+session+"/", "", nil)
	require.NoError(t, err)
	assert.LessOrEqual(t, len(slots), 32)
}
