package elector_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/fair"
)

// Ask reaches a leader that publishes more often than Ask can list the candidates, one round trip each:
// between two of its writes there is time to read the entry and to write it.
func TestAskALeaderThatPublishesOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		service := memory.New(memory.Options{Latency: func() time.Duration { return 10 * time.Millisecond }})
		const most = 10
		led := make(chan *elector.Term, most)
		for i := range most {
			e := standing(t, service.Client(fmt.Sprint(i)), fmt.Sprint("host-", i))
			defer func() { require.NoError(t, e.Close(context.Background())) }()
			go func() {
				if term, err := e.Campaign(ctx); err == nil {
					led <- term
				}
			}()
			time.Sleep(10 * time.Second) // so that they come in this order
		}
		term := <-led
		var published atomic.Int64
		go func() {
			for term.Proclaim(ctx, fmt.Append(nil, published.Load())) == nil {
				published.Add(1)
				time.Sleep(100 * time.Millisecond)
			}
		}()
		asking, end := context.WithTimeout(ctx, time.Minute)
		defer end()
		leader := must.Get(election.Ask(asking, service, fair.Strategy{}, "/e", election.Request{By: "anna", To: fmt.Sprint("host-", most-1)}))(t)
		require.Equal(t, "host-0", leader.ID)
		<-term.Asked()
		require.Positive(t, published.Load())
		cancel()
		synctest.Wait()
	})
}
