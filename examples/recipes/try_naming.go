package main

import (
	"context"
	"flag"
	"fmt"
	"time"
)

func tryNumber(f *flag.FlagSet) part {
	dense := f.Bool("dense", false, "count from 1: DIR is the count's entry")
	n := f.Uint64("n", 1, "with -dense, take `N` numbers at once")
	return func(ctx context.Context, p *participant) error {
		switch {
		case *dense && *n < 1:
			return usagef("-n %d: take one at least", *n)
		case *dense:
			first, err := Count(ctx, p.Session, p.args[0], *n)
			if err == nil {
				p.say("has %d from %d on, era %d", *n, first.First, first.Era)
			}
			return err
		}
		n, err := Number(ctx, p.Session, p.args[0])
		if err == nil {
			p.say("has %d", n)
		}
		return err
	}
}

func tryName(f *flag.FlagSet) part {
	d := f.Duration("hold", 5*time.Second, "hold it for `DURATION`")
	return func(ctx context.Context, p *participant) error {
		i, h, err := Ordinal(ctx, p.Session, p.args[0], p.name)
		return keep(ctx, p, fmt.Sprint("the name worker-", i), *d, h, err)
	}
}
