// Recipes are coordination recipes other than an election, on the same primitives: those of package
// backend. Each is in a file of its own, on one screen, with its trap; docs/recipes.md says what each
// guarantees and what not.
//
//	go run ./examples/recipes lock
//
// demonstrates one in this process, with several participants of which one may crash. With the URL of a
// service and arguments the process is one participant: start it several times, and kill -9 one.
//
//	recipes -backend zk://127.0.0.1:2181?timeout=4s lock -fair /locks/report
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/backend/memory"
)

// A recipe is one that can be tried by hand.
type recipe struct {
	name     string
	operands string // after the flags: "DIR", "DIR [ITEM...]"
	about    string
	// command defines the recipe's flags, and returns what one participant does. It is called
	// before the flags are parsed.
	command func(*flag.FlagSet) part
	demo    []actor
}

// A part is what one participant does, until it is done or ctx ends.
type part func(ctx context.Context, p *participant) error

// A participant is a process that takes part in a recipe.
type participant struct {
	*backend.Session
	backend backend.Backend // of the session, for an election
	name    string
	args    []string // operands
	say     func(format string, args ...any)
}

// An actor is a participant of a demonstration. Each starts a little after the one before it.
type actor struct {
	recipe string // if it is another one
	args   string // what one would type after the recipe's name
	// After crashes, if it is not zero, it has no link to the service any more, as if it were dead;
	// after leaves its context ends, as by Ctrl-C.
	crashes, leaves time.Duration
}

// recipes are all, in the order of docs/recipes.md.
var recipes = []recipe{
	{"lock", "KEY", "an exclusive lock: simple, or fair", tryLock, []actor{
		{args: "-fair -hold 200ms /lock"}, {args: "-fair -hold 5s /lock", crashes: 400 * time.Millisecond},
		{args: "-fair -hold 200ms /lock"},
	}},
	{"shared", "DIR", "a lock for many readers or one writer", tryShared, []actor{
		{args: "-hold 300ms /shared"}, {args: "-hold 300ms /shared"}, {args: "-write -hold 300ms /shared"},
		{args: "-write -hold 5s /shared", crashes: 600 * time.Millisecond}, {args: "-hold 300ms /shared"}, {args: "-hold 300ms /shared"},
	}},
	{"put", "DIR ITEM...", "puts items into a queue", tryPut, queueDemo},
	{"take", "DIR", "takes items from a queue, until it is stopped", tryTake, queueDemo},
	{"barrier", "KEY", "a barrier: wait until somebody lifts it", tryBarrier, []actor{
		{args: "-lift 500ms /barrier"}, {args: "/barrier"}, {args: "/barrier"},
	}},
	{"double", "DIR", "a double barrier: begin together, go on together", tryDouble, []actor{
		{args: "-work 300ms /double"}, {args: "-work 400ms /double"}, {args: "-work 5s /double", crashes: 250 * time.Millisecond},
	}},
	{"number", "DIR", "takes a number that nobody else gets, higher than all before", tryNumber, []actor{
		{args: "/numbers"}, {args: "/numbers"}, {args: "-dense /count"}, {args: "-dense -n 100 /count"}, {args: "-dense /count"},
	}},
	{"name", "DIR", "holds the lowest free name of worker-0, worker-1, …", tryName, []actor{
		{args: "-hold 75ms /names"}, {args: "/names", crashes: 200 * time.Millisecond},
		{args: "-hold 1s /names"}, {args: "-hold 1s /names"},
	}},
	{"members", "DIR [TASK...]", "does tasks as a worker; with TASKs gives them to workers", tryMembers, []actor{
		{args: "-work 800ms /jobs", leaves: 6 * time.Second}, {args: "-work 4s /jobs", crashes: 1500 * time.Millisecond},
		{args: "/jobs copy sort print"},
	}},
	{"config", "KEY [VALUE]", "publishes VALUE; without one follows what is published", tryConfig, []actor{
		{args: "-for 1s /config"}, {args: "/config blue"}, {args: "-for 1s /config"}, {args: "/config green"}, {args: "/config red"},
	}},
	{"register", "DIR NAME ADDR", "keeps an address of a name", tryRegister, namesDemo},
	{"resolve", "DIR", "knows all names, and serves them as DNS", tryResolve, namesDemo},
	{"scan", "DIR", "takes dead addresses out", tryScan, namesDemo},
	{"semaphore", "DIR", "holds one of K permits", trySemaphore, []actor{
		{args: "-hold 600ms /pool"}, {args: "-hold 5s /pool", crashes: 300 * time.Millisecond}, {args: "-hold 600ms /pool"},
		{args: "-hold 600ms /pool"}, {args: "-hold 600ms /pool", leaves: 200 * time.Millisecond}, {args: "-hold 600ms /pool"},
	}},
}

var namesDemo = []actor{
	{recipe: "resolve", args: "/names", leaves: 3 * time.Second},
	{recipe: "register", args: "-unchecked /names www 127.0.0.1:8080", leaves: 2 * time.Second},
	{recipe: "register", args: "-unchecked /names www 127.0.0.1:8081", crashes: 500 * time.Millisecond},
	{recipe: "register", args: "-unchecked /names db 127.0.0.1:5432", leaves: 2 * time.Second},
	{recipe: "scan", args: "-every 200ms -dead 127.0.0.1:5432 /names", leaves: 1500 * time.Millisecond},
}

var queueDemo = []actor{
	{recipe: "put", args: "/queue one two three four five"},
	{recipe: "take", args: "-work 200ms /queue", leaves: 3 * time.Second},
	{recipe: "take", args: "-work 300ms /queue", crashes: 350 * time.Millisecond},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	switch {
	case errors.As(err, new(usageError)):
		fmt.Fprintf(os.Stderr, "recipes: %v\n\"recipes -h\" lists the recipes, and \"recipes RECIPE -h\" the flags of one\n", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "recipes:", err)
		os.Exit(1)
	}
}

// A usageError says what is wrong with the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func usage() string {
	var b strings.Builder
	fmt.Fprintf(&b, "usage: recipes RECIPE                                    a demonstration in this process\n"+
		"       recipes -backend URL [-name NAME] RECIPE [FLAGS] ...  one participant\n"+
		"       recipes RECIPE -h                                 what the flags of a recipe mean\n\n"+
		"-backend: %s\n-name:    the participant's name; p and the process id without it\n\nrecipes:\n", strings.ReplaceAll(dial.Usage, "; ", ";\n          "))
	for _, r := range recipes {
		fmt.Fprintf(&b, "  %-12s %s\n  %-12s %s\n", r.name, r.about, "", r.flags().line)
	}
	return b.String()
}

// help explains the flags of one recipe.
func (r recipe) help() string {
	var b strings.Builder
	f := r.flags()
	fmt.Fprintf(&b, "%s: %s\n\nusage: recipes -backend URL [-name NAME] %s %s\n", r.name, r.about, r.name, f.line)
	f.SetOutput(&b)
	f.PrintDefaults()
	return b.String()
}

// flags are those of one participant. line shows them in one line, with the operands.
func (r recipe) flags() (f struct {
	*flag.FlagSet
	line string
	part part
},
) {
	f.FlagSet = flag.NewFlagSet(r.name, flag.ContinueOnError)
	f.SetOutput(io.Discard) // the error says what is wrong
	f.part = r.command(f.FlagSet)
	f.VisitAll(func(g *flag.Flag) {
		kind, _ := flag.UnquoteUsage(g)
		f.line += strings.TrimSuffix("[-"+g.Name+" "+kind, " ") + "] "
	})
	f.line += r.operands
	return f
}

// parse reads what stands after the recipe's name.
func (r recipe) parse(args []string) (part, []string, error) {
	f := r.flags()
	if err := f.Parse(args); err != nil {
		if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(strings.TrimLeft(a, "-"), "backend") }) {
			err = fmt.Errorf("%w: -backend and -name come before the recipe", err)
		}
		return nil, nil, usagef("%s: %w", r.name, err)
	}
	words := strings.Fields(r.operands)
	least := len(words) - strings.Count(r.operands, "[")
	endless := strings.Contains(r.operands, "...")
	if n := f.NArg(); n < least || n > len(words) && !endless {
		return nil, nil, usagef("%s takes %s, and got %q", r.name, f.line, args)
	}
	if err := backend.CheckKey(f.Arg(0)); err != nil {
		return nil, nil, usagef("%s: %w", r.name, err)
	}
	return f.part, f.Args(), nil
}

// find returns the recipe of this name.
func find(name string) (recipe, bool) {
	i := slices.IndexFunc(recipes, func(r recipe) bool { return r.name == name })
	if i < 0 {
		return recipe{}, false
	}
	return recipes[i], true
}

func run(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("recipes", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	url := f.String("backend", "mem://", dial.Usage)
	name := f.String("name", fmt.Sprint("p", os.Getpid()), "the participant's `name`")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, usage())
		return nil
	case err != nil:
		return usageError{err}
	case f.NArg() == 0:
		return usagef("which recipe?\n\n%s", usage())
	}
	r, ok := find(f.Arg(0))
	if !ok {
		return usagef("there is no recipe %q", f.Arg(0))
	}
	args = f.Args()[1:]
	part, operands, err := r.parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(out, r.help())
		return nil
	}
	if strings.HasPrefix(*url, "mem:") {
		if len(args) > 0 && err == nil {
			return usagef("%s %s: nobody else can take part in %s: give -backend URL before %s, or no arguments for a demonstration", r.name, strings.Join(args, " "), *url, r.name)
		}
		if len(args) == 0 {
			return demonstrate(ctx, r, out)
		}
	}
	if err != nil {
		return err
	}
	b, err := dial.Open(context.WithoutCancel(ctx), *url) // it does not block
	if err != nil {
		return usageError{err}
	}
	err = takePart(ctx, b, part, &participant{name: *name, args: operands, say: sayer(out, time.Now(), *name)})
	return errors.Join(err, b.Close())
}

// takePart does a part in a session of its own. That ctx has ended is no error, and that the session is lost is one to
// a part that needs it.
func takePart(ctx context.Context, b backend.Backend, do part, p *participant) (err error) {
	p.backend = b
	if p.Session, err = b.Open(ctx, backend.OpenOptions{}); err != nil {
		return err
	}
	if err = do(ctx, p); err != nil && ctx.Err() != nil && !errors.Is(err, backend.ErrSessionLost) {
		err = nil
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if p.State() == backend.Lost {
		_ = p.Close(closing) // it is over already
		return err
	}
	return errors.Join(err, p.Close(closing))
}

const (
	demoTTL = time.Second // of the sessions
	apart   = 50 * time.Millisecond
)

// demonstrate has all actors of a recipe play their parts on one service in this process.
func demonstrate(ctx context.Context, r recipe, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out = &locked{w: out}
	service := memory.New(memory.Options{DefaultTTL: demoTTL})
	errs := make([]error, len(r.demo))
	start := time.Now()
	var all sync.WaitGroup
	for i, a := range r.demo {
		p := &participant{name: string(rune('a' + i))}
		p.say = sayer(out, start, p.name)
		played := r
		if a.recipe != "" {
			played, _ = find(a.recipe)
		}
		part, operands, err := played.parse(strings.Fields(a.args))
		if err != nil {
			return err
		}
		p.args = operands
		client := service.Client(p.name)
		all.Go(func() {
			errs[i] = a.play(ctx, time.Duration(i)*apart, client, part, p)
			if errs[i] != nil && a.crashes == 0 {
				cancel() // the others might wait for it in vain
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// play begins after a delay.
func (a actor) play(ctx context.Context, delay time.Duration, client *memory.Client, do part, p *participant) error {
	if err := sleep(ctx, delay); err != nil {
		return nil // somebody else has failed
	}
	if a.leaves != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.leaves)
		defer cancel()
		told := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			p.say("leaves, as by Ctrl-C")
			close(told)
		})
		defer func() {
			if !stop() {
				<-told // nothing is written after the demonstration
			}
		}()
	}
	if a.crashes != 0 {
		defer time.AfterFunc(a.crashes, func() {
			p.say("CRASHES")
			client.Suspend()
		}).Stop()
	}
	p.say("starts: %s", strings.TrimSpace(a.recipe+" "+a.args))
	err := takePart(ctx, client, do, p)
	if a.crashes != 0 && p.State() == backend.Lost {
		p.say("its session is over, the service drops its entries")
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// sayer prints lines with the time since the start and a name.
func sayer(out io.Writer, start time.Time, name string) func(format string, args ...any) {
	return func(format string, args ...any) {
		fmt.Fprintf(out, "%6.2fs  %-8s %s\n", time.Since(start).Seconds(), name, fmt.Sprintf(format, args...))
	}
}

// locked writes one line at a time.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
