// Command load puts thousands of candidates into one election, and thousands of elections
// on one session, and checks that nobody is lost, that the order is kept, and that nothing
// is left behind:
//
//	go run ./internal/load [-backend memory,zookeeper] [-candidates 10000] [-elections 2000] [-handovers 1000]
//
// It starts the server it needs by itself. It prints a table of what each step took, and
// ends with an error if anything was not as it must be.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/elector-go/elector/internal/program"
)

func main() { program.Main("load", run) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	cfg, err := parse(args, stderr)
	if err != nil {
		return err
	}
	for _, k := range cfg.kinds {
		report := &report{log: stderr, name: k.name}
		err := runOn(ctx, cfg, k, report)
		report.markdown(stdout)
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
	}
	return nil
}

// runOn tries both loads on one service, and looks after each for what it has left.
func runOn(ctx context.Context, cfg config, k kind, r *report) (err error) {
	r.say("starting")
	w, err := k.start(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if cfg.candidates > 0 {
		if err := crowded(ctx, cfg, w, r); err != nil {
			return fmt.Errorf("%d candidates: %w", cfg.candidates, err)
		}
	}
	if cfg.elections > 0 {
		if err := manifold(ctx, cfg, w, r); err != nil {
			return fmt.Errorf("%d elections: %w", cfg.elections, err)
		}
	}
	return nil
}
