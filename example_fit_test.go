package elector_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy/fair"
)

// A leader whose disk is full stops its work, frees the seat, and stands again when there is space.
func ExampleFit() {
	var full atomic.Bool
	service := memory.New(memory.Options{})
	e, err := elector.New(elector.Config{
		Backend: service, Strategy: fair.Strategy{}, Election: "/jobs/reindex", ID: "host-1",
		Fit: elector.Fit{
			Check: func(context.Context) error {
				if full.Load() {
					return errors.New("disk is full")
				}
				return nil
			},
			Every: 10 * time.Millisecond, Timeout: time.Minute,
		},
		Hooks: elector.Hooks{Aside: func(why error) {
			fmt.Println("stands aside:", why)
			full.Store(false) // somebody frees space
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close(context.Background())
	terms := 0
	err = elector.Run(context.Background(), e, func(ctx context.Context, t *elector.Term) error {
		if terms++; terms > 1 {
			fmt.Println("leads again")
			return nil
		}
		fmt.Println("leads")
		full.Store(true)
		<-ctx.Done()
		fmt.Println(context.Cause(ctx))
		return ctx.Err()
	})
	fmt.Println("error:", err)
	// Output:
	// leads
	// asked to go by "host-1": "not fit: disk is full"
	// stands aside: not fit: disk is full
	// leads again
	// error: <nil>
}
