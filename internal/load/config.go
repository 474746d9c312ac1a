package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// config is the values of the flags.
type config struct {
	kinds      []kind
	candidates int // of the one election; 0 for none
	elections  int // on the one session; 0 for none
	handovers  int
	join       int           // candidates that enter in parallel
	ttl        time.Duration // session timeout
	heapMB     int           // of ZooKeeper's server
	dir        string        // for the server's files
}

const (
	maxN = 100_000
	// patience limits each single step: a longer one without progress is stuck.
	patience = 2 * time.Minute
)

// patienceFor limits a step that does n things without reporting progress.
func patienceFor(n int) time.Duration { return patience + time.Duration(n)*20*time.Millisecond }

// A kind is a service that -backend can name.
type kind struct {
	name  string
	start func(config) (world, error)
}

var kinds = []kind{{"memory", startMemory}, {"zookeeper", startZooKeeper}}

func parse(args []string, stderr io.Writer) (config, error) {
	var cfg config
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	f := flag.NewFlagSet("load", flag.ContinueOnError)
	f.SetOutput(stderr)
	backends := f.String("backend", strings.Join(names, ","), "on which services")
	f.IntVar(&cfg.candidates, "candidates", 10_000, "candidates in one election, each with a session of its own; 0 leaves this out")
	f.IntVar(&cfg.elections, "elections", 2_000, "elections, with one session for all of them in each of two processes; 0 leaves this out")
	f.IntVar(&cfg.handovers, "handovers", 1_000, "handovers in each of the two")
	f.IntVar(&cfg.join, "join", 500, "candidates that enter at a time")
	f.DurationVar(&cfg.ttl, "ttl", 60*time.Second, "session timeout")
	f.IntVar(&cfg.heapMB, "server-heap", 3072, "the Java heap of ZooKeeper's server in MiB")
	f.StringVar(&cfg.dir, "dir", "", "where the server puts its files (default the system's folder for temporary ones)")
	if err := f.Parse(args); err != nil {
		return cfg, err
	}
	var errs []error
	if f.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q: there are only flags", f.Arg(0)))
	}
	for name := range strings.SplitSeq(*backends, ",") {
		if i := slices.Index(names, strings.TrimSpace(name)); i >= 0 {
			cfg.kinds = append(cfg.kinds, kinds[i])
		} else {
			errs = append(errs, fmt.Errorf("-backend %s: there are %s", strconv.Quote(name), strings.Join(names, ", ")))
		}
	}
	within := func(name string, v, least int) {
		if v < least || v > maxN {
			errs = append(errs, fmt.Errorf("-%s %d: must be from %d to %d", name, v, least, maxN))
		}
	}
	if cfg.candidates != 0 {
		within("candidates", cfg.candidates, 4) // two remain when half of them expire
	}
	if cfg.elections != 0 {
		within("elections", cfg.elections, 2)
	}
	within("handovers", cfg.handovers, 1)
	within("join", cfg.join, 1)
	within("server-heap", cfg.heapMB, 64)
	if cfg.ttl < time.Second || cfg.ttl > maxTTL {
		errs = append(errs, fmt.Errorf("-ttl %v: must be from 1s to %v", cfg.ttl, maxTTL))
	}
	return cfg, errors.Join(errs...)
}
