// Replicas is a small log that three processes keep: the primary accepts writes, and acknowledges what a
// majority has on disk. When it dies, the replica with the most advanced log takes over.
//
//	go run ./examples/replicas -backend etcd://127.0.0.1:2379 -id 127.0.0.1:7001
//
// is one of them. README.md tells how to write, and how to break it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/strategy/ranked"
)

const (
	election  = "/replicas"
	step      = time.Second     // interval at which a node reports its position, and a primary looks who lacks records
	patience  = 3 * time.Second // with another node that does not answer
	maxRecord = 4 << 10         // bytes
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "replicas:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("replicas", flag.ExitOnError)
	url := flags.String("backend", "", dial.Usage())
	list := flags.String("nodes", "127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003", "addresses of all nodes, the same list for each")
	id := flags.String("id", "", "which of them this is; its log is in the file ID.log")
	_ = flags.Parse(args) // exits on errors
	nodes := strings.Split(*list, ",")
	if !slices.Contains(nodes, *id) {
		return fmt.Errorf("-id %q is none of the nodes: %s", *id, *list)
	}

	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	b, err := dial.Open(ctx, *url, dial.WithLogger(log))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	j, err := openJournal(*id + ".log")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.file.Close()) }()
	listener, err := net.Listen("tcp", *id)
	if err != nil {
		return err
	}
	n := &node{id: *id, nodes: nodes, journal: j, send: send, log: log}
	server := &http.Server{Handler: n.handler(), ReadTimeout: time.Minute, WriteTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	err = n.run(ctx, b) // the last writes are answered when ctx has ended
	return errors.Join(err, server.Shutdown(context.WithoutCancel(ctx)))
}

// A node is one replica of the log, and its primary while it leads. Its ID is its address.
type node struct {
	id      string
	nodes   []string // all of them
	journal *journal
	send    func(to string, p put) (end position, err error) // sends another node a put
	log     *slog.Logger
	rank    ranked.Rank
	term    atomic.Pointer[term] // while this node is the primary
}

func (n *node) majority() int { return len(n.nodes)/2 + 1 }

// run stands in the election until ctx ends. Once a majority stands, the node with the most advanced log
// leads.
func (n *node) run(ctx context.Context, b backend.Backend) error {
	strategy := ranked.Strategy{Rank: &n.rank}
	strategy.Quorum = n.majority()
	e, err := elector.New(elector.Config{
		Backend: b, Strategy: strategy, Election: election, ID: n.id, Logger: n.log,
		Fit: elector.Fit{Check: n.tell, Every: step},
	})
	if err != nil {
		return err
	}
	err = elector.Run(ctx, e, n.lead)
	if errors.Is(err, context.Canceled) {
		err = nil // told to stop
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, e.Close(closing))
}

// tell sets the rank to the log's position. Each change is a write in the service, so it is done in steps.
// Your own check might also report why this node cannot lead now, such as a full disk.
func (n *node) tell(context.Context) error {
	n.rank.Set(n.journal.end().rank()...)
	return nil
}

// write makes the primary append a record, and returns its position. Other nodes refuse.
func (n *node) write(data string) (position, error) {
	if t := n.term.Load(); t != nil {
		return t.write(data)
	}
	return position{}, errNotPrimary
}

// handler answers primaries and clients.
func (n *node) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /put", func(w http.ResponseWriter, r *http.Request) {
		var p put
		err := json.NewDecoder(r.Body).Decode(&p)
		if err == nil {
			err = n.journal.put(p)
		}
		reply(w, n.journal.end(), err)
	})
	mux.HandleFunc("POST /log", func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRecord))
		if err != nil || !utf8.Valid(data) {
			reply(w, position{}, fmt.Errorf("a record is text of at most %d bytes", maxRecord))
			return
		}
		at, err := n.write(string(data))
		reply(w, at, err)
	})
	return mux
}

func reply(w http.ResponseWriter, p position, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	_ = json.NewEncoder(w).Encode(p) // a client that misses it asks again
}

// send sends a put to another node, which returns the end of its log.
func send(to string, p put) (end position, err error) {
	body, err := json.Marshal(p)
	if err != nil {
		return end, err
	}
	client := http.Client{Timeout: patience}
	answer, err := client.Post("http://"+to+"/put", "application/json", bytes.NewReader(body))
	if err != nil {
		return end, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(answer.Body)
		return end, fmt.Errorf("%s: %s: %s", to, answer.Status, why)
	}
	return end, json.NewDecoder(answer.Body).Decode(&end)
}
