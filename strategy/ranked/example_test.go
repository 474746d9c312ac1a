package ranked_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy/ranked"
)

// Two replicas stand, and the one with the longer log leads.
func Example() {
	service := memory.New(memory.Options{})
	candidate := func(id string, position int64) elector.Elector {
		rank := ranked.NewRank(position) // rank.Set(position) as the log grows
		e, err := elector.New(elector.Config{
			Backend: service, Election: "/log", ID: id,
			Strategy: ranked.Strategy{Rank: rank, Quorum: 2},
		})
		if err != nil {
			log.Fatal(err)
		}
		return e
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	all := []elector.Elector{candidate("short", 1200), candidate("long", 4711)}
	for _, e := range all {
		go func() {
			_ = elector.Run(ctx, e, func(ctx context.Context, _ *elector.Term) error {
				<-ctx.Done()
				return nil
			})
		}()
	}
	for leader, err := range all[0].Observe(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if leader.ID != "" {
			fmt.Println(leader.ID, "leads")
			break
		}
	}
	for _, e := range all {
		if err := e.Close(ctx); err != nil {
			log.Fatal(err)
		}
	}
	// Output: long leads
}
