// Fastleader elects a leader without a service: the peers vote among themselves, as ZooKeeper's servers do
// (FastLeaderElection). README.md says what it gives, and what it does not.
//
//	go run ./examples/fastleader demo     # six processes on this machine, kill -9, all ballots
//	go run ./examples/fastleader -id 3 -zxid 7 -peers 1=127.0.0.1:7001,2=127.0.0.1:7002,3=127.0.0.1:7003
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
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
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "fastleader:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	n := &node{peer: peer{config: &usual}, addrs: make(map[int]string), heard: make(chan vote)}
	flag.IntVar(&n.self.ID, "id", 0, "id of this peer: one of those in -peers or -observers")
	flag.Uint64Var(&n.self.Zxid, "zxid", 0, "how far its log goes: the higher wins")
	flag.Func("peers", "all that vote, itself included: 1=host:port,2=host:port,...", func(list string) error { return n.parse(list, &n.voters) })
	flag.Func("observers", "all that follow and never vote, in the same form", func(list string) error { return n.parse(list, &n.observers) })
	life := flag.Duration("for", 1000*time.Hour, "end after this time")
	flag.Parse()
	switch {
	case flag.Arg(0) == "demo" && len(os.Args) == 2:
		return demo(ctx)
	case flag.NArg() > 0:
		return fmt.Errorf("unexpected argument %q: give flags, or demo and nothing else", flag.Arg(0))
	case len(n.voters) == 0:
		return fmt.Errorf("-peers is missing; or see what there is with demo")
	case len(n.voters) > len(n.received):
		return fmt.Errorf("-peers has %d that vote: %d at most", len(n.voters), len(n.received))
	case n.addrs[n.self.ID] == "":
		return fmt.Errorf("-id %d is neither in -peers nor in -observers: give one of %v", n.self.ID, slices.Sorted(maps.Keys(n.addrs)))
	}
	time.AfterFunc(*life, func() { os.Exit(0) })
	return n.run(ctx)
}

// parse reads a list of peers into n.addrs, and their ids into ids.
func (n *node) parse(list string, ids *[]int) error {
	for part := range strings.SplitSeq(list, ",") {
		number, addr, _ := strings.Cut(part, "=")
		id, err := strconv.Atoi(number)
		if err != nil || id < 1 || addr == "" || n.addrs[id] != "" {
			return fmt.Errorf("%q is no peer, or the second with its id: give id=host:port, with ids from 1 and commas between", part)
		}
		n.addrs[id] = addr
		*ids = append(*ids, id)
	}
	return nil
}

// node runs a peer among others. A vote is a POST of one line of JSON. Anybody who reaches the port can vote
// in any name. (ZooKeeper has SASL and TLS to prevent that.)
type node struct {
	peer
	addrs map[int]string // of all peers, by id
	heard chan vote
}

// run runs the peer until ctx ends.
func (n *node) run(ctx context.Context) error {
	n.say = func(id int, line string) { fmt.Printf("%s  %d  %s\n", time.Now().Format("15:04:05.000"), id, line) }
	var group sync.WaitGroup
	defer group.Wait()
	server := &http.Server{Addr: n.addrs[n.self.ID], Handler: n, ReadTimeout: time.Minute}
	defer server.Close()
	failed := make(chan error, 1)
	group.Go(func() { failed <- server.ListenAndServe() })
	timer := time.NewTimer(beat)
	for e := n.start(); ; {
		for _, id := range e.to {
			word := n.word()
			group.Go(func() { send(n.addrs[id], word) })
		}
		if e.timer {
			timer.Reset(beat)
		}
		select {
		case v := <-n.heard:
			e = n.receive(v)
		case <-timer.C:
			e = n.timeout()
		case err := <-failed:
			return fmt.Errorf("peer %d cannot serve at its own address of -peers: %w", n.self.ID, err)
		case <-ctx.Done():
			return nil
		}
	}
}

// ServeHTTP accepts a vote.
func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var v vote
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 512)).Decode(&v); err != nil {
		http.Error(w, "no vote: "+err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case n.heard <- v:
	case <-r.Context().Done():
	}
}

var client = http.Client{Timeout: time.Second, Transport: new(http.Transport)} // with no proxy

// send tries to deliver a vote. A vote may be lost, or overtake another: peers repeat their votes.
func send(addr string, v vote) {
	line, _ := json.Marshal(v) // numbers and a name
	if reply, err := client.Post("http://"+addr, "application/json", bytes.NewReader(line)); err == nil {
		reply.Body.Close()
	}
}

const backed = "is followed by a majority"

// scenes are the steps of the demonstration. Each ends when all lines of until have been printed.
var scenes = []struct {
	title  string
	kills  bool // the leader
	starts []string
	until  []string
}{
	{"1, 2 and the observer 6 start: two of five are no majority", false, []string{"-id 1 -zxid 5", "-id 2 -zxid 6", "-id 6"}, []string{"1  round 1: votes for 2"}},
	{"3 starts: with it there is a majority, and it has the highest zxid", false, []string{"-id 3 -zxid 7"}, []string{"3  " + backed, "6  is OBSERVING"}},
	{"4 and 5 start: they are told that there is a leader, and unseat nobody", false, []string{"-id 4 -zxid 5", "-id 5 -zxid 5"}, []string{"4  is ", "5  is "}},
	// On a busy machine 2 may be heard too late, and another one leads.
	{"KILL -9 of 3: now 2 has the highest zxid, though not the highest id", true, nil, []string{backed, "6  is OBSERVING"}},
	{"3 starts again: it has the highest zxid, and is late", false, []string{"-id 3 -zxid 7"}, []string{"3  is "}},
	{"KILL -9 of the leader: this time 3 is there", true, nil, []string{backed}},
}

// demo runs five voters and an observer, each in its own process, and prints their output.
func demo(ctx context.Context) error {
	// The ports are below those that systems assign to connections. Otherwise a peer that connects to the
	// port of a dead peer could be assigned that same port, and keep it.
	var addrs []string
	for port := 20000 + rand.IntN(10000); len(addrs) < 6 && port < 32000; port++ {
		if listener, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			listener.Close()
			addrs = append(addrs, fmt.Sprintf("%d=%v", len(addrs)+1, listener.Addr()))
		}
	}

	said, says := io.Pipe()
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel() // kills the running processes
	context.AfterFunc(ctx, func() { says.CloseWithError(ctx.Err()) })

	lines, running, leader := bufio.NewScanner(said), make(map[string]*exec.Cmd), ""
	for _, scene := range scenes {
		fmt.Println("===", scene.title)
		if scene.kills {
			_ = running[leader].Process.Kill() // if it has ended by itself, it is dead, too
		}
		for _, start := range scene.starts {
			args := strings.Fields(start + " -for 1m -peers " + strings.Join(addrs[:5], ",") + " -observers " + addrs[5])
			cmd := exec.CommandContext(ctx, os.Args[0], args...)
			cmd.Stdout, cmd.Stderr = says, os.Stderr
			if err := cmd.Start(); err != nil {
				return err
			}
			running[args[1]] = cmd
			group.Go(func() { _ = cmd.Wait() }) // reports that it was killed
		}
		for until := scene.until; len(until) > 0; {
			if !lines.Scan() {
				return fmt.Errorf("%w before anybody has said %q", lines.Err(), until)
			}
			line := lines.Text()
			fmt.Println(line)
			if strings.Contains(line, backed) {
				leader = strings.Fields(line)[1]
			}
			until = slices.DeleteFunc(until, func(text string) bool { return strings.Contains(line, text) })
		}
	}
	return nil
}
