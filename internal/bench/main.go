// Command bench measures what docs/performance.md reports, and prints its method
// and its tables as Markdown:
//
//	go run ./internal/bench [-quick] [-parts fair,crash] [-n 3,50] [-samples 200] [-json]
//
// It starts the ZooKeeper server it needs by itself. Everything that is compared
// is measured in the same run, sample by sample in turn.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		stop()
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// A part measures one thing and says what it found.
type part struct {
	name    string
	servers bool // needs a real server
	run     func(ctx context.Context, l *lab) (section, error)
}

func parts() []part {
	return []part{
		{"raw", true, rawPart},
		{"fair", true, fairPart},
		{"unfair", true, unfairPart},
		{"kafka", true, kafkaPart},
		{"writes", true, writesPart},
		{"crash", true, crashPart},
		{"memory", false, memoryPart},
	}
}

// A section is the result of a part: it prints as Markdown, and marshals as JSON.
type section interface {
	markdown(w io.Writer)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	cfg, err := parse(args, stderr)
	if err != nil {
		return err
	}
	l := &lab{cfg: cfg, log: stderr}
	defer func() {
		if cerr := l.close(); err == nil {
			err = cerr
		}
	}()
	about := describe(cfg)
	if !cfg.json {
		about.markdown(stdout)
	}
	results := map[string]any{"machine": about}
	for _, p := range parts() {
		if !cfg.parts[p.name] {
			continue
		}
		if p.servers {
			if err := l.start(); err != nil {
				return err
			}
		}
		result, err := p.run(ctx, l)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		results[p.name] = result
		if !cfg.json {
			result.markdown(stdout)
		}
	}
	if !cfg.json {
		return nil
	}
	out := json.NewEncoder(stdout)
	out.SetIndent("", "  ")
	return out.Encode(results)
}
