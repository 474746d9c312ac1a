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

// config is what the flags say.
type config struct {
	quick, json, fsync bool

	parts        map[string]bool
	n, memoryN   []int
	samples      int
	crashSamples int
	join         int           // candidates that enrol at a time
	idle         time.Duration // before each sample
	ttl          time.Duration // session timeout, but for the crash part
	heapMB       int           // of the server
}

// Limits of what can be asked for.
const (
	maxN       = 100_000
	maxSamples = 1_000_000
	// herdN is the largest N of the unfair and kafka parts: the herd makes more of them
	// slow and tells nothing new.
	herdN = 500
)

func parse(args []string, stderr io.Writer) (config, error) {
	var cfg config
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&cfg.quick, "quick", false, "a smoke run in seconds: small N, few samples; the numbers mean nothing")
	f.BoolVar(&cfg.json, "json", false, "print JSON instead of Markdown")
	f.BoolVar(&cfg.fsync, "fsync", false, "let the server sync its log to disk before it answers: adds the same time to all and so flatters the ratios")
	parted := f.String("parts", strings.Join(names, ","), "what to measure")
	n := f.String("n", "3,50,500,5000", fmt.Sprintf("numbers of candidates on ZooKeeper; unfair and kafka leave out those over %d", herdN))
	memoryN := f.String("memory-n", "1000,5000,10000", "numbers of waiting candidates on memory")
	f.IntVar(&cfg.samples, "samples", 200, "samples of each delay")
	f.IntVar(&cfg.crashSamples, "crash-samples", 20, "crashes")
	f.IntVar(&cfg.join, "join", 500, "candidates that enrol at a time on ZooKeeper")
	f.DurationVar(&cfg.idle, "idle", 100*time.Millisecond, "idle time before each sample")
	f.DurationVar(&cfg.ttl, "ttl", 60*time.Second, "session timeout, except for the crashes")
	f.IntVar(&cfg.heapMB, "server-heap", 1024, "the server's Java heap in MiB")
	if err := f.Parse(args); err != nil {
		return cfg, err
	}
	if cfg.quick {
		given := make(map[string]bool)
		f.Visit(func(f *flag.Flag) { given[f.Name] = true })
		for name, value := range map[string]string{
			"n": "3,10", "memory-n": "100,1000", "samples": "8", "crash-samples": "1",
			"idle": "20ms", "ttl": "3s", "server-heap": "256",
		} {
			if !given[name] {
				if err := f.Set(name, value); err != nil {
					return cfg, err
				}
			}
		}
	}
	var errs []error
	bad := func(name string, value any, rule string) {
		errs = append(errs, fmt.Errorf("-%s %v: %s", name, value, rule))
	}
	if f.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q: there are only flags", f.Arg(0)))
	}
	cfg.parts = make(map[string]bool)
	for name := range strings.SplitSeq(*parted, ",") {
		if name = strings.TrimSpace(name); !slices.Contains(names, name) {
			bad("parts", strconv.Quote(name), "there are "+strings.Join(names, ", "))
		}
		cfg.parts[name] = true
	}
	numbers := func(name, list string, least int) (all []int) {
		for s := range strings.SplitSeq(list, ",") {
			i, err := strconv.Atoi(strings.TrimSpace(s))
			if err != nil || i < least || i > maxN {
				bad(name, strconv.Quote(s), fmt.Sprintf("give numbers from %d to %d, with commas between", least, maxN))
			}
			all = append(all, i)
		}
		return all
	}
	cfg.n = numbers("n", *n, 2) // one resigns, another takes over
	cfg.memoryN = numbers("memory-n", *memoryN, 1)
	within := func(name string, v, least, most int) {
		if v < least || v > most {
			bad(name, v, fmt.Sprintf("must be from %d to %d", least, most))
		}
	}
	within("samples", cfg.samples, 1, maxSamples)
	within("crash-samples", cfg.crashSamples, 1, maxSamples)
	within("join", cfg.join, 1, maxN)
	within("server-heap", cfg.heapMB, 64, 1<<20)
	if cfg.idle < 0 || cfg.idle > time.Minute {
		bad("idle", cfg.idle, "must be from 0 to 1m")
	}
	if cfg.ttl < time.Second || cfg.ttl > maxTTL {
		bad("ttl", cfg.ttl, fmt.Sprintf("must be from 1s to %v", maxTTL))
	}
	return cfg, errors.Join(errs...)
}
