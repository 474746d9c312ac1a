package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/strategy/fair"
)

func main() {
	if err := run(); err != nil {
		slog.Error("failed", "err", err)
		os.Exit(1)
	}
}

func run() (err error) {
	host, _ := os.Hostname() // without one, the process id must do
	url := flag.String("backend", "mem://", dial.Usage())
	election := flag.String("election", "/jobs/report", "path of the election: one per job")
	id := flag.String("id", fmt.Sprintf("%s-%d", host, os.Getpid()), "name of this candidate")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	b, err := dial.Open(ctx, *url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }() // after the elector
	return stand(ctx, b, *election, *id, work)
}

// stand takes part in the election until ctx ends. While this candidate leads, it does the job.
func stand(ctx context.Context, b backend.Backend, election, id string, job func(context.Context, *elector.Term) error) error {
	return elector.Lead(ctx, elector.Config{
		Backend: b, Strategy: fair.Strategy{}, Election: election, ID: id, Logger: slog.Default(),
	}, job)
}

// work does what only the leader may do: here it logs a line per second.
func work(ctx context.Context, t *elector.Term) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
		if !t.Valid() {
			return context.Cause(ctx) // the process was frozen for too long
		}
		slog.Info("report written", "token", t.Token())
	}
}
