package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/elector-go/elector/backend"
)

func tryConfig(f *flag.FlagSet) part {
	d := f.Duration("for", 0, "follow for `DURATION`; 0 is until Ctrl-C")
	return func(ctx context.Context, p *participant) error {
		key := p.args[0]
		if len(p.args) == 1 {
			if *d > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, *d)
				defer cancel()
			}
			err := Subscribe(ctx, p.backend, key, func(e backend.Entry) {
				if e.Exists() {
					p.say("has %q", e.Value)
				} else {
					p.say("has nothing")
				}
			})
			if *d > 0 && ctx.Err() != nil {
				return nil
			}
			return err
		}
		was, err := read(ctx, p.Session, key)
		if err == nil {
			_, err = Publish(ctx, p.Session, was, []byte(p.args[1]))
		}
		if err == nil {
			p.say("has published %q", p.args[1])
		}
		return err
	}
}

// listens tells whether somebody takes connections at an address.
func listens(ctx context.Context, a netip.AddrPort) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", a.String())
	if err != nil {
		return false
	}
	return c.Close() == nil
}

// pretend is for a demonstration, in which nobody listens.
func pretend(context.Context, netip.AddrPort) bool { return true }

func tryRegister(f *flag.FlagSet) part {
	unchecked := f.Bool("unchecked", false, "register it though nobody listens there")
	return func(ctx context.Context, p *participant) error {
		addr, err := netip.ParseAddrPort(p.args[2])
		if err != nil {
			return usagef("ADDR %q: give IP:PORT, such as 127.0.0.1:8080 or [::1]:8080", p.args[2])
		}
		check := listens
		if *unchecked {
			check = pretend
		}
		waits := false
		return Register(ctx, p.Session, p.args[0], Address{p.args[1], addr}, func(ctx context.Context, a netip.AddrPort) bool {
			alive := check(ctx, a)
			if alive {
				p.say("keeps %s at %v", p.args[1], a)
			} else if !waits {
				p.say("waits: nobody listens at %v", a)
			}
			waits = !alive
			return alive
		})
	}
}

func tryScan(f *flag.FlagSet) part {
	every := f.Duration("every", time.Second, "try each address every `DURATION`")
	dead := f.String("dead", "", "try nothing: this `ADDRESS` is dead, and all others are alive")
	return func(ctx context.Context, p *participant) error {
		check := listens
		if *dead != "" {
			check = func(_ context.Context, a netip.AddrPort) bool { return a.String() != *dead }
		}
		p.say("tries each address every %v", *every)
		return Scan(ctx, p.Session, p.args[0], *every, check, p.say)
	}
}

func tryResolve(f *flag.FlagSet) part {
	listen := f.String("dns", "", "serve them as DNS at `ADDRESS`, as 127.0.0.1:5353")
	zone := f.String("zone", "example.", "the `ZONE` that is served")
	return func(ctx context.Context, p *participant) error {
		r := new(Resolver)
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		if *listen != "" {
			udp, err := net.ListenPacket("udp", *listen)
			if err != nil {
				return err
			}
			tcp, err := net.Listen("tcp", *listen)
			if err != nil {
				return err
			}
			p.say("serves %s at %s", dns.CanonicalName(*zone), *listen)
			go func() { cancel(Zone{dns.CanonicalName(*zone), r.Lookup}.Serve(ctx, udp, tcp)) }()
		}
		go tell(ctx, p, r)
		for { // in a new session where one is lost
			s, err := p.backend.Open(ctx, backend.OpenOptions{})
			if err == nil {
				err = r.Watch(ctx, s, p.args[0])
				_ = s.Close(context.WithoutCancel(ctx))
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			p.say("goes on with what it knows: %v", err)
			_ = sleep(ctx, time.Second)
		}
	}
}

// tell shows the cache when it has changed.
func tell(ctx context.Context, p *participant, r *Resolver) {
	for last := "unknown"; sleep(ctx, 50*time.Millisecond) == nil; {
		cache := r.cache.Load()
		if cache == nil {
			continue
		}
		now := strings.TrimPrefix(fmt.Sprint(*cache), "map")
		if now != last {
			p.say("knows %s", now)
		}
		last = now
	}
}
