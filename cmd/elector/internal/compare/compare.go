// Package compare makes candidates elect leaders, by several strategies, in several numbers and on several
// services, and measures the costs.
package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/cmd/elector/internal/report"
	"github.com/elector-go/elector/internal/crowd"
	"github.com/elector-go/elector/strategy/catalog"
)

// Run compares, and returns what it found so far if ctx ends. Each run uses its own elections, under a fresh
// name, and leaves nothing in the service.
//
// A run that fails is in the report as far as it went, with the reason; the error joins the reasons. If a
// service cannot be reached, Run skips the other runs on it.
func Run(ctx context.Context, cfg Config) (report.Report, error) {
	out := report.Report{
		Schema:  report.Schema,
		Made:    time.Now().UTC().Truncate(time.Second),
		Machine: report.Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()},
		Method: report.Method{
			Command: cfg.Command, Seed: cfg.Seed, Changes: cfg.Changes, Crashes: cfg.crashes(), Churn: cfg.Churn, TTL: cfg.TTL,
		},
		Runs: []report.Run{}, Growth: []report.Growth{},
	}
	if err := cfg.Validate(); err != nil {
		return out, err
	}
	if slices.Contains(cfg.Backends, Embedded) {
		out.Method.Delay = cfg.Delay
		if cfg.TTL == 0 && len(cfg.Backends) == 1 {
			out.Method.TTL = EmbeddedTTL
		}
	}
	jobs := cfg.jobs()
	done, end, all := 0, 0, 0 // steps: done, done at the end of this run, and in all
	for _, job := range jobs {
		all += len(cfg.Backends) * job.steps(cfg)
	}
	tell := func(doing string) {
		if cfg.Progress != nil {
			cfg.Progress(done, all, doing)
		}
	}
	var errs []error
	for _, url := range cfg.Backends {
		for _, job := range jobs {
			if ctx.Err() != nil {
				break
			}
			done, end = end, end+job.steps(cfg) // what an earlier one has left undone counts as done
			doing := fmt.Sprintf("%s, %s, %d candidates", url, job.strategy, job.n)
			tell(doing)
			run, err := one(ctx, cfg, url, job, func(step string) {
				done++
				tell(doing + ": " + step)
			})
			out.Runs = append(out.Runs, run)
			if cfg.Ran != nil {
				cfg.Ran(run)
			}
			if err == nil {
				continue
			}
			errs = append(errs, fmt.Errorf("%s: %w", doing, err))
			if errors.Is(err, errUnreachable) {
				break
			}
		}
	}
	if ctx.Err() != nil {
		errs = append(errs, context.Cause(ctx))
	}
	out.Growth = append(out.Growth, growth(out.Runs)...)
	return out, errors.Join(errs...)
}

// A job is one run on a service.
type job struct {
	strategy string
	n        int
}

func (j job) steps(cfg Config) int { return j.n + cfg.Changes }

func (c Config) jobs() (all []job) {
	for _, s := range c.Strategies {
		for _, n := range c.N {
			all = append(all, job{s, n})
		}
	}
	return all
}

// errUnreachable says that a service cannot be used at all.
var errUnreachable = errors.New("the service cannot be used")

// one makes one run, and cleans up after it. The end of ctx is not an error.
func one(ctx context.Context, cfg Config, url string, j job, step func(string)) (found report.Run, err error) {
	found = report.Run{Service: url, Strategy: j.strategy, N: j.n}
	defer func() {
		var why []string
		if ctx.Err() != nil {
			why = append(why, report.Interrupted)
		}
		if err != nil {
			why = append(why, strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		found.Truncated = strings.Join(why, "; ")
	}()
	s, err := open(url)
	if err != nil {
		return found, fmt.Errorf("%w: %w", errUnreachable, err)
	}
	defer func() { err = errors.Join(err, s.close()) }()

	connect, cancel := context.WithTimeout(ctx, connectTimeout)
	observer, err := s.outside().Open(connect, backend.OpenOptions{})
	cancel()
	if ctx.Err() != nil && err != nil {
		return found, nil
	}
	if err != nil {
		return found, fmt.Errorf("%w: %w", errUnreachable, err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
		defer cancel()
		_ = observer.Close(ctx) // it has no entries
	}()

	item, _ := catalog.Named(j.strategy) // Validate refuses unknown names
	r := &run{
		cfg: cfg, service: s, strategy: item.Strategy, n: j.n, step: step,
		election: fmt.Sprintf("/elector-compare-%016x", rand.Uint64()),
		// The same for all strategies, so that they meet the same pattern.
		random:   rand.New(rand.NewPCG(cfg.Seed, uint64(j.n))),
		by:       make(map[*crowd.Candidate]*candidate),
		fewer:    make(map[int]bool),
		figures:  &figures{service: s},
		observer: observer,
	}
	r.ttl = cfg.TTL
	if url == Embedded {
		r.ttl, r.half = cmp.Or(r.ttl, EmbeddedTTL), cfg.Delay/2
	}
	r.patience = 30*time.Second + time.Duration(r.n)*(20*time.Millisecond+4*r.half)
	r.Crowd = crowd.New(ctx, j.n, r.patience)
	defer r.Fail(nil)
	err = r.all()
	switch cause := context.Cause(r.Context()); {
	case ctx.Err() != nil:
		err = nil
	case cause != nil:
		err = cause // and not what failed because of it
	}
	r.report(&found)
	return found, errors.Join(err, r.clean())
}

// report stores the findings, if there was a leader change.
func (r *run) report(to *report.Run) {
	if r.changes == 0 {
		return
	}
	for _, c := range r.present {
		if c.Candidate != r.Leader.Candidate && !c.at.IsZero() {
			r.fairness.LongestWait = max(r.fairness.LongestWait, len(r.elected)-c.turn)
		}
	}
	var steady []int
	for number, wins := range r.fairness.Wins {
		if !r.fewer[number] {
			steady = append(steady, wins)
		}
	}
	r.fairness.Jain, r.fairness.Inversions = report.Jain(steady), report.Inversions(r.elected)
	to.Fairness = r.fairness
	to.Resigned = report.NewLeaderless(r.resigned)
	to.Crashed = report.NewLeaderless(r.crashed)
	to.Unnoticed = crowd.QuantilesOf(r.unnoticed)
	to.Waits = report.NewHistogram(r.waits)
	to.PerChange, to.PerJoin = report.MeanCost(r.perChange, r.changes), report.MeanCost(r.perJoin, r.joined)
	to.Sample = r.sample
	var why error
	if to.Server, why = r.figures.perChange(); why != nil {
		to.ServerNote = why.Error()
	}
}
