package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector"
)

// A term is what a node does while it leads: it claims the logs of a majority, accepts writes one at a time,
// and acknowledges what a majority has on disk.
type term struct {
	*node
	*elector.Term
	peers  []*peer
	visits sync.WaitGroup
	turn   chan struct{} // held by the current writer
}

// A peer is another node.
type peer struct {
	id   string
	busy atomic.Bool // with a visit
	next int         // number of the first records that it is known to share with the primary: a new one sends all
}

// lead is one term.
func (n *node) lead(ctx context.Context, et *elector.Term) error {
	t := &term{node: n, Term: et, turn: make(chan struct{}, 1)}
	for _, id := range n.nodes {
		if id != n.id {
			t.peers = append(t.peers, &peer{id: id})
		}
	}
	defer t.visits.Wait()
	if err := t.claim(); err != nil {
		return err
	}
	n.log.Info("a majority heeds this primary", "token", t.Token(), "end", n.journal.end())
	n.term.Store(t)
	for ctx.Err() == nil {
		_ = t.withMajority(t.catchUp) // some may have been away
		select {
		case <-time.After(step):
		case <-ctx.Done():
		}
	}
	n.term.Store(nil)
	t.turn <- struct{}{} // accepted writes are answered
	<-t.turn
	t.visits.Wait()
	_ = t.withMajority(t.catchUp) // so that any next leader has everything
	return context.Cause(ctx)
}

// claim makes a majority refuse older primaries. A log that is more advanced than this one may have
// acknowledged records. If a majority needs that log, its node must lead, and its rank soon says so.
func (t *term) claim() error {
	if err := t.journal.put(put{Token: t.Token()}); err != nil {
		return err
	}
	end := t.journal.end()
	return t.withMajority(func(p *peer) error {
		its, err := t.send(p.id, put{Token: t.Token()})
		if err == nil && slices.Compare(end.rank(), its.rank()) < 0 {
			err = fmt.Errorf("the log of %s is more advanced: it ends at %v, and this one at %v", p.id, its, end)
		}
		return err
	})
}

// errNotPrimary says that nothing was written.
var errNotPrimary = errors.New("this node is not the primary")

// write appends a record. After an error other than errNotPrimary it may be in the log in the end, or not.
func (t *term) write(data string) (position, error) {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	if t.term.Load() != t || !t.Valid() {
		return position{}, errNotPrimary
	}
	prev := t.journal.end()
	err := t.journal.put(put{t.Token(), prev, []record{{t.Token(), data}}})
	if err == nil {
		err = t.withMajority(t.catchUp)
	}
	if err != nil {
		return position{}, fmt.Errorf("not acknowledged, and perhaps written: %w", err)
	}
	return position{t.Token(), prev.Index + 1}, nil
}

// catchUp sends a node the records of this log that it lacks.
func (t *term) catchUp(p *peer) error {
	prev, records := t.journal.read(p.next)
	if _, err := t.send(p.id, put{t.Token(), prev, records}); err != nil {
		return err
	}
	p.next = prev.Index + len(records)
	return nil
}

// withMajority visits all other nodes, and returns nil once do has succeeded on a majority, this node
// included. The other visits continue. A node that is still busy with the last one is left out.
func (t *term) withMajority(do func(*peer) error) (failed error) {
	results := make(chan error, len(t.peers))
	for _, p := range t.peers {
		t.visits.Go(func() {
			err := fmt.Errorf("%s is busy", p.id)
			if p.busy.CompareAndSwap(false, true) {
				err = do(p)
				p.busy.Store(false)
			}
			results <- err
		})
	}
	worked := 1
	for range t.peers {
		err := <-results
		if err == nil {
			worked++
		}
		if worked >= t.majority() {
			return nil
		}
		failed = errors.Join(failed, err)
	}
	return failed
}
