package main

import (
	"context"
	"errors"
	"flag"
	"time"
)

// keep holds something for a while, and gives it back.
func keep(ctx context.Context, p *participant, what string, d time.Duration, h *Hold, err error) error {
	if err != nil {
		return err
	}
	p.say("HOLDS %s, token %d", what, h.Token())
	if err := sleep(h, d); err != nil && ctx.Err() == nil {
		p.say("has LOST %s: %v", what, err)
		return errors.Join(err, h.Release(ctx))
	}
	p.say("releases %s", what)
	return h.Release(ctx)
}

func tryLock(f *flag.FlagSet) part {
	fair := f.Bool("fair", false, "hand it on in order of arrival, and wake one at each release: all have to say the same")
	d := f.Duration("hold", 5*time.Second, "hold it for `DURATION`")
	return func(ctx context.Context, p *participant) error {
		lock := SimpleLock
		if *fair {
			lock = FairLock
		}
		p.say("asks for the lock")
		h, err := lock(ctx, p.Session, p.args[0], p.name)
		return keep(ctx, p, "the lock", *d, h, err)
	}
}

func tryShared(f *flag.FlagSet) part {
	herd := f.Bool("herd", false, "wake all at each change")
	write := f.Bool("write", false, "be the writer, not a reader")
	d := f.Duration("hold", 5*time.Second, "hold it for `DURATION`")
	return func(ctx context.Context, p *participant) error {
		l := SharedLock{Dir: p.args[0], Herd: *herd}
		lock, what := l.Read, "the lock as a reader"
		if *write {
			lock, what = l.Write, "the lock as the writer"
		}
		p.say("asks for %s", what)
		h, err := lock(ctx, p.Session, p.name)
		return keep(ctx, p, what, *d, h, err)
	}
}

func tryPut(*flag.FlagSet) part {
	return func(ctx context.Context, p *participant) error {
		for _, item := range p.args[1:] {
			n, err := Queue{p.args[0]}.Put(ctx, p.Session, []byte(item))
			if err != nil {
				return err
			}
			p.say("puts %q, number %d", item, n)
		}
		return nil
	}
}

func tryTake(f *flag.FlagSet) part {
	work := f.Duration("work", time.Second, "work on each item for `DURATION`")
	return func(ctx context.Context, p *participant) error {
		p.say("waits for items")
		for {
			c, err := Queue{p.args[0]}.Take(ctx, p.Session)
			if err != nil {
				return err
			}
			p.say("takes %q, number %d, token %d", c.Item.Value, c.Number, c.Token())
			if err := sleep(c, *work); err != nil {
				return errors.Join(err, c.Release(ctx))
			}
			if err := c.Finish(ctx); err != nil {
				return err
			}
			p.say("has finished %q", c.Item.Value)
		}
	}
}

func tryBarrier(f *flag.FlagSet) part {
	lift := f.Duration("lift", 0, "set it, and lift it after `DURATION`, instead of waiting")
	return func(ctx context.Context, p *participant) error {
		b := Barrier(p.args[0])
		if *lift == 0 {
			p.say("waits")
			if err := b.Wait(ctx, p.Session); err != nil {
				return err
			}
			p.say("PASSES")
			return nil
		}
		if err := b.Set(ctx, p.Session); err != nil {
			return err
		}
		p.say("has set it")
		_ = sleep(ctx, *lift) // if ctx has ended, too: others wait
		p.say("lifts it")
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return b.Lift(closing, p.Session)
	}
}

func tryDouble(f *flag.FlagSet) part {
	n := f.Int("n", 3, "`N` participants begin together")
	work := f.Duration("work", 2*time.Second, "work for `DURATION`")
	return func(ctx context.Context, p *participant) error {
		if *n < 1 {
			return usagef("-n %d: at least one has to take part", *n)
		}
		p.say("waits until %d have come", *n)
		in, err := DoubleBarrier{Dir: p.args[0], N: *n}.Enter(ctx, p.Session, p.name)
		if err != nil {
			return err
		}
		p.say("BEGINS")
		if err := sleep(in, *work); err != nil {
			return errors.Join(err, in.Release(ctx))
		}
		p.say("has done its work")
		if err := in.Leave(ctx); err != nil {
			return err
		}
		p.say("GOES ON")
		return nil
	}
}
