package backend_test

import (
	"context"
	"fmt"
	"log"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy/fair"
)

// A process that stands in many elections needs one session, one connection and one heartbeat for all of
// them. Closing one elector leaves the others alone.
func ExampleShare() {
	ctx := context.Background()
	service := memory.New(memory.Options{})
	shared := backend.Share(service, 0) // one for the process
	var electors []elector.Elector
	for shard := range 100 {
		e, err := elector.New(elector.Config{
			Backend: shared, Strategy: fair.Strategy{}, Election: fmt.Sprint("/shards/", shard), ID: "host-1",
		})
		if err != nil {
			log.Fatal(err)
		}
		if _, err := e.Campaign(ctx); err != nil {
			log.Fatal(err)
		}
		electors = append(electors, e)
	}
	fmt.Println("leads in 100 elections; sessions:", service.Stats().Sessions)
	if err := electors[0].Close(ctx); err != nil {
		log.Fatal(err)
	}
	_, err := electors[1].Leader(ctx)
	fmt.Println("one closed, the others lead on:", err == nil)
	for _, e := range electors[1:] {
		if err := e.Close(ctx); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("all closed; sessions:", service.Stats().Sessions)
	// Output:
	// leads in 100 elections; sessions: 1
	// one closed, the others lead on: true
	// all closed; sessions: 0
}
