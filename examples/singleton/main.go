// Singleton is a job that must run once in a fleet: start it on every machine, and
// one of them does the work.
//
//	go run ./examples/singleton -backend zk://127.0.0.1:2181 -election /jobs/report
//
// or on etcd (etcd://127.0.0.1:2379) or Consul (consul://127.0.0.1:8500).
//
// The leader does a step of work every second. SIGTERM makes it finish the step
// under way, release the seat and exit with 0, so that the next machine takes over
// at once instead of after the session timeout. A machine that dies, hangs or is
// cut off loses the seat when its session times out, and stops in time.
//
// A machine whose file -unfit exists does not lead. With -ask it asks the leader to
// go, and exits. README.md shows both.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/strategy/fair"
)

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := run(log); err != nil {
		log.Error("singleton failed", "err", err)
		os.Exit(1)
	}
}

func run(log *slog.Logger) (err error) {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name of this machine, for -id: %w", err)
	}
	url := flag.String("backend", "mem://", dial.Usage)
	election := flag.String("election", "/jobs/report", "path of the election: one per job")
	id := flag.String("id", fmt.Sprintf("%s-%d", host, os.Getpid()), "name of this candidate")
	unfit := flag.String("unfit", "", "a file: while it exists, this machine does not lead")
	why := flag.String("ask", "", "ask the leader to go, for this reason, and do nothing else")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	b, err := dial.Open(ctx, *url, dial.WithLogger(log))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }() // after the elector
	if *why != "" {
		leader, err := elector.Ask(ctx, b, fair.New(), *election, elector.Request{By: *id, Why: *why})
		if err == nil {
			log.Info("asked to go", "leader", leader.ID)
		}
		return err
	}
	return stand(ctx, b, log, *election, *id, func(context.Context) error { return healthy(*unfit) })
}

// stand is this machine's part in the election, until ctx ends.
func stand(ctx context.Context, b backend.Backend, log *slog.Logger, election, id string, check func(context.Context) error) error {
	e, err := elector.New(elector.Config{
		Backend: b, Strategy: fair.New(), Election: election, ID: id, Logger: log,
		Fit: elector.Fit{Check: check, Every: time.Second},
	})
	if err != nil {
		return err
	}

	err = elector.Run(ctx, e, func(ctx context.Context, t *elector.Term) error { return work(ctx, log, t) })
	log.Info("shutting down", "why", err)
	if errors.Is(err, context.Canceled) {
		err = nil // SIGTERM: Run has returned after the job had stopped
	}
	closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, e.Close(closing))
}

// healthy tells why this machine cannot do the job: somebody has made the file, and may have written the
// reason into it. Yours would look at what the job needs: room on the disk, a database that answers.
func healthy(unfit string) error {
	if unfit == "" {
		return nil
	}
	reason, err := os.ReadFile(unfit)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%s exists: %s", unfit, strings.TrimSpace(string(reason)))
}

// work is the job. It looks at its term before each step, so that a process which
// was stopped and slept through the end of its term does not take another one.
func work(ctx context.Context, log *slog.Logger, t *elector.Term) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for step := 1; ; step++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if !t.Valid() {
			return context.Cause(t.Context())
		}
		// Pass t.Token() along with what is written: the target can then refuse
		// the write of a leader that has been replaced in this very instant.
		log.Info("step done", "step", step, "token", t.Token())
	}
}
