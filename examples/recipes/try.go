package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy/fair"
)

// A role is the action of one participant of a recipe, until it is done or ctx ends. demo shows it with others.
type role struct {
	name     string
	operands string
	about    string
	play     func(ctx context.Context, p *participant) error
	demo     []actor
}

const ms = time.Millisecond

// roles are all roles, in the order of docs/recipes.md.
var roles = []role{
	{"lock", "KEY", "holds a lock; a release wakes all that wait", holds(func(ctx context.Context, p *participant) (*Hold, error) {
		return SimpleLock(ctx, p.Session, p.args[0], p.name)
	}), []actor{{line: "-for 200ms lock /lock"}, {line: "lock /lock", crashes: 400 * ms}, {line: "-for 200ms lock /lock"}}},
	{"fair", "DIR", "holds a lock in order of arrival; a release wakes one", holds(func(ctx context.Context, p *participant) (*Hold, error) {
		return FairLock(ctx, p.Session, p.args[0], p.name)
	}), []actor{{line: "-for 200ms fair /fair"}, {line: "fair /fair", crashes: 400 * ms}, {line: "-for 200ms fair /fair"}}},
	{"read", "DIR", "shares a lock with other readers", holds(func(ctx context.Context, p *participant) (*Hold, error) {
		return SharedLock{p.args[0]}.Read(ctx, p.Session, p.name)
	}), sharedDemo},
	{"write", "DIR", "holds that lock alone", holds(func(ctx context.Context, p *participant) (*Hold, error) {
		return SharedLock{p.args[0]}.Write(ctx, p.Session, p.name)
	}), sharedDemo},
	{"put", "DIR ITEM ...", "puts items into a queue", put, queueDemo},
	{"take", "DIR", "takes items from a queue, until it is stopped", take, queueDemo},
	{"wait", "KEY", "waits at a barrier", func(ctx context.Context, p *participant) error {
		return tells(p, "passes", Barrier(p.args[0]).Wait(ctx, p.Session))
	}, barrierDemo},
	{"lift", "KEY", "sets the barrier, and lifts it after -for", lift, barrierDemo},
	{"double", "DIR", "begins together with -n participants, and goes on together", double, []actor{
		{line: "-n 3 -for 300ms double /double"}, {line: "-n 3 -for 400ms double /double"}, {line: "-n 3 double /double", crashes: 250 * ms},
	}},
	{"number", "DIR", "takes a number that nobody else gets, higher than all before", func(ctx context.Context, p *participant) error {
		n, err := Number(ctx, p.Session, p.args[0])
		return tells(p, fmt.Sprint("has number ", n), err)
	}, []actor{{line: "number /numbers"}, {line: "number /numbers"}}},
	{"count", "KEY", "takes -n numbers at once, from 1 on", func(ctx context.Context, p *participant) error {
		first, err := Count(ctx, p.Session, p.args[0], uint64(p.n))
		return tells(p, fmt.Sprintf("has %d numbers from %d on, era %d", p.n, first.First, first.Era), err)
	}, []actor{{line: "count /count"}, {line: "-n 100 count /count"}, {line: "-n 1 count /count"}}},
	{"name", "DIR", "holds the lowest free name of worker-0, worker-1, …", holds(func(ctx context.Context, p *participant) (*Hold, error) {
		i, h, err := Ordinal(ctx, p.Session, p.args[0], p.name)
		return h, tells(p, fmt.Sprint("has the name worker-", i), err)
	}), []actor{{line: "-for 75ms name /names"}, {line: "name /names", crashes: 200 * ms}, {line: "-for 1s name /names"}, {line: "-for 1s name /names"}}},
	{"work", "DIR", "does tasks", work, membersDemo},
	{"control", "DIR TASK ...", "gives tasks to workers", control, membersDemo},
	{"publish", "KEY VALUE", "publishes a value", func(ctx context.Context, p *participant) error {
		was, err := read(ctx, p.Session, p.args[0])
		if err == nil {
			_, err = Publish(ctx, p.Session, was, []byte(p.args[1]))
		}
		return tells(p, "has published "+p.args[1], err)
	}, configDemo},
	{"follow", "KEY", "follows what is published", func(ctx context.Context, p *participant) error {
		return Subscribe(ctx, p.backend, p.args[0], func(e backend.Entry) { p.say("sees %q, revision %d", e.Value, e.Rev) })
	}, configDemo},
	{"register", "DIR NAME ADDR", "keeps an address of a name while it is alive", register, namesDemo},
	{"resolve", "DIR", "knows all names", resolve, namesDemo},
	{"scan", "DIR", "takes dead addresses out", func(ctx context.Context, p *participant) error {
		return Scan(ctx, p.Session, p.args[0], p.pause, p.alive, p.say)
	}, namesDemo},
	{"semaphore", "DIR", "holds one of -n permits", holds(func(ctx context.Context, p *participant) (*Hold, error) {
		return Semaphore{p.args[0], p.n}.Acquire(ctx, p.Session, p.name)
	}), []actor{
		{line: "-for 600ms semaphore /pool"}, {line: "semaphore /pool", crashes: 300 * ms}, {line: "-for 600ms semaphore /pool"},
		{line: "semaphore /pool", leaves: 200 * ms}, {line: "-for 600ms semaphore /pool"},
	}},
}

var (
	sharedDemo = []actor{
		{line: "-for 300ms read /shared"}, {line: "-for 300ms read /shared"}, {line: "write /shared", crashes: 600 * ms},
		{line: "-for 300ms read /shared"}, {line: "-for 300ms read /shared"},
	}
	queueDemo = []actor{
		{line: "put /queue one two three four five"}, {line: "-for 200ms take /queue", leaves: 3 * time.Second}, {line: "-for 300ms take /queue", crashes: 350 * ms},
	}
	barrierDemo = []actor{{line: "-for 500ms lift /barrier"}, {line: "wait /barrier"}, {line: "wait /barrier"}}
	membersDemo = []actor{
		{line: "-for 800ms work /jobs", leaves: 6 * time.Second}, {line: "work /jobs", crashes: 1500 * ms}, {line: "control /jobs copy sort print"},
	}
	configDemo = []actor{
		{line: "follow /config", leaves: time.Second}, {line: "publish /config blue"}, {line: "publish /config green"}, {line: "follow /config", leaves: time.Second},
	}
	namesDemo = []actor{
		{line: "resolve /names", leaves: 3 * time.Second}, {line: "register /names www 127.0.0.1:8080", leaves: 2 * time.Second},
		{line: "register /names www 127.0.0.1:8081", crashes: 500 * ms}, {line: "register /names db 127.0.0.1:5432", leaves: 2 * time.Second},
		{line: "-for 200ms scan /names", leaves: 2500 * ms},
	}
)

// tells prints what has been done, if err is nil.
func tells(p *participant, what string, err error) error {
	if err == nil {
		p.say("%s", what)
	}
	return err
}

// holds returns a play that holds something for a while, and releases it.
func holds(take func(ctx context.Context, p *participant) (*Hold, error)) func(ctx context.Context, p *participant) error {
	return func(ctx context.Context, p *participant) error {
		h, err := take(ctx, p)
		if err != nil {
			return err
		}
		p.say("HOLDS it, token %d", h.Token())
		if err := sleep(h, p.pause); err != nil && ctx.Err() == nil {
			p.say("has LOST it: %v", err)
			return errors.Join(err, h.Release(ctx))
		}
		p.say("releases it")
		return h.Release(ctx)
	}
}

func put(ctx context.Context, p *participant) error {
	for _, item := range p.args[1:] {
		n, err := Queue{p.args[0]}.Put(ctx, p.Session, []byte(item))
		if tells(p, fmt.Sprintf("puts %q, number %d", item, n), err) != nil {
			return err
		}
	}
	return nil
}

func take(ctx context.Context, p *participant) error {
	for {
		c, err := Queue{p.args[0]}.Take(ctx, p.Session)
		if err != nil {
			return err
		}
		p.say("takes %q, number %d, token %d", c.Item.Value, c.Number, c.Token())
		if err := sleep(c, p.pause); err != nil {
			return errors.Join(err, c.Release(ctx))
		}
		if err := tells(p, fmt.Sprintf("has finished %q", c.Item.Value), c.Finish(ctx)); err != nil {
			return err
		}
	}
}

func lift(ctx context.Context, p *participant) error {
	b := Barrier(p.args[0])
	if err := tells(p, "has set it", b.Set(ctx, p.Session)); err != nil {
		return err
	}
	_ = sleep(ctx, p.pause) // even if ctx has ended: others wait
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return tells(p, "has lifted it", b.Lift(closing, p.Session))
}

func double(ctx context.Context, p *participant) error {
	in, err := DoubleBarrier{Dir: p.args[0], N: p.n}.Enter(ctx, p.Session, p.name)
	if err != nil {
		return err
	}
	p.say("BEGINS")
	if err := sleep(in, p.pause); err != nil {
		return errors.Join(err, in.Release(ctx))
	}
	p.say("has done its work")
	return tells(p, "GOES ON", in.Leave(ctx))
}

// work reports after each quarter of a task.
func work(ctx context.Context, p *participant) error {
	return Work(ctx, p.Session, p.args[0], p.name, func(ctx context.Context, j Job) (err error) {
		p.say("begins %s, token %d", j.Task, j.Token)
		for done := 25; done <= 100 && err == nil; done += 25 {
			if err = sleep(ctx, p.pause/4); err == nil {
				err = j.Report(ctx, done)
			}
		}
		return tells(p, "has done "+j.Task, err)
	})
}

// control stands for the controller's seat, and assigns tasks while it leads.
func control(ctx context.Context, p *participant) (err error) {
	dir, tasks := p.args[0], p.args[1:]
	e, err := elector.New(elector.Config{Backend: p.backend, Strategy: fair.Strategy{}, Election: dir + "/controller", ID: p.name})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close(context.WithoutCancel(ctx))) }()
	return elector.Run(ctx, e, func(ctx context.Context, term *elector.Term) error {
		p.say("is the controller, token %d", term.Token())
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go sayChanges(ctx, p, func() string { return progress(ctx, p, dir) })
		guard := term.Guard()
		err := Control(ctx, guard.Session, guard.Conditions, dir, tasks, p.say)
		if errors.Is(err, backend.ErrBadKey) { // standing again would not help
			return usageError{errors.Join(err, elector.ErrStop)}
		}
		return tells(p, "all is done: "+strings.Join(tasks, ", "), err)
	})
}

// progress lists the live workers and their progress.
func progress(ctx context.Context, p *participant, dir string) (text string) {
	_, all, err := Members(ctx, p.Session, dir)
	if err != nil {
		return ""
	}
	for _, w := range all {
		if text += " " + w.Name; w.free {
			text += " (free)"
		} else {
			text += fmt.Sprintf(" (%s, %d %%)", w.Task, w.Done)
		}
	}
	return "sees:" + text
}

// sayChanges prints the result of look whenever it has changed, until ctx ends.
func sayChanges(ctx context.Context, p *participant, look func() string) {
	for last := ""; sleep(ctx, 50*ms) == nil; {
		if now := look(); now != last && now != "" {
			p.say("%s", now)
			last = now
		}
	}
}

// listens reports whether somebody accepts connections at an address.
func listens(ctx context.Context, a netip.AddrPort) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", a.String())
	if err != nil {
		return false
	}
	return c.Close() == nil
}

func register(ctx context.Context, p *participant) error {
	addr, err := netip.ParseAddrPort(p.args[2])
	if err != nil {
		return usagef("ADDR %q: give IP:PORT, such as 127.0.0.1:8080 or [::1]:8080", p.args[2])
	}
	return Register(ctx, p.Session, p.args[0], Address{p.args[1], addr}, func(ctx context.Context, a netip.AddrPort) bool {
		alive := p.alive(ctx, a)
		if !alive {
			p.say("waits: nobody listens at %v", a)
		}
		return alive
	})
}

// resolve continues in a new session if one is lost.
func resolve(ctx context.Context, p *participant) error {
	r := new(Resolver)
	go sayChanges(ctx, p, func() string {
		if cache := r.cache.Load(); cache != nil {
			return strings.Replace(fmt.Sprint(*cache), "map", "knows ", 1)
		}
		return ""
	})
	for {
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
