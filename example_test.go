package elector_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
)

// A job that must run once in a fleet.
func ExampleRun() {
	ctx := context.Background()
	e, err := elector.New(elector.Config{
		Backend:  memory.New(memory.Options{}), // zookeeper.New(…) in a fleet
		Strategy: fair.Strategy{},
		Election: "/jobs/report",
		ID:       "host-1",
	})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(ctx)

	err = elector.Run(ctx, e, func(ctx context.Context, t *elector.Term) error {
		fmt.Println("leading; valid:", t.Valid())
		return nil // the work is done
	})
	fmt.Println("done:", err)
	// Output:
	// leading; valid: true
	// done: <nil>
}

// A leader that keeps its state in the service. Once it is deposed, the service refuses its writes, in the
// same step that would have applied them.
func ExampleTerm_Commit() {
	ctx := context.Background()
	service := memory.New(memory.Options{})
	e, err := elector.New(elector.Config{Backend: service, Strategy: kafka.Strategy{}, Election: "/control", ID: "1"})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(ctx)
	term, err := e.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	made, err := term.Commit(ctx,
		elector.Put("/jobs/state", []byte("running")),
		elector.Create("/jobs/cursor", []byte("0")))
	if err != nil {
		log.Fatal(err)
	}
	cursor := made[1]
	_, err = term.Commit(ctx, elector.CompareAndSet(cursor.Key, []byte("1"), cursor.Version))
	fmt.Println("while it leads:", err)

	service.Delete("/control/controller") // an operator moves leadership
	_, err = term.Commit(ctx, elector.Put("/jobs/state", []byte("done")))
	fmt.Println("deposed:", errors.Is(err, elector.ErrDeposed))
	// Output:
	// while it leads: <nil>
	// deposed: true
}

// Campaign, lead and resign without Run.
func ExampleElector_Campaign() {
	ctx := context.Background()
	service := memory.New(memory.Options{})
	var electors []elector.Elector
	for _, id := range []string{"anna", "ben"} {
		e, err := elector.New(elector.Config{
			Backend: service, Strategy: fair.Strategy{}, Election: "/quorum", ID: id, Value: []byte(id + ":8080"),
		})
		if err != nil {
			log.Fatal(err)
		}
		defer e.Close(ctx)
		electors = append(electors, e)
	}

	first, err := electors[0].Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	leader, _ := electors[1].Leader(ctx)
	fmt.Printf("%s leads, find it at %s\n", leader.ID, leader.Value)

	if err := first.Resign(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("term over:", context.Cause(first.Context()))

	second, err := electors[1].Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("token rose:", second.Token() > first.Token())
	// Output:
	// anna leads, find it at anna:8080
	// term over: resigned
	// token rose: true
}

// Observe follows who leads, including vacancies.
func ExampleElector_Observe() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	e, err := elector.New(elector.Config{
		Backend: memory.New(memory.Options{}), Strategy: fair.Strategy{}, Election: "/quorum", ID: "anna",
	})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(context.Background())

	var term *elector.Term
	for leader, err := range e.Observe(ctx) {
		switch {
		case err != nil:
			fmt.Println("observed enough")
			return
		case leader.Vacant() && term == nil:
			fmt.Println("nobody leads")
			if term, err = e.Campaign(ctx); err != nil {
				log.Fatal(err)
			}
		case leader.Vacant():
			fmt.Println("nobody leads any more")
			cancel()
		default:
			fmt.Println(leader.ID, "leads")
			if err := term.Resign(ctx); err != nil {
				log.Fatal(err)
			}
		}
	}
	// Output:
	// nobody leads
	// anna leads
	// nobody leads any more
	// observed enough
}
