// Jobrunner does the steps of a job, one after the other, on the machine that leads. When that machine dies,
// another continues after the last finished step. SIGTERM ends a step, and then the process.
//
//	go run ./examples/jobrunner -backend etcd://127.0.0.1:2379
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/health"
	"github.com/elector-go/elector/strategy/fair"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "jobrunner:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	url := flag.String("backend", "mem://", dial.Usage())
	id := flag.String("id", fmt.Sprint(os.Getpid()), "name of this candidate")
	address := flag.String("http", "localhost:4040", "where /leader, /healthz and /status answer")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	b, err := dial.Open(ctx, *url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }() // after the elector
	e, err := elector.New(elector.Config{Backend: b, Strategy: fair.Strategy{}, Election: "/jobs/runner", ID: *id, Logger: slog.Default()})
	if err != nil {
		return err
	}
	server := &http.Server{Addr: *address, Handler: health.New(e, health.Options{})}
	defer server.Close()
	go func() { slog.Info("health", "err", server.ListenAndServe()) }()

	err = elector.Run(ctx, e, func(ctx context.Context, t *elector.Term) error { return work(ctx, t, *id) })
	if errors.Is(err, context.Canceled) {
		err = nil // SIGTERM: Run returned after work
	}
	closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, e.Close(closing))
}

// work continues after the last step that any leader has finished, until its term ends. The service refuses
// the writes of a leader that has been deposed meanwhile.
func work(ctx context.Context, t *elector.Term, id string) error {
	const finished = "/jobs/runner-finished" // how many steps
	for {
		e, err := t.Get(ctx, finished)
		if err != nil && !errors.Is(err, backend.ErrNoEntry) {
			return err
		}
		steps, err := strconv.Atoi("0" + string(e.Value))
		if err != nil {
			return fmt.Errorf("%s: %w", finished, err)
		}
		select {
		case <-time.After(100 * time.Millisecond): // the step; your own target refuses a lower t.Token()
		case <-ctx.Done():
			return ctx.Err()
		}
		if _, err := t.Commit(ctx, elector.Put(finished, []byte(strconv.Itoa(steps+1)))); err != nil {
			return err
		}
		fmt.Println("finished step", steps+1, "by", id)
	}
}
