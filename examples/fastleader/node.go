package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	firstPause, lastPause = 50 * time.Millisecond, 2 * time.Second // between tries to connect
	writeTime             = time.Second
	idleTime              = 2 * time.Minute // a connection that brings nothing is closed, and made again
)

// node runs a machine among others over TCP. One goroutine has the machine. Each peer
// connects to each other one, and sends on its own connection only.
type node struct {
	*config
	machine machine
	addrs   map[int]string // of all
	file    string         // holds what is durable; "" if nothing is
	saved   uint64

	heard chan vote
	stood chan int // to whom a connection stands
	links map[int]chan vote
}

// run is the peer's life. It returns when ctx ends, and all it has begun has ended then.
func (n *node) run(ctx context.Context) error {
	listener, err := net.Listen("tcp", n.addrs[n.id])
	if err != nil {
		return fmt.Errorf("peer %d cannot listen at its own address of -peers: %w", n.id, err)
	}
	n.heard, n.stood, n.links = make(chan vote), make(chan int), make(map[int]chan vote)
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() { n.listen(ctx, listener, &group) })
	for id, addr := range n.addrs {
		if id != n.id {
			link := make(chan vote, 1)
			n.links[id] = link
			group.Go(func() { n.connect(ctx, id, addr, link) })
		}
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for e := n.machine.start(); ; {
		if err := n.carryOut(e, timer); err != nil {
			return err
		}
		e = effects{}
		select {
		case <-ctx.Done():
			return nil
		case v := <-n.heard:
			e = n.machine.receive(v)
		case id := <-n.stood:
			if n.voter() || n.machine.status().State == looking {
				e.send = []message{{id, n.machine.greeting()}}
			}
		case <-timer.C:
			e = n.machine.timeout()
		}
	}
}

// carryOut does what the machine wants to be done.
func (n *node) carryOut(e effects, timer *time.Timer) error {
	if round := n.machine.durable(); n.file != "" && round != n.saved {
		if err := save(n.file, round); err != nil {
			return err // and nothing is said that could be forgotten
		}
		n.saved = round
	}
	for _, m := range e.send {
		link, known := n.links[m.To]
		if !known {
			continue // it has said that it is one whom nobody knows
		}
		select { // the last vote counts: one that still waits is not sent
		case <-link:
		default:
		}
		link <- m.Vote
	}
	if e.wait > 0 {
		timer.Reset(e.wait)
	}
	return nil
}

// listen takes connections, as many as there can be with some to spare.
func (n *node) listen(ctx context.Context, listener net.Listener, group *sync.WaitGroup) {
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	places := make(chan struct{}, 4*len(n.addrs))
	for pause := firstPause; ; {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return
		} else if err != nil {
			n.tell("cannot accept a connection, tries again in %v: %v", pause, err)
			sleep(ctx, pause)
			pause = min(2*pause, lastPause)
			continue
		}
		pause = firstPause
		select {
		case places <- struct{}{}:
			group.Go(func() {
				defer func() { <-places }()
				n.read(ctx, conn)
			})
		default:
			conn.Close()
		}
	}
}

// read takes votes from a connection, up to the first line that is none.
func (n *node) read(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	lines := bufio.NewScanner(conn)
	lines.Buffer(make([]byte, longest), longest)
	for conn.SetReadDeadline(time.Now().Add(idleTime)) == nil && lines.Scan() {
		v, err := decode(lines.Bytes())
		if err != nil {
			n.tell("closes a connection from %v: %v", conn.RemoteAddr(), err)
			return
		}
		select {
		case n.heard <- v:
		case <-ctx.Done():
			return
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		n.tell("closes a connection from %v: a line of more than %d bytes is no vote", conn.RemoteAddr(), longest)
	}
}

// connect keeps a connection to another peer, and sends on it.
func (n *node) connect(ctx context.Context, id int, addr string, votes <-chan vote) {
	for pause := firstPause; ctx.Err() == nil; {
		conn, err := (&net.Dialer{Timeout: writeTime}).DialContext(ctx, "tcp", addr)
		if err == nil {
			began := time.Now()
			n.send(ctx, id, conn, votes)
			if time.Since(began) > lastPause {
				pause = firstPause // it has stood for a while
			}
		}
		sleep(ctx, pause/2+rand.N(pause))
		pause = min(2*pause, lastPause)
	}
}

// send sends votes for as long as the connection stands.
func (n *node) send(ctx context.Context, id int, conn net.Conn, votes <-chan vote) {
	gone := make(chan struct{})
	defer func() { <-gone }()
	defer conn.Close()
	go func() { // nothing comes on it but its end
		defer close(gone)
		_, _ = io.Copy(io.Discard, conn)
	}()
	select {
	case n.stood <- id:
	case <-ctx.Done():
		return
	}
	for {
		select {
		case v := <-votes:
			if err := conn.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
				return
			}
			if _, err := conn.Write(encode(v)); err != nil {
				return
			}
		case <-gone:
			return
		case <-ctx.Done():
			return
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// load reads a round; 0 if there is no such file.
func load(file string) (uint64, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, fmt.Errorf("-state: %w", err)
	}
	round, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 62)
	if err != nil {
		return 0, fmt.Errorf("-state %s holds no round, such as 12, but %.40q: give the file that this peer has written", file, text)
	}
	return round, nil
}

// save writes a round so that it is there, as a whole, after a crash of the machine, too.
func save(file string, round uint64) error {
	next, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return fmt.Errorf("-state: %w", err)
	}
	_, err = fmt.Fprintln(next, round)
	err = errors.Join(err, next.Sync(), next.Close())
	if err == nil {
		err = os.Rename(next.Name(), file)
	}
	if err != nil {
		_ = os.Remove(next.Name())
		return fmt.Errorf("-state: %w", err)
	}
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return fmt.Errorf("-state: %w", err)
	}
	return errors.Join(dir.Sync(), dir.Close())
}
