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

	"github.com/elector-go/elector/strategy/catalog"
)

// options are the options of the command line.
type options struct {
	backends, strategies []string
	faults               []string
	servers              []int
	seed                 uint64
	minutes              float64
	clock                bool
	run                  bool
	stock                bool
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var names, described, stocked []string
	for _, x := range targets {
		names, described = append(names, x.name), append(described, x.name+x.says)
		if !x.noStock {
			stocked = append(stocked, x.name)
		}
	}
	backends := flags.String("backend", "all", strings.Join(described, ", ")+": several by commas, or all")
	servers := flags.String("servers", "1,3", "how many servers the service has: 1, 3, 5, several by commas")
	strategy := flags.String("strategy", "all", strings.Join(catalog.Names(), ", ")+": several by commas, or all")
	faults := flags.String("faults", "all", "candidate, server, member (between servers, on a network that takes root on Linux), companion (which candidates then have, on Linux; not with -run): several by commas, or all")
	flags.Uint64Var(&o.seed, "seed", 1, "what the faults and their order depend on")
	flags.Float64Var(&o.minutes, "minutes", 1, "how long each campaign is planned to last")
	flags.BoolVar(&o.clock, "clock", true, "step candidates' clocks, too: they are built for that, which takes minutes the first time")
	flags.BoolVar(&o.run, "run", false, "candidates are the command elector run: no two of their commands may live at the same time; without -clock")
	flags.BoolVar(&o.stock, "stock", false, "servers have their stock settings: "+strings.Join(stocked, ", ")+"; sessions are longer, and no server is given a snapshot")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var errs []error
	list := func(name, value string, all ...string) []string {
		if value == "all" {
			return all
		}
		chosen := strings.Split(value, ",")
		for _, x := range chosen {
			if !slices.Contains(all, x) {
				errs = append(errs, fmt.Errorf("-%s %q: there are %s", name, x, strings.Join(all, ", ")))
			}
		}
		return chosen
	}
	o.backends = list("backend", *backends, names...)
	for _, b := range o.backends {
		if o.stock && slices.Contains(names, b) && !slices.Contains(stocked, b) {
			errs = append(errs, fmt.Errorf("-stock -backend %q: there are %s", b, strings.Join(stocked, ", ")))
		}
	}
	o.strategies = list("strategy", *strategy, catalog.Names()...)
	o.faults = list("faults", *faults, ofCandidates, ofServers, ofMembers, ofCompanions)
	for _, n := range list("servers", *servers, "1", "3", "5") {
		number, _ := strconv.Atoi(n) // list has checked it
		o.servers = append(o.servers, number)
	}
	if flags.NArg() > 0 {
		errs = append(errs, fmt.Errorf("%q is no flag", flags.Arg(0)))
	}
	if !(o.minutes > 0 && o.minutes <= 24*60) {
		errs = append(errs, fmt.Errorf("-minutes %v: give a number above 0, up to a day's", o.minutes))
	}
	return o, errors.Join(errs...)
}

// trials returns the requested campaigns.
func (o options) trials() []trial {
	var all []trial
	for _, b := range o.backends {
		for _, n := range o.servers {
			for _, s := range o.strategies {
				all = append(all, trial{backend: b, servers: n, strategy: s, faults: o.faults, seed: o.seed, stock: o.stock,
					length: time.Duration(o.minutes * float64(time.Minute))})
			}
		}
	}
	return all
}

// args returns the command line of one trial.
func (t trial) args() string {
	return fmt.Sprintf("-backend %s -servers %d -strategy %s -faults %s -seed %d -minutes %.3g -clock=%t -run=%t -stock=%t",
		t.backend, t.servers, t.strategy, strings.Join(t.faults, ","), t.seed, t.length.Minutes(), t.program != "", t.elector != "", t.stock)
}
