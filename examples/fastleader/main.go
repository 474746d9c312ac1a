// Fastleader elects a leader without a service: the peers vote among themselves, as
// ZooKeeper's servers do (FastLeaderElection), or as Elasticsearch's did (Zen). It is here to
// compare the strategies of this library with.
//
//	go run ./examples/fastleader demo
//
// starts five processes on this machine, kills the leader with kill -9, and shows each
// ballot.
//
//	go run ./examples/fastleader search
//
// goes through orders of messages, and prints the shortest in which there are two leaders.
//
//	go run ./examples/fastleader -id 3 -zxid 7 -peers 1=127.0.0.1:7001,2=127.0.0.1:7002,3=127.0.0.1:7003
//
// is one peer. README.md tells what it gives, and what not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fastleader:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && (args[0] == "demo" || args[0] == "search") {
		switch {
		case len(args) > 1:
			return fmt.Errorf("%s takes nothing after it, and there is %q", args[0], args[1])
		case args[0] == "demo":
			return demo(ctx)
		}
		return searchAll(func(format string, args ...any) { fmt.Printf(format+"\n", args...) })
	}
	n, leash, err := parse(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if leash {
		go func() { // it ends with the process
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	return n.run(ctx)
}

// machines are what -rule can name.
var machines = map[string]func(*config) machine{"fle": newPeer, "zen": newZen}

// parse reads the flags of one peer, and reports those that do not go together.
func parse(args []string) (n *node, leash bool, err error) {
	flags := flag.NewFlagSet("fastleader", flag.ExitOnError)
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "fastleader demo | search | FLAGS, which are those of one peer:\n")
		flags.PrintDefaults()
	}
	id := flags.Int("id", 0, "id of this peer: one of those in -peers or -observers")
	zxid := flags.Uint64("zxid", 0, "how far its log goes: the higher wins")
	voters := flags.String("peers", "", "all that vote, itself included: 1=host:port,2=host:port,...")
	observers := flags.String("observers", "", "all that follow and never vote, in the same form")
	rule := flags.String("rule", "fle", "fle: ZooKeeper's FastLeaderElection; zen: Elasticsearch's up to 6; the same for all")
	file := flags.String("state", "", "file of its own in which this peer keeps its round; without one it forgets it, as ZooKeeper does")
	flags.BoolVar(&leash, "leash", false, "end when standard input does")
	_ = flags.Parse(args) // exits where it fails
	if flags.NArg() > 0 {
		return nil, false, fmt.Errorf("unexpected argument %q: there are demo, search, and flags", flags.Arg(0))
	}
	addrs := make(map[int]string)
	c := &config{id: *id, zxid: *zxid, timing: usual, rules: right}
	if c.voters, err = addresses("-peers", *voters, addrs); err != nil {
		return nil, false, err
	}
	if *observers != "" {
		if c.observers, err = addresses("-observers", *observers, addrs); err != nil {
			return nil, false, err
		}
	}
	make, ok := machines[*rule]
	switch {
	case !ok:
		return nil, false, fmt.Errorf("-rule %q is neither fle nor zen", *rule)
	case addrs[*id] == "":
		return nil, false, fmt.Errorf("-id %d is neither in -peers nor in -observers: give one of %v", *id, slices.Sorted(maps.Keys(addrs)))
	case len(c.voters) > 64:
		return nil, false, fmt.Errorf("-peers has %d that vote: 64 at most", len(c.voters))
	case *file != "" && *rule == "zen":
		return nil, false, errors.New("-state is for -rule fle: Zen has no rounds to keep")
	}
	if *file != "" {
		if c.durable, err = load(*file); err != nil {
			return nil, false, err
		}
	}
	var mu sync.Mutex
	c.say = func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf("%s  %d  %s\n", time.Now().Format("15:04:05.000"), c.id, fmt.Sprintf(format, args...))
	}
	return &node{config: c, machine: make(c), addrs: addrs, file: *file, saved: c.durable}, leash, nil
}

// addresses reads a list of peers into addrs, and returns their ids in order.
func addresses(name, list string, addrs map[int]string) (ids []int, err error) {
	const form = "give id=host:port, with commas between, such as 1=127.0.0.1:7001,2=127.0.0.1:7002"
	if list == "" {
		return nil, fmt.Errorf("%s is missing: %s; or see what there is with demo", name, form)
	}
	for part := range strings.SplitSeq(list, ",") {
		number, addr, ok := strings.Cut(part, "=")
		id, err := strconv.Atoi(number)
		switch _, _, hostErr := net.SplitHostPort(addr); {
		case !ok || err != nil || hostErr != nil:
			return nil, fmt.Errorf("%s: %q is no peer: %s", name, part, form)
		case id < 1 || id > math.MaxInt32:
			return nil, fmt.Errorf("%s: id %d: ids are from 1 to %d", name, id, math.MaxInt32)
		case addrs[id] != "":
			return nil, fmt.Errorf("%s: there are two peers with id %d: give each its own", name, id)
		}
		addrs[id] = addr
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, nil
}
