// Command bench measures what docs/performance.md reports, and prints its method and its tables as
// Markdown:
//
//	go run ./internal/bench [-backend etcd,consul] [-parts fair,crash] [-n 3,50] [-samples 200] [-quick] [-json]
//
// It starts the servers it needs, one at a time. Everything that is compared is measured in the same run,
// sample by sample in turn.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/elector-go/elector/internal/program"
)

func main() { program.Main("bench", run) }

// A part measures one thing and returns a section.
type part struct {
	name    string
	servers bool // needs a real server
	run     func(ctx context.Context, l *lab) (section, error)
}

func parts() []part {
	return slices.Concat([]part{
		{"raw", true, rawPart},
	}, strategyParts(), []part{
		{"writes", true, writesPart},
		{"heat", true, heatPart},
		{"join", true, joinPart},
		{"heartbeats", true, heartbeatsPart},
		{"crash", true, crashPart},
		{"death", true, deathPart},
		{"seats", true, seatsPart},
		{"memory", false, memoryPart},
	})
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if told, ok := os.LookupEnv(childEnv); ok {
		return child(ctx, told, stdout)
	}
	cfg, err := parse(args, stderr)
	if err != nil {
		return err
	}
	about := describe(cfg)
	results := map[string]any{"machine": about}
	var labs []*lab
	var shown []section
	show := func(s section) { shown = append(shown, s) }
	defer func() { // also what there was before an error
		if !cfg.json {
			fmt.Fprintf(stdout, "# elector: measured\n\n%s\n\n", about)
			for _, s := range append([]section{summary(labs)}, shown...) {
				s.markdown(stdout)
			}
		}
	}()
	if slices.ContainsFunc(parts(), func(p part) bool { return p.servers && cfg.parts[p.name] }) {
		for _, k := range cfg.kinds {
			l, err := onService(ctx, cfg, k, stderr)
			if err == nil {
				results[k.Name], err = runParts(ctx, l, show)
				err = errors.Join(err, l.service.Close())
			}
			if err != nil {
				return fmt.Errorf("%s: %w", k.Name, err)
			}
			labs = append(labs, l)
		}
		if cfg.parts["writes"] {
			show(stepsOf(labs))
		}
	}
	rest, err := runParts(ctx, &lab{cfg: cfg, log: stderr}, show)
	if err != nil {
		return err
	}
	for name, s := range rest {
		results[name] = s
	}
	if !cfg.json {
		return nil
	}
	out := json.NewEncoder(stdout)
	out.SetIndent("", "  ")
	return out.Encode(results)
}

// runParts runs the requested parts: those that need a server if l has one, otherwise the others.
func runParts(ctx context.Context, l *lab, show func(section)) (map[string]section, error) {
	results := make(map[string]section)
	for _, p := range parts() {
		if !l.cfg.parts[p.name] || p.servers != (l.service != nil) {
			continue
		}
		result, err := p.run(ctx, l)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		results[p.name] = result
		show(result)
	}
	return results, nil
}
