// Recipes are coordination recipes other than an election, on the same primitives: those of package backend.
// Each is in a file of its own, on one screen, with its trap; docs/recipes.md says what each guarantees and
// what not.
//
//	go run ./examples/recipes fair
//
// demonstrates one in this process, with several participants, one of which may crash. With the URL of a
// service and operands the process is one participant: start it several times, and kill -9 one.
//
//	recipes -backend zk://127.0.0.1:2181?timeout=4s fair /locks/report
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/netip"
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

// A participant is a process that takes part in a recipe.
type participant struct {
	*backend.Session
	backend backend.Backend // backend of the session
	name    string
	pause   time.Duration // the flag -for
	n       int           // the flag -n
	args    []string      // operands
	alive   func(context.Context, netip.AddrPort) bool
	say     func(format string, args ...any)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	switch {
	case errors.As(err, new(usageError)):
		fmt.Fprintf(os.Stderr, "recipes: %v\n\"recipes -h\" lists the recipes and the flags\n", err)
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

// flags defines the flags that may precede the recipe.
func flags(p *participant, url *string) *flag.FlagSet {
	f := flag.NewFlagSet("recipes", flag.ContinueOnError)
	f.StringVar(url, "backend", "", "`URL` of the "+strings.ReplaceAll(dial.Usage(), "; ", ";\n"))
	f.StringVar(&p.name, "name", fmt.Sprint("p", os.Getpid()), "the participant's `NAME`")
	f.DurationVar(&p.pause, "for", 5*time.Second, "hold it, work, or pause between two rounds for `DURATION`")
	f.IntVar(&p.n, "n", 2, "`N` permits, participants or numbers")
	f.SetOutput(io.Discard) // the error reports what is wrong
	return f
}

func usage(out io.Writer) {
	fmt.Fprint(out, "usage: recipes RECIPE                           a demonstration in this process\n"+
		"       recipes -backend URL [FLAGS] RECIPE ...  one participant\n\nrecipes:\n")
	for _, r := range roles {
		fmt.Fprintf(out, "  %-30s %s\n", r.name+" "+r.operands, r.about)
	}
	fmt.Fprint(out, "\nflags:\n")
	f := flags(new(participant), new(string))
	f.SetOutput(out)
	f.PrintDefaults()
}

// parse reads a command line. For a demonstration, p has no operands.
func parse(args []string) (url string, r role, p *participant, err error) {
	p = &participant{alive: listens}
	f := flags(p, &url)
	if err := f.Parse(args); err != nil {
		return "", r, nil, usageError{err}
	}
	i := slices.IndexFunc(roles, func(r role) bool { return r.name == f.Arg(0) })
	switch {
	case f.NArg() == 0:
		return "", r, nil, usagef("which recipe?")
	case i < 0:
		return "", r, nil, usagef("there is no recipe %q", f.Arg(0))
	case p.n < 1:
		return "", r, nil, usagef("-n %d: give 1 at least", p.n)
	}
	r, p.args = roles[i], f.Args()[1:]
	if url == "" && f.NArg() == 1 {
		return url, r, p, nil
	}
	operands, endless := strings.CutSuffix(r.operands, " ...")
	if words := strings.Fields(operands); len(p.args) < len(words) || len(p.args) > len(words) && !endless {
		return "", r, nil, usagef("%s takes %s after it, and flags before it, and got %q", r.name, r.operands, p.args)
	}
	if err := backend.CheckKey(p.args[0]); err != nil {
		return "", r, nil, usagef("%s: %w", r.name, err)
	}
	return url, r, p, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	url, r, p, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		usage(out)
		return nil
	case err != nil:
		return err
	case len(p.args) == 0:
		return demonstrate(ctx, r, out)
	case url == "" || strings.HasPrefix(url, "mem:"):
		return usagef("%s: nobody else can take part in the memory of this process: give the -backend of a service before %[1]s, or nothing after it for a demonstration", r.name)
	}
	b, err := dial.Open(context.WithoutCancel(ctx), url) // does not block
	if err != nil {
		return usageError{err}
	}
	p.say = sayer(log.New(out, "", 0), time.Now(), p.name)
	return errors.Join(takePart(ctx, b, r, p), b.Close())
}

// takePart plays a role in a session of its own. It returns nil if ctx ends, but an error if a role needs the
// session and it is lost.
func takePart(ctx context.Context, b backend.Backend, r role, p *participant) (err error) {
	p.backend = b
	if p.Session, err = b.Open(ctx, backend.OpenOptions{}); err != nil {
		return err
	}
	p.say("starts: %s %s", r.name, strings.Join(p.args, " "))
	if err = r.play(ctx, p); err != nil && ctx.Err() != nil && !errors.Is(err, backend.ErrSessionLost) {
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

// An actor is a participant of a demonstration.
type actor struct {
	line string // the command line
	// After crashes, if it is not zero, its link to the service is down, as if it were dead; after leaves its
	// context ends, as by Ctrl-C.
	crashes, leaves time.Duration
}

// demonstrate makes all actors of a recipe play their roles on one service in this process. Each starts a
// little after the one before it.
func demonstrate(ctx context.Context, r role, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := log.New(out, "", 0) // one line at a time
	service := memory.New(memory.Options{DefaultTTL: time.Second})
	errs := make([]error, len(r.demo))
	start := time.Now()
	var all sync.WaitGroup
	for i, a := range r.demo {
		_, r, p, err := parse(strings.Fields(a.line))
		if err != nil {
			return err
		}
		p.name = string(rune('a' + i))
		p.say = sayer(lines, start, p.name)
		p.alive = func(_ context.Context, a netip.AddrPort) bool {
			return a.Port() != 5432 || time.Since(start) < time.Second
		}
		all.Go(func() {
			errs[i] = a.play(ctx, time.Duration(i)*50*time.Millisecond, service.Client(p.name), r, p)
			if errs[i] != nil {
				cancel() // the others might wait for it in vain
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// play plays the actor after a delay.
func (a actor) play(ctx context.Context, delay time.Duration, client *memory.Client, r role, p *participant) error {
	if err := sleep(ctx, delay); err != nil {
		return nil // somebody else has failed
	}
	if a.leaves != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.leaves)
		defer cancel()
	}
	if a.crashes != 0 {
		defer time.AfterFunc(a.crashes, func() {
			p.say("CRASHES")
			client.Suspend()
		}).Stop()
	}
	err := takePart(ctx, client, r, p)
	switch {
	case a.crashes != 0 && p.State() == backend.Lost:
		p.say("its session is over, the service drops its entries")
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", p.name, err)
	case ctx.Err() != nil:
		p.say("has left, as by Ctrl-C")
	}
	return nil
}

// sayer prints lines with the time since the start and a name.
func sayer(out *log.Logger, start time.Time, name string) func(format string, args ...any) {
	return func(format string, args ...any) {
		out.Printf("%6.2fs  %-8s %s", time.Since(start).Seconds(), name, fmt.Sprintf(format, args...))
	}
}
