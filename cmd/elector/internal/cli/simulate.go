package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector/cmd/elector/internal/compare"
	"github.com/elector-go/elector/cmd/elector/internal/report"
	"github.com/elector-go/elector/cmd/elector/internal/simulate"
	"github.com/elector-go/elector/strategy/catalog"
)

// simulated is how many leader changes of each kind a simulated run has. In simulated time
// they hardly differ.
const simulated = 5

// checkSimulate says what is wrong with --simulate.
func checkSimulate(all []int) error {
	var errs []error
	for i, n := range all {
		switch {
		case n < 2 || n > compare.MaxN:
			errs = append(errs, fmt.Errorf("--simulate %d: must be from 2 (one leaves, another takes over) to %d", n, compare.MaxN))
		case slices.Contains(all[:i], n):
			errs = append(errs, fmt.Errorf("--simulate %d: is given twice", n))
		}
	}
	return errors.Join(errs...)
}

// simulate adds simulated runs to a report, with a model that is fitted to its own runs on
// ZooKeeper, if there are any.
func (c *comparison) simulate(ctx context.Context, to *report.Report, show *progress) error {
	s := &report.Simulation{Model: simulate.Default, Runs: []report.Run{}}
	to.Simulation = s
	var errs []error
	if measured := onZooKeeper(to.Runs); len(measured) > 0 {
		show.step(0, len(c.simulateN)*len(c.Strategies), "fitting the model of a server")
		model, calibration, err := simulate.Fit(measured)
		if err == nil {
			s.Model, s.Calibration = model, calibration
		} else {
			errs = append(errs, fmt.Errorf("the model of a server is not fitted to the measured runs, but the default one: %w", err))
		}
	}
	for i, name := range c.Strategies {
		item, _ := catalog.Named(name) // Validate refuses names that there are not
		for j, n := range c.simulateN {
			doing := fmt.Sprintf("%s, %s, %d candidates", simulate.Service, name, n)
			show.step(i*len(c.simulateN)+j, len(c.simulateN)*len(c.Strategies), doing)
			run, err := simulate.Run(ctx, simulate.Config{
				Strategy: item.Strategy, N: n, Changes: simulated, Crashes: simulated, Model: s.Model, TTL: c.simulateTTL(), Seed: c.Seed,
			})
			if ctx.Err() != nil {
				return errors.Join(append(errs, context.Cause(ctx))...)
			}
			if err != nil {
				errs = append(errs, err)
				continue
			}
			s.Runs = append(s.Runs, run)
			show.ran(run)
		}
	}
	return errors.Join(errs...)
}

// simulateTTL is a real service's, whatever the embedded one has: it says how long a crash
// goes unnoticed, and nothing else.
func (c *comparison) simulateTTL() time.Duration {
	if c.TTL > 0 {
		return c.TTL
	}
	return 10 * time.Second
}

// onZooKeeper are the runs on the first ZooKeeper that went to their end.
func onZooKeeper(runs []report.Run) []report.Run {
	service := ""
	var all []report.Run
	for _, r := range runs {
		if r.Truncated != "" || !strings.HasPrefix(r.Service, "zk://") {
			continue
		}
		if service == "" {
			service = r.Service
		}
		if r.Service == service {
			all = append(all, r)
		}
	}
	return all
}
