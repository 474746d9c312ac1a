package main

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
)

// If the leader's link goes dead, its ctx ends before the next candidate leads.
func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended, began time.Time
		takeover(t, func(ctx context.Context, _ *elector.Term) error {
			<-ctx.Done()
			ended = time.Now()
			return ctx.Err()
		}, func(ctx context.Context, _ *elector.Term) error {
			began = time.Now()
			<-ctx.Done()
			return ctx.Err()
		})
		if ended.IsZero() || !ended.Before(began) {
			t.Errorf("anna's ctx ended at %v, and ben began at %v", ended, began)
		}
	})
}

// takeover lets anna lead, cuts her link, and gives ben time to take over.
func takeover(t *testing.T, annas, bens func(context.Context, *elector.Term) error) *memory.Service {
	service := memory.New(memory.Options{}) // on the bubble's fake time
	anna, ben := service.Client("anna"), service.Client("ben")
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()

	group.Go(func() { _ = stand(ctx, anna, "/jobs/report", "anna", annas) })
	synctest.Wait() // all goroutines are blocked: anna leads
	group.Go(func() { _ = stand(ctx, ben, "/jobs/report", "ben", bens) })
	synctest.Wait() // ben waits

	anna.Suspend() // her link goes dead without notice
	time.Sleep(20 * time.Second)
	return service
}
