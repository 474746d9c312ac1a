package elector_test

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy/fair"
)

// candidate takes part until a signal ends the process. README.md shows it.
func candidate(b backend.Backend, hostname string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	e, err := elector.New(elector.Config{
		Backend:  b, // of zookeeper.New, etcd.New, consul.New or memory.New
		Strategy: fair.New(),
		Election: "/jobs/reindex",
		ID:       hostname,
	})
	if err != nil {
		return err
	}
	err = elector.Run(ctx, e, func(ctx context.Context, t *elector.Term) error {
		return reindex(ctx, t.Token()) // ctx ends before anyone else can lead
	})
	if errors.Is(err, context.Canceled) {
		err = nil // SIGTERM: Run has returned after reindex had, and the seat is free
	}
	closing, cancel := context.WithTimeout(context.Background(), 5*time.Second) // ctx has ended
	defer cancel()
	return errors.Join(err, e.Close(closing))
}

// reindex is what only the leader may do.
func reindex(ctx context.Context, token uint64) error {
	fmt.Println("reindexing, token", token)
	return ctx.Err()
}

// A program that ends on SIGTERM: the seat is free once the work has stopped, and the session is
// closed with a context of its own, as the one that the signal ends is over by then.
func Example_shutdown() {
	fmt.Println("error:", candidate(memory.New(memory.Options{}), "host-1"))
	// Output:
	// reindexing, token 2
	// error: <nil>
}
