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
	quick, json, fsync bool

	kinds        []kind // of services
	parts        map[string]bool
	n            []int // nil for the service's default numbers
	seats        []int // nil for the service's default numbers
	memoryN      []int
	dir          string // for the servers' files
	samples      int
	crashSamples int
	join         int           // candidates that enrol in parallel
	idle         time.Duration // before each sample
	ttl          time.Duration // session timeout, except in the crash part
	servers      int           // of the service
	heapMB       int           // of ZooKeeper's server
	rest         time.Duration // without work, after they have joined
	at           string        // the server's address, for a process that is measured
	uncounted    bool          // the traffic of the clients, in a process that is measured
	stock        bool          // the server has the limits that it has by default
}

// Limits of the flags.
const (
	maxN       = 100_000
	maxSamples = 1_000_000
	// herdN is the largest N of all parts except fair: the herd makes more of them slow, without new
	// insight.
	herdN = 500
)

func parse(args []string, stderr io.Writer) (config, error) {
	var cfg config
	var names, all []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	for _, k := range kinds {
		all = append(all, k.Name)
	}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&cfg.quick, "quick", false, "a smoke run in seconds: small N, few samples; the numbers mean nothing")
	f.BoolVar(&cfg.json, "json", false, "print JSON instead of Markdown")
	f.BoolVar(&cfg.fsync, "fsync", false, "let the server sync its log to disk before it answers, as Consul always does: adds the same time to all and so flatters the ratios")
	f.StringVar(&cfg.dir, "dir", "", "where the servers put their files (default the system's folder for temporary ones); in memory, such as /dev/shm, syncing costs nothing")
	backends := f.String("backend", "zookeeper", "what to measure on: some of "+strings.Join(all, ","))
	parted := f.String("parts", strings.Join(names, ","), "what to measure")
	n := f.String("n", "", fmt.Sprintf("numbers of candidates (default 3,50,500, and on ZooKeeper 5000); the strategies but fair leave out those over %d", herdN))
	seats := f.String("seats", "", "numbers of elections of one process that dies (default 100,1000,10000, and on Consul 100,1000)")
	memoryN := f.String("memory-n", "1000,5000,10000", "numbers of waiting candidates on memory")
	f.IntVar(&cfg.samples, "samples", 200, "samples of each delay")
	f.IntVar(&cfg.crashSamples, "crash-samples", 20, fmt.Sprintf("crashes, and up to %d deaths without a companion", fewWithout))
	f.IntVar(&cfg.join, "join", 500, "candidates that enrol at a time")
	f.DurationVar(&cfg.idle, "idle", 100*time.Millisecond, "idle time before each sample")
	f.DurationVar(&cfg.ttl, "ttl", 60*time.Second, "session timeout, except for the crashes, and deaths without a companion")
	f.DurationVar(&cfg.rest, "rest", time.Minute, "time with nothing to do, after joining, and of a companion")
	f.IntVar(&cfg.servers, "servers", 1, "servers of each service: 1, 3 or 5")
	f.IntVar(&cfg.heapMB, "server-heap", 1024, "the Java heap of ZooKeeper's server in MiB")
	if err := f.Parse(args); err != nil {
		return cfg, err
	}
	if cfg.quick { // the given flags come later and override these
		small := strings.Fields("-n=3,10 -seats=20 -memory-n=100,1000 -samples=8 -crash-samples=1 -rest=1s -idle=20ms -ttl=10s -server-heap=256")
		if err := f.Parse(append(small, args...)); err != nil {
			return cfg, err
		}
	}
	var errs []error
	bad := func(name string, value any, rule string) {
		errs = append(errs, fmt.Errorf("-%s %v: %s", name, value, rule))
	}
	if f.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q: there are only flags", f.Arg(0)))
	}
	least := time.Second
	some := func(name, list string, there []string) (at []int) {
		for one := range strings.SplitSeq(list, ",") {
			if i := slices.Index(there, strings.TrimSpace(one)); i >= 0 {
				at = append(at, i)
			} else {
				bad(name, strconv.Quote(one), "there are "+strings.Join(there, ", "))
			}
		}
		return at
	}
	for _, i := range some("backend", *backends, all) {
		cfg.kinds = append(cfg.kinds, kinds[i])
		least = max(least, kinds[i].make(cfg).facts().minTTL)
	}
	cfg.parts = make(map[string]bool)
	for _, i := range some("parts", *parted, names) {
		cfg.parts[names[i]] = true
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
	if *n != "" {
		cfg.n = numbers("n", *n, 2) // one resigns, another takes over
	}
	if *seats != "" {
		cfg.seats = numbers("seats", *seats, 1)
	}
	cfg.memoryN = numbers("memory-n", *memoryN, 1)
	within := func(name string, v, least, most int) {
		if v < least || v > most {
			bad(name, v, fmt.Sprintf("must be from %d to %d", least, most))
		}
	}
	within("samples", cfg.samples, 1, maxSamples)
	within("crash-samples", cfg.crashSamples, 1, maxSamples)
	within("join", cfg.join, 1, maxN)
	if !slices.Contains([]int{1, 3, 5}, cfg.servers) {
		bad("servers", cfg.servers, "must be 1, 3 or 5")
	}
	within("server-heap", cfg.heapMB, 64, 1<<20)
	for name, d := range map[string]time.Duration{"idle": cfg.idle, "rest": cfg.rest} {
		if d < 0 || d > time.Minute {
			bad(name, d, "must be from 0 to 1m")
		}
	}
	if cfg.ttl < least || cfg.ttl > maxTTL {
		bad("ttl", cfg.ttl, fmt.Sprintf("must be from %v to %v with these backends", least, maxTTL))
	}
	return cfg, errors.Join(errs...)
}

// numbers returns the numbers of candidates on the service.
func (c config) numbers(f facts) []int {
	if c.n == nil {
		return f.n
	}
	return c.n
}
