package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy/ranked"
)

// A node is one replica of the log, and its primary while it leads.
type node struct {
	id       string
	nodes    nodes
	election string
	step     time.Duration // how often it tells how far its log is
	journal  *journal
	rank     *ranked.Rank
	say      sayer

	claimed chan struct{} // a new primary has claimed the log, which is as it will be: tell it

	mu      sync.Mutex
	primary string // the ID of whoever has claimed or written last
	term    *term  // while this node takes writes
}

func newNode(id string, all nodes, election string, step time.Duration, j *journal, say sayer) *node {
	n := &node{id: id, nodes: all, election: election, step: step, journal: j, say: say, claimed: make(chan struct{}, 1)}
	n.rank = ranked.NewRank(n.progress()...)
	return n
}

// progress is the rank: how far the log is. An observer's is below zero, so that it never leads.
func (n *node) progress() []int64 {
	if n.nodes.observers[n.id] {
		return []int64{-1}
	}
	end := n.journal.ending()
	return []int64{int64(end.Token), int64(end.Index)} // tokens fit: they are revisions
}

// strategy has the one lead whose log is the most advanced of those that stand, once a majority does.
func (a nodes) strategy(rank *ranked.Rank) ranked.Strategy {
	s := ranked.New(rank)
	s.Quorum = a.majority()
	return s
}

// run is the node's life, until ctx ends.
func (n *node) run(ctx context.Context, b backend.Backend) error {
	listener, err := net.Listen("tcp", n.nodes.addrs[n.id])
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx)) // the last writes are answered when ctx has ended
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() { n.serve(serving, listener) })
	group.Go(func() { n.tell(serving) })

	e, err := elector.New(elector.Config{
		Backend: b, Strategy: n.nodes.strategy(n.rank), Election: n.election, ID: n.id,
		Hooks: elector.Hooks{
			Elected: func(t *elector.Term) { n.say("ELECTED, token %d", t.Token()) },
			Asked:   func(_ *elector.Term, r elector.Request) { n.say("is asked to go %v", r) },
			Ended:   func(t *elector.Term, cause error) { n.say("leads no more (token %d): %v", t.Token(), cause) },
			Retry: func(r elector.RetryEvent) {
				if r.Attempt == 1 {
					n.say("tries again until it works: %v", r.Err)
				}
			},
		},
	})
	if err != nil {
		return err
	}
	n.say("serves at %v, with a log up to %v", listener.Addr(), n.journal.ending())
	err = elector.Run(ctx, e, n.lead)
	if errors.Is(err, context.Canceled) {
		err = nil // told to stop
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, e.Close(closing))
}

// tell has the rank follow the log: in steps of time, as each change is a write in the service, and at
// once when a primary has claimed the log.
func (n *node) tell(ctx context.Context) {
	tick := time.NewTicker(n.step)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-n.claimed:
		case <-ctx.Done():
			return
		}
		n.rank.Set(n.progress()...)
	}
}

// serve answers whoever connects, until ctx ends.
func (n *node) serve(ctx context.Context, listener net.Listener) {
	var group sync.WaitGroup
	defer group.Wait()
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	var open atomic.Int32
	for tries := 0; ; {
		conn, err := listener.Accept()
		if err != nil {
			if !pause(ctx, tries) { // closed, or out of descriptors
				return
			}
			tries++
			continue
		}
		tries = 0
		if open.Add(1) > maxConns {
			open.Add(-1)
			_ = conn.Close()
			continue
		}
		group.Go(func() {
			defer open.Add(-1)
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			n.converse(ctx, newLink(conn))
		})
	}
}

// converse answers until the other side goes, is silent for long, or sends what is no request.
func (n *node) converse(ctx context.Context, l *link) {
	for {
		_ = l.conn.SetDeadline(time.Now().Add(idle))
		var r request
		if err := l.receive(&r); err != nil {
			return
		}
		a := n.answer(ctx, r)
		_ = l.conn.SetDeadline(time.Now().Add(idle)) // a write may have waited
		if err := l.send(a); err != nil {
			return
		}
	}
}

func (n *node) answer(ctx context.Context, r request) answer {
	switch r.Kind {
	case claim:
		at, err := n.journal.claim(r.Token)
		if err == nil {
			n.heeds(r.From)
			select {
			case n.claimed <- struct{}{}:
			default:
			}
		}
		return reply(at, err)
	case put:
		if err := r.check(); err != nil {
			return answer{Error: err.Error()}
		}
		at, err := n.journal.put(r.Token, r.Prev, r.Records)
		if err == nil {
			n.heeds(r.From)
		}
		return reply(at, err)
	case write:
		return n.write(ctx, r.Data)
	case read:
		prev, records, _ := n.journal.read(r.After)
		return answer{At: prev, Records: records}
	}
	return answer{Error: fmt.Sprintf("unknown kind of request %.40q", r.Kind)}
}

func reply(at position, err error) answer {
	switch {
	case errors.Is(err, errGap):
		return answer{At: at, Gap: true}
	case err != nil:
		return answer{Old: errors.Is(err, errOld), Error: err.Error()}
	}
	return answer{At: at}
}

// write has the primary write, or says who it is.
func (n *node) write(ctx context.Context, data string) answer {
	if err := checkData(data); err != nil {
		return answer{Error: err.Error()}
	}
	n.mu.Lock()
	t, primary := n.term, n.primary
	if t != nil {
		t.writers.Add(1) // under the lock, so that the term waits for it, or this finds no term
		defer t.writers.Done()
	}
	n.mu.Unlock()
	if t == nil {
		return answer{Primary: primary, Error: errNotPrimary.Error()}
	}
	at, err := t.write(ctx, data)
	return reply(at, err)
}

var errNotPrimary = errors.New("not written: this node is not the primary")

func (n *node) heeds(primary string) {
	if _, known := n.nodes.addrs[primary]; !known {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.primary != primary {
		n.say("follows %s", primary)
	}
	n.primary = primary
}

// takes has the node take writes in a term, or in none.
func (n *node) takes(t *term) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.term = t
	if t != nil {
		n.primary = n.id
	}
}
