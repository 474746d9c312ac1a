package electorgocron_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/elector-go/elector"
	electorgocron "github.com/elector-go/elector/adapter/gocron"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy/fair"
)

// Every process has the same jobs. They run in the process that leads.
func Example() {
	e, err := elector.New(elector.Config{
		Backend: memory.New(memory.Options{}), Strategy: fair.Strategy{}, Election: "/jobs", ID: "host-1",
	})
	if err != nil {
		log.Fatal(err)
	}
	var g electorgocron.Elector
	s, err := gocron.NewScheduler(gocron.WithDistributedElector(&g))
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background()) // from signal.NotifyContext, in a service
	_, err = s.NewJob(gocron.DurationJob(10*time.Millisecond), g.Task(func(ctx context.Context, t *elector.Term) error {
		_, err := t.Commit(ctx, elector.Put("/jobs-state/last", []byte("done"))) // refused once the term is over
		fmt.Println("the job has run:", err == nil)
		stop()
		<-ctx.Done() // else it would run again before Lead hears that the process stops
		return err
	}), gocron.WithSingletonMode(gocron.LimitModeReschedule))
	if err != nil {
		log.Fatal(err)
	}
	s.Start()
	err = elector.Run(ctx, e, g.Lead) // returns when the job has returned
	fmt.Println("stopped:", errors.Is(err, context.Canceled))
	if err := errors.Join(s.Shutdown(), e.Close(context.Background())); err != nil {
		log.Fatal(err)
	}
	// Output:
	// the job has run: true
	// stopped: true
}
