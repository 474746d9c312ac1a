// Controller is a small control plane in the way of Apache Kafka's: brokers elect one
// of them as the controller, which decides who leads each partition of each topic.
//
//	go run ./examples/controller
//
// needs nothing but Go: three brokers in this process, of which one dies, comes back,
// and then the controller dies.
//
//	go run ./examples/controller -backend zk://127.0.0.1:2181 -broker 1
//	go run ./examples/controller -backend zk://127.0.0.1:2181 -create orders:3:2
//
// are one broker among processes on a real ZooKeeper (or etcd, or Consul), and the request
// for a topic of 3 partitions with 2 replicas each. README.md tells what to try.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "controller:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	url      string
	root     string
	broker   int
	create   string
	unclean  bool
	stubborn bool
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	say := newSayer()
	if o.url == "mem://" {
		return demo(ctx, say)
	}
	b, err := dial.Open(ctx, o.url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if o.create != "" {
		return create(ctx, b, o, say)
	}
	member := newBroker(o.broker, b, o.root, say)
	member.stubborn = o.stubborn
	return member.run(ctx)
}

// parse reads the flags, and reports those that do not go together.
func parse(args []string) (o options, err error) {
	const noBroker = -1
	flags := flag.NewFlagSet("controller", flag.ExitOnError)
	flags.StringVar(&o.url, "backend", "mem://", dial.Usage+"; mem:// is a demonstration of three brokers in this process")
	flags.StringVar(&o.root, "root", "/", "path of the cluster in the service; / is where Kafka itself has its controller")
	flags.IntVar(&o.broker, "broker", noBroker, "be the broker of this id, 0 or more")
	flags.StringVar(&o.create, "create", "", "ask for a topic and end: name:partitions:replicas, such as orders:3:2")
	flags.BoolVar(&o.unclean, "unclean", false, "with -create: let a replica lead that may lack messages, rather than none")
	flags.BoolVar(&o.stubborn, "stubborn", false, "with -broker: when deposed as controller, send the refused write past the library, to see the service refuse it")
	_ = flags.Parse(args) // exits where it fails
	given := make(map[string]bool)
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q: there are flags only", flags.Arg(0))
	case o.url == "mem://" && len(given) > 1, o.url == "mem://" && len(given) == 1 && !given["backend"]:
		return o, errors.New("-backend mem:// is a demonstration that takes no other flags: give a server, such as -backend zk://127.0.0.1:2181")
	case o.url == "mem://":
	case given["broker"] == given["create"]:
		return o, errors.New("give either -broker, to be a broker, or -create, to ask for a topic")
	case given["broker"] && (o.broker < 0 || o.broker > math.MaxInt32):
		return o, fmt.Errorf("-broker %d is no broker id: give a number from 0 to %d", o.broker, math.MaxInt32)
	case o.unclean && !given["create"]:
		return o, errors.New("-unclean goes with -create: it belongs to a topic")
	case o.stubborn && !given["broker"]:
		return o, errors.New("-stubborn goes with -broker")
	case given["create"]:
		_, _, err = parseTopic(o.create)
	}
	if o.root != "/" && err == nil {
		if err = backend.CheckKey(o.root); err != nil {
			err = fmt.Errorf("-root: %w", err)
		}
	}
	return o, err
}

// create asks for a topic.
func create(ctx context.Context, b backend.Backend, o options, say sayer) error {
	name, t, err := parseTopic(o.create)
	if err != nil {
		return err
	}
	t.Unclean = o.unclean
	s, err := b.Open(ctx, backend.OpenOptions{})
	if err != nil {
		return err
	}
	defer s.Close(context.WithoutCancel(ctx))
	if err := createTopic(ctx, s, layout(o.root), name, t); err != nil {
		return err
	}
	say("topic %s is asked for: %s", name, encode(t))
	return nil
}

// sayer prints a line with the time since the start.
type sayer func(format string, args ...any)

func newSayer() sayer {
	start := time.Now()
	var mu sync.Mutex
	return func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf("%7.3fs  %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
	}
}
