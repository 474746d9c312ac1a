package elector_test

import (
	"context"
	"fmt"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy/fair"
)

// The leader hands over to host-3, although host-2 came first: host-2 steps aside while host-1 still
// leads.
func ExampleTerm_Transfer() {
	ctx := context.Background()
	service := memory.New(memory.Options{})
	aside := make(chan error, 2)
	stand := func(id string) elector.Elector {
		e, err := elector.New(elector.Config{
			Backend: service, Strategy: fair.Strategy{}, Election: "/jobs/reindex", ID: id,
			Hooks: elector.Hooks{Aside: func(why error) { aside <- fmt.Errorf("%s stands aside: %w", id, why) }},
		})
		if err != nil {
			panic(err)
		}
		return e
	}
	first, second, third := stand("host-1"), stand("host-2"), stand("host-3")
	defer first.Close(ctx)
	term, err := first.Campaign(ctx)
	if err != nil {
		panic(err)
	}
	led := make(chan string)
	for i, e := range []elector.Elector{second, third} {
		go func() {
			if _, err := e.Campaign(ctx); err == nil {
				led <- fmt.Sprintf("host-%d leads", i+2)
				e.Close(ctx)
			}
		}()
		for standing := 0; standing < i+2; { // so that they come in this order
			all, err := first.Candidates(ctx)
			if err != nil {
				panic(err)
			}
			standing = len(all)
		}
	}

	stop := func() error { return nil } // it blocks until the leader's work has stopped
	if err := term.Transfer(ctx, "host-3", stop); err != nil {
		fmt.Println("leads on:", err)
	}
	fmt.Println(<-aside)
	fmt.Println(<-led)
	fmt.Println(<-led)
	// Output:
	// host-2 stands aside: leadership is transferred to another candidate: "host-3"
	// host-3 leads
	// host-2 leads
}
