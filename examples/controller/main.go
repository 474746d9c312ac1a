// Controller is a small control plane like Apache Kafka's: brokers elect one of them as the controller, which
// decides who leads each partition. The first command below is a demonstration in one process, the second is
// one of several brokers on ZooKeeper, etcd or Consul; README.md says what to try.
//
//	go run ./examples/controller
//	go run ./examples/controller -backend zk://127.0.0.1:2181 -broker 1
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/elector-go/elector/backend/dial"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	start := time.Now()
	err := run(ctx, os.Args[1:], func(format string, args ...any) {
		fmt.Printf("%7.3fs  %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "controller:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, say func(string, ...any)) error {
	flags := flag.NewFlagSet("controller", flag.ExitOnError)
	url := flags.String("backend", "", dial.Usage())
	id := flags.Int("broker", 0, "be the broker of this id, from 1 to 3")
	unclean := flags.Bool("unclean", false, "as the controller, let a replica lead that may lack messages, rather than none")
	_ = flags.Parse(args) // exits if it fails
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q: there are flags only", flags.Arg(0))
	case flags.NFlag() == 0:
		demo(ctx, say)
		return nil
	case *url == "" || strings.HasPrefix(*url, "mem:"):
		return errors.New("-backend: give a server, such as zk://127.0.0.1:2181; without any flags this is a demonstration")
	case *id < 1 || *id > 3:
		return fmt.Errorf("-broker %d: the brokers of the cluster are 1, 2 and 3", *id)
	}
	b, err := dial.Open(ctx, *url)
	if err != nil {
		return err
	}
	newBroker(*id, b, *unclean, say).run(ctx)
	return b.Close()
}
