// Replicas is a small log that is kept by several processes: the primary takes writes, and acknowledges
// what a majority has on disk. When it dies, the replica whose log is the most advanced takes over.
//
//	go run ./examples/replicas demo
//
// needs nothing but Go: it starts an etcd server and four processes, writes all the time, kills the
// primary with SIGKILL, moves the lead to a named replica, and counts what was lost: nothing.
//
//	go run ./examples/replicas demo -backend zk://127.0.0.1:2181
//
// does so on a service that runs. README.md tells how to run the processes yourself.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "replicas:", err)
		os.Exit(1)
	}
}

const usage = `replicas COMMAND [flags]: one of

  node     be a replica, and the primary when elected
  append   write each line of the standard input, and print where it stands
  log      print the log of one node
  move     have a named replica lead next
  demo     show it all

replicas COMMAND -h tells the flags`

// options are the flags.
type options struct {
	url, election, id, nodes, observers, dir, to string
	step                                         time.Duration
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("no command. " + usage)
	}
	var o options
	flags := flag.NewFlagSet("replicas "+args[0], flag.ContinueOnError)
	flags.SetOutput(out)
	service := func(unset string) {
		flags.StringVar(&o.url, "backend", "", dial.Usage+unset)
		flags.StringVar(&o.election, "election", "/replicas", "path of the election")
	}
	cluster := func() {
		flags.StringVar(&o.nodes, "nodes", "", "all nodes that may lead, the same for everybody: n1=host:port,n2=host:port,n3=host:port")
		flags.StringVar(&o.observers, "observers", "", "nodes that get the log, never lead, and do not count in a majority")
	}
	var do func() error
	switch args[0] {
	case "node":
		service("")
		cluster()
		flags.StringVar(&o.id, "id", "", "which of the nodes this is")
		flags.StringVar(&o.dir, "data", "", "directory of this node's log")
		flags.DurationVar(&o.step, "step", time.Second, "how often it tells how far its log is")
		do = func() error { return runNode(ctx, o, out) }
	case "append":
		cluster()
		do = func() error { return runAppend(ctx, o, in, out) }
	case "log":
		cluster()
		flags.StringVar(&o.id, "id", "", "which node's")
		do = func() error { return runLog(ctx, o, out) }
	case "move":
		service("")
		flags.StringVar(&o.to, "to", "", "ID of the node that is to lead next")
		do = func() error { return runMove(ctx, o, out) }
	case "demo":
		service("; without, an etcd server is started, which Go builds the first time")
		do = func() error { return demo(ctx, o, out) }
	default:
		return fmt.Errorf("unknown command %q. %s", args[0], usage)
	}
	if err := flags.Parse(args[1:]); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: there are flags only", flags.Arg(0))
	}
	return do()
}

// nodes are all replicas of the log.
type nodes struct {
	addrs     map[string]string
	voters    []string        // in the order in which they are given
	observers map[string]bool // those that never lead
}

// majority is how many voters are more than half of them.
func (a nodes) majority() int { return len(a.voters)/2 + 1 }

func parseNodes(o options) (nodes, error) {
	all := nodes{addrs: make(map[string]string), observers: make(map[string]bool)}
	parse := func(name, list string) error {
		for one := range strings.SplitSeq(list, ",") {
			id, addr, is := strings.Cut(one, "=")
			if _, _, err := net.SplitHostPort(addr); !is || id == "" || err != nil {
				return fmt.Errorf("-%s: %q is not of the form id=host:port", name, one)
			}
			if all.addrs[id] != "" {
				return fmt.Errorf("-%s: there are two of the ID %q", name, id)
			}
			all.addrs[id] = addr
			if name == "nodes" {
				all.voters = append(all.voters, id)
			} else {
				all.observers[id] = true
			}
		}
		return nil
	}
	if o.nodes == "" {
		return all, errors.New("-nodes is missing: such as n1=127.0.0.1:7001,n2=127.0.0.1:7002,n3=127.0.0.1:7003")
	}
	err := parse("nodes", o.nodes)
	if err == nil && o.observers != "" {
		err = parse("observers", o.observers)
	}
	return all, err
}

// known checks -id.
func (o options) known(all nodes) error {
	if all.addrs[o.id] == "" {
		return fmt.Errorf("-id %q is none of the nodes", o.id)
	}
	return nil
}

func open(ctx context.Context, o options) (*dial.Backend, error) {
	if o.url == "" {
		return nil, errors.New("-backend is missing: " + dial.Usage)
	}
	if strings.HasPrefix(o.url, "mem:") {
		return nil, errors.New("-backend mem:// is a service in one process, and this takes several")
	}
	if err := backend.CheckKey(o.election); err != nil {
		return nil, fmt.Errorf("-election: %w", err)
	}
	return dial.Open(ctx, o.url)
}

func runNode(ctx context.Context, o options, out io.Writer) error {
	all, err := parseNodes(o)
	switch {
	case err != nil:
		return err
	case o.dir == "":
		return errors.New("-data is missing: the directory of this node's log")
	case o.step < 10*time.Millisecond:
		return fmt.Errorf("-step %v is too short: each is a write in the service", o.step)
	}
	if err := o.known(all); err != nil {
		return err
	}
	b, err := open(ctx, o)
	if err != nil {
		return err
	}
	j, err := openJournal(o.dir)
	if err != nil {
		return errors.Join(err, b.Close())
	}
	err = newNode(o.id, all, o.election, o.step, j, newSayer(out, o.id)).run(ctx, b)
	return errors.Join(err, j.close(), b.Close())
}

func runAppend(ctx context.Context, o options, in io.Reader, out io.Writer) error {
	all, err := parseNodes(o)
	if err != nil {
		return err
	}
	c := newClient(all)
	defer c.close()
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		at, err := c.append(ctx, lines.Text())
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%v\t%s\n", at, lines.Text())
	}
	return lines.Err()
}

func runLog(ctx context.Context, o options, out io.Writer) error {
	all, err := parseNodes(o)
	if err == nil {
		err = o.known(all)
	}
	if err != nil {
		return err
	}
	records, err := readLog(ctx, all.addrs[o.id])
	for i, r := range records {
		fmt.Fprintf(out, "%v\t%s\n", position{r.Token, i + 1}, r.Data)
	}
	return err
}

func runMove(ctx context.Context, o options, out io.Writer) error {
	if o.to == "" {
		return errors.New("-to is missing: the ID of the node that is to lead next")
	}
	b, err := open(ctx, o)
	if err != nil {
		return err
	}
	leader, err := move(ctx, b, o.election, o.to)
	if err == nil {
		fmt.Fprintf(out, "%s is asked to go, for %s to lead\n", leader.ID, o.to)
	}
	return errors.Join(err, b.Close())
}

func move(ctx context.Context, b backend.Backend, election, to string) (elector.Leader, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return elector.Ask(ctx, b, nodes{}.strategy(nil), election, elector.Request{By: "replicas move", To: to})
}

// sayer prints a line with the time of day.
type sayer func(format string, args ...any)

func newSayer(out io.Writer, who string) sayer {
	var mu sync.Mutex
	return func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(out, "%s  %-6s  %s\n", time.Now().Format("15:04:05.000"), who, fmt.Sprintf(format, args...))
	}
}
