// Command load puts thousands of candidates into one election, and thousands of elections on one session,
// and checks that nobody is lost, that the order is kept, and that nothing is left behind:
//
//	go run ./internal/load [-backend memory,zookeeper] [-candidates 10000] [-elections 2000] [-handovers 1000]
//
// It starts the server it needs, prints a table with the cost of each step, and ends with an error if a
// check fails.
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
		if err := runOn(ctx, cfg, k, stdout, stderr); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
	}
	return nil
}

// runOn runs both loads on one service.
func runOn(ctx context.Context, cfg config, k kind, stdout, stderr io.Writer) (err error) {
	fmt.Fprintf(stderr, "load: %s: starting\n", k.name)
	w, err := k.start(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	for _, load := range []struct {
		members, elections int
		what               string
	}{
		{cfg.candidates, 1, count(cfg.candidates) + " candidates"},
		{2, cfg.elections, count(cfg.elections) + " elections, and two sessions for all of them"},
	} {
		if load.members == 0 || load.elections == 0 {
			continue
		}
		r := &report{log: stderr, name: k.name + ", " + load.what}
		err := try(ctx, cfg, load.members, load.elections, w, r)
		r.markdown(stdout)
		if err != nil {
			return fmt.Errorf("%s: %w", load.what, err)
		}
	}
	return nil
}
