package main

import (
	"context"
	"flag"
	"time"
)

func trySemaphore(f *flag.FlagSet) part {
	k := f.Int("k", 2, "at most `K` hold a permit at once: all have to say the same")
	d := f.Duration("hold", 5*time.Second, "hold it for `DURATION`")
	return func(ctx context.Context, p *participant) error {
		if *k < 1 {
			return usagef("-k %d: at least one has to hold a permit", *k)
		}
		p.say("asks for a permit")
		h, err := Semaphore{p.args[0], *k}.Acquire(ctx, p.Session, p.name)
		return keep(ctx, p, "a permit", *d, h, err)
	}
}
