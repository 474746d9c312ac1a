// Command chaos runs campaigns of real faults against real servers, with candidates in separate processes,
// and checks what they have recorded:
//
//	go run ./internal/chaos [-backend zookeeper,etcd,consul,consul-ttl] [-servers 1,3] [-strategy fair,kafka] [-faults candidate,server,member] [-seed 1] [-minutes 1] [-run]
//
// It prints one line per campaign. The faults and their order depend on the seed alone. On a violation it
// keeps all recordings, prints where, and exits with 1.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/elector-go/elector/internal/program"
)

func main() {
	candidateOnly()
	program.Main("chaos", run)
}

// candidateOnly does not return in a process that was started as a candidate.
func candidateOnly() {
	options := os.Getenv(environment)
	if options == "" {
		return
	}
	if err := beCandidate(options); err != nil {
		fmt.Fprintln(os.Stderr, "candidate:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run does all requested campaigns, one after the other.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "chaos-candidate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program, elector := "", ""
	switch {
	case o.run:
		elector, err = buildElector(ctx, dir)
	case o.clock:
		program, err = buildStepped(ctx, dir)
	}
	if err != nil {
		return err
	}
	printHead(stdout)
	failed := 0
	for _, t := range o.trials() {
		t.program, t.elector = program, elector
		ok, err := t.report(ctx, stdout, stderr)
		if err != nil {
			return err
		}
		if !ok {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d campaigns found violations", failed, len(o.trials()))
	}
	return nil
}

// report does a campaign and prints its result. It keeps the recordings only if there are violations.
func (t trial) report(ctx context.Context, stdout, stderr io.Writer) (ok bool, err error) {
	dir, err := os.MkdirTemp("", "chaos-"+t.backend+"-")
	if err != nil {
		return false, err
	}
	again := "to run it again: go run ./internal/chaos " + t.args()
	r, err := t.run(ctx, dir, stderr)
	if err != nil {
		return false, fmt.Errorf("%w\nall that was recorded is in %s; %s", err, dir, again)
	}
	r.print(stdout)
	if len(r.violations) == 0 {
		return true, os.RemoveAll(dir)
	}
	for _, v := range r.violations {
		fmt.Fprintln(stdout, "  VIOLATION:", v)
	}
	fmt.Fprintf(stdout, "  all that was recorded is in %s; %s\n", dir, again)
	return false, nil
}
