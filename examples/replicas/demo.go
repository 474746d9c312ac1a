package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/elector-go/elector/internal/process"
	"github.com/elector-go/elector/internal/servertest"
)

// demo runs four nodes in processes of their own, while a client writes without a pause. The primary is
// killed, and then the lead is moved to a replica by name.
func demo(ctx context.Context, o options, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	say := newSayer(out, "demo")
	if o.url == "" {
		say("starts an etcd server; the first time Go builds it, which takes minutes")
		server, err := servertest.StartEtcd(servertest.EtcdConfig{NoSync: true})
		if err != nil {
			return err
		}
		defer server.Close()
		o.url = "etcd://" + server.Addr() + "?timeout=4s"
	}
	b, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	dir, err := os.MkdirTemp("", "replicas")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.nodes, o.observers, err = freeNodes(); err != nil {
		return err
	}
	all, err := parseNodes(o)
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	started := make(map[string]*process.Process)
	for id := range all.addrs {
		p := process.New(process.Spec{
			Name: id, Path: program, Log: out, LogPath: filepath.Join(dir, id+".out"),
			Args: []string{"node", "-id", id, "-nodes", o.nodes, "-observers", o.observers,
				"-backend", o.url, "-election", o.election, "-data", filepath.Join(dir, id)},
		})
		if err := p.Start(); err != nil {
			return err
		}
		started[id] = p
		defer p.Stop(10 * time.Second)
	}

	say("=== %s may lead, and %s only observes; a client writes", o.nodes, o.observers)
	w := startWriter(ctx, all)
	defer w.stop()
	first, err := w.until(ctx, func(primary string) bool { return primary != "" }, 100)
	if err != nil {
		return err
	}
	say("=== kill -9 of the primary, %s", first)
	if err := started[first].Kill(); err != nil {
		return err
	}
	second, err := w.until(ctx, func(primary string) bool { return primary != first }, 100)
	if err != nil {
		return err
	}
	say("=== %s has taken over; %s comes back", second, first)
	if err := started[first].Start(); err != nil {
		return err
	}
	third := ""
	for _, id := range all.voters {
		if id != first && id != second {
			third = id
		}
	}
	say("=== the lead is moved to %s", third)
	if _, err := move(ctx, b, o.election, third); err != nil {
		return err
	}
	if _, err := w.until(ctx, func(primary string) bool { return primary == third }, 100); err != nil {
		return err
	}
	acknowledged := w.stop()
	records, err := readLog(ctx, all.addrs[third])
	if err != nil {
		return err
	}
	if err := check(acknowledged, records); err != nil {
		return err
	}
	say("=== %d records were acknowledged, by three primaries. All of them are in the log, in order. It has %d.", len(acknowledged), len(records))
	return nil
}

// An ack is a record that was acknowledged.
type ack struct {
	at   position
	data string
}

// check holds that what was acknowledged is in a log, where it was said to be.
func check(acknowledged []ack, log []record) error {
	last := position{}
	for _, a := range acknowledged {
		if !last.less(a.at) {
			return fmt.Errorf("record %q was acknowledged as %v, after %v", a.data, a.at, last)
		}
		if i := a.at.Index; i > len(log) || log[i-1] != (record{a.at.Token, a.data}) {
			return fmt.Errorf("LOST: record %q was acknowledged as %v", a.data, a.at)
		}
		last = a.at
	}
	return nil
}

// A writer writes without a pause.
type writer struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	primary string // that has acknowledged last
	acks    []ack
}

func startWriter(ctx context.Context, all nodes) *writer {
	ctx, cancel := context.WithCancel(ctx)
	w := &writer{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		c := newClient(all)
		defer c.close()
		for n := 1; ; n++ {
			data := fmt.Sprint("record ", n)
			at, err := c.append(ctx, data)
			if err != nil {
				return // ctx has ended
			}
			w.mu.Lock()
			w.primary, w.acks = c.primary(), append(w.acks, ack{at, data})
			w.mu.Unlock()
			time.Sleep(time.Millisecond)
		}
	}()
	return w
}

// until waits until such a primary has acknowledged n records more, and returns its ID.
func (w *writer) until(ctx context.Context, is func(primary string) bool, n int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for from := -1; ; {
		w.mu.Lock()
		primary, count := w.primary, len(w.acks)
		w.mu.Unlock()
		switch {
		case !is(primary):
			from = -1
		case from < 0:
			from = count
		case count >= from+n:
			return primary, nil
		}
		if !pause(ctx, 0) {
			return "", fmt.Errorf("no such primary has acknowledged %d records: %w", n, ctx.Err())
		}
	}
}

// stop ends the writer, and returns what was acknowledged.
func (w *writer) stop() []ack {
	w.cancel()
	<-w.done
	return w.acks
}

// freeNodes finds ports for three nodes and an observer.
func freeNodes() (voters, observers string, err error) {
	var all []string
	for i := range 4 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", "", err
		}
		defer l.Close()
		all = append(all, fmt.Sprintf("n%d=%v", i+1, l.Addr()))
	}
	return all[0] + "," + all[1] + "," + all[2], all[3], nil
}
