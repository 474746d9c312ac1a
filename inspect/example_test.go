package inspect_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/inspect"
	"github.com/elector-go/elector/strategy/fair"
)

// An operator reads who leads, asks the leader to go, and watches until another one leads.
func Example() {
	ctx := context.Background()
	service := memory.New(memory.Options{}) // usually from dial.Open
	for _, id := range []string{"host-1", "host-2"} {
		defer candidate(service, id)()
	}

	in, err := inspect.New(service, inspect.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = in.Close(ctx) }()
	v, err := in.Candidates(ctx, "/jobs/reindex")
	if err != nil {
		log.Fatal(err)
	}
	for place, c := range v.Candidates {
		fmt.Println(place, c.ID, c.Leads)
	}
	if _, err := in.Ask(ctx, "/jobs/reindex", elector.Request{By: "anna", Why: "deploy"}); err != nil {
		log.Fatal(err)
	}
	for v, err := range in.Watch(ctx, "/jobs/reindex", inspect.WatchOptions{}) {
		switch {
		case err != nil:
			log.Fatal(err)
		case v.Trouble != nil:
			fmt.Println("out of touch:", v.Trouble.Why)
		case v.Leader != nil && v.Leader.ID == "host-2":
			fmt.Println("host-2 leads, by", v.Strategy)
			return
		}
	}

	// Output:
	// 0 host-1 true
	// 1 host-2 false
	// host-2 leads, by fair
}

// A dashboard begins with a list of the elections.
func ExampleInspector_List() {
	ctx := context.Background()
	service := memory.New(memory.Options{})
	defer candidate(service, "host-1")()
	in, err := inspect.New(service, inspect.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = in.Close(ctx) }()
	l, err := in.List(ctx, "/", inspect.ListOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, v := range l.Elections {
		fmt.Println(v.Election, v.Strategy, v.Leader.ID, v.Count)
	}
	// Output: /jobs/reindex fair host-1 1
}

// candidate stands until end is called. It returns when its entry exists.
func candidate(service *memory.Service, id string) (end func()) {
	e, err := elector.New(elector.Config{Backend: service.Client(id), Strategy: fair.Strategy{}, Election: "/jobs/reindex", ID: id})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		_ = elector.Run(ctx, e, func(ctx context.Context, _ *elector.Term) error {
			<-ctx.Done()
			return elector.ErrStop // ErrStop makes it go for good
		})
		_ = e.Close(context.Background())
	})
	for stands := false; !stands; {
		all, err := e.Candidates(ctx)
		if err != nil {
			log.Fatal(err)
		}
		for _, c := range all {
			stands = stands || c.Own
		}
	}
	return func() { cancel(); running.Wait() }
}
