package elector_test

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy/fair"
)

// candidate takes part in the election until a signal ends the process. README.md shows it.
func candidate(b backend.Backend, hostname string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return elector.Lead(ctx, elector.Config{
		Backend:  b, // of zookeeper.New, etcd.New, consul.New or memory.New
		Strategy: fair.Strategy{},
		Election: "/jobs/reindex",
		ID:       hostname,
	}, func(ctx context.Context, t *elector.Term) error {
		return reindex(ctx, t.Token()) // ctx ends before anyone else can lead
	})
}

// reindex is work that only the leader may do.
func reindex(ctx context.Context, token uint64) error {
	fmt.Println("reindexing, token", token)
	return ctx.Err()
}

// A whole program. On SIGTERM the seat is free once the work has stopped.
func ExampleLead() {
	fmt.Println("error:", candidate(memory.New(memory.Options{}), "host-1"))
	// Output:
	// reindexing, token 2
	// error: <nil>
}
