package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// heartbeatEvery is how often the controller writes, whether there is work or not.
const heartbeatEvery = 200 * time.Millisecond

// A controller is a broker in one term as the controller of the cluster.
type controller struct {
	*broker
	term    *elector.Term
	session *backend.Session

	// known is what stands under the keys that only controllers write. It is read once
	// and then known from the own writes: while the term holds nobody else writes.
	known map[string]backend.Entry
	// alive is the brokers for which the states were last settled, and the revisions of
	// their registrations. A new controller does not know who has registered anew before
	// its term, so that such a leader stays.
	alive map[int]uint64
	// waiting is the topics that were said to wait, or to be unreadable.
	waiting map[string]bool
}

func newController(b *broker, t *elector.Term) *controller {
	return &controller{
		broker: b, term: t,
		// Reads through this session see all that earlier controllers have written.
		session: t.Guard().Session,
		known:   make(map[string]backend.Entry), waiting: make(map[string]bool),
	}
}

// lead is the controller's work, until its term is over or ctx ends.
func (c *controller) lead(ctx context.Context) error {
	working, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, 2)
	go func() { errs <- c.control(working) }()
	go func() { errs <- c.beat(working) }()
	err := <-errs
	cancel()
	err = errors.Join(err, <-errs)
	switch {
	case errors.Is(err, elector.ErrDeposed):
		c.say("commit refused: deposed; controller epoch %d is over: %v", c.term.Token(), context.Cause(c.term.Context()))
		if c.stubborn {
			c.insist(context.WithoutCancel(ctx))
		}
	case ctx.Err() == nil:
		c.say("gives the controller's seat up: %v", err)
	}
	return err
}

// beat writes the heartbeat. It does not ask whether the term still holds: a process
// that was stopped between a look and a write would not notice. It writes, and the
// write is refused if there may be another controller.
func (c *controller) beat(ctx context.Context) error {
	tick := time.NewTicker(heartbeatEvery)
	defer tick.Stop()
	term, key := c.term.Context(), c.layout.heartbeat()
	last, err := get(term, c.session, key)
	if err != nil {
		return err
	}
	for beat := 1; ; beat++ {
		stop := ctx.Err() // when told to stop, write once more and go
		value := encode(heartbeat{Broker: c.id, ControllerEpoch: c.term.Token(), Beat: beat})
		made, err := c.term.Commit(term, put(last, value))
		switch {
		case errors.Is(err, elector.ErrConflict), errors.Is(err, elector.ErrIndeterminate):
			// An operator has written there, or the reply did not come, perhaps because the
			// term has ended meanwhile. Try again on what stands there; that will tell.
			if now, err := get(term, c.session, key); err == nil {
				last = now
			}
			continue
		case err != nil:
			return err
		case stop != nil:
			return stop
		}
		last = made[0]
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// put is the write over what was read.
func put(e backend.Entry, value []byte) elector.Op {
	if !e.Exists() {
		return elector.Create(e.Key, value)
	}
	return elector.CompareAndSet(e.Key, value, e.Version)
}

// control keeps the states of all partitions right.
func (c *controller) control(ctx context.Context) error {
	for {
		// In this order: then a new topic is for all who registered before it was asked for.
		wanted, err := get(ctx, c.session, c.layout.topics())
		if err != nil {
			return err
		}
		brokers, err := c.session.List(ctx, c.layout.brokers())
		if err != nil {
			return err
		}
		now, err := c.registered(ctx, brokers)
		if err != nil {
			return err
		}
		for _, live := range steps(c.alive, now) {
			if err = c.settle(ctx, live, wanted); err != nil {
				break
			}
		}
		switch {
		case errors.Is(err, elector.ErrConflict), errors.Is(err, elector.ErrIndeterminate):
			// An operator has written there, or a reply was lost: read it all again.
			c.say("reads everything again: %v", err)
			clear(c.known)
			continue
		case err != nil:
			return err
		}
		c.alive = now
		if err := c.awaitChange(ctx, brokers, wanted); err != nil {
			return err
		}
	}
}

// registered reads who is registered: of several under one id, the oldest counts.
func (c *controller) registered(ctx context.Context, l backend.Listing) (map[int]uint64, error) {
	now := make(map[int]uint64)
	for _, key := range l.Keys { // oldest first
		e, err := get(ctx, c.session, key)
		if err != nil {
			return nil, err
		}
		r, ok := decode[registration](e.Value)
		if _, older := now[r.ID]; ok && r.PID > 0 && !older {
			now[r.ID] = e.Rev
		}
	}
	if !maps.Equal(now, c.alive) {
		c.say("controller: brokers %v", slices.Sorted(maps.Keys(now)))
	}
	return now, nil
}

// awaitChange blocks until the brokers or the topics are not as given.
func (c *controller) awaitChange(ctx context.Context, brokers backend.Listing, wanted backend.Entry) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first := make(chan error, 2)
	go func() { _, err := c.session.AwaitList(ctx, brokers); first <- err }()
	go func() { _, err := c.session.Await(ctx, wanted); first <- err }()
	err := <-first
	cancel()
	<-first
	return err
}

// A change is a write, and what to say when it is done.
type change struct {
	op   elector.Op
	says string
}

// settle decides and writes until there is nothing left to decide.
func (c *controller) settle(ctx context.Context, live map[int]bool, wanted backend.Entry) error {
	for {
		changes, err := c.plan(ctx, live, wanted)
		if err != nil || len(changes) == 0 {
			return err
		}
		if err := c.write(ctx, changes); err != nil {
			return err
		}
	}
}

// plan returns what is to be written now.
func (c *controller) plan(ctx context.Context, live map[int]bool, wanted backend.Entry) (changes []change, err error) {
	all, ok := decodeTopics(wanted)
	if !ok {
		c.once("controller: %s holds what is no topic: %.80q", wanted.Key, wanted.Value)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		assigned, err := c.assignment(ctx, name, all[name], live, &changes)
		if err != nil {
			return nil, err
		}
		for n, replicas := range assigned.Replicas {
			if err := c.partition(ctx, name, n, replicas, live, all[name].Unclean, &changes); err != nil {
				return nil, err
			}
		}
	}
	return changes, nil
}

// assignment returns a topic's assignment, made now if there is none. It stands in
// the service before, or at once with, the first state: if a write takes several
// commits, whoever is the controller then goes on from there.
func (c *controller) assignment(ctx context.Context, name string, t topic, live map[int]bool, changes *[]change) (assignment, error) {
	e, err := c.read(ctx, c.layout.topic(name))
	if err != nil {
		return assignment{}, err
	}
	if e.Exists() {
		a, ok := decode[assignment](e.Value)
		if !ok {
			c.once("controller: %s is unreadable: %.40q", e.Key, e.Value)
		}
		return a, nil
	}
	a, ok := assign(t, live)
	if !ok {
		c.once("controller: topic %s waits for %d live brokers", name, t.Replicas)
		return a, nil
	}
	*changes = append(*changes, change{put(e, encode(a)), fmt.Sprintf("topic %s is assigned to %v", name, a.Replicas)})
	return a, nil
}

// partition decides about one partition.
func (c *controller) partition(ctx context.Context, topic string, n int, replicas []int, live map[int]bool, unclean bool, changes *[]change) error {
	e, err := c.read(ctx, c.layout.partition(topic, n))
	if err != nil {
		return err
	}
	p, ok := fresh(replicas), true
	if e.Exists() {
		p, ok = decodePartition(e)
	}
	if !ok {
		c.once("controller: %s is unreadable: %.40q", e.Key, e.Value)
		return nil
	}
	next, changed := decide(p, live, unclean)
	if !changed {
		return nil
	}
	next.ControllerEpoch = c.term.Token()
	leader := fmt.Sprint("leader ", next.Leader)
	if next.Leader == offline {
		leader = "OFFLINE"
	}
	*changes = append(*changes, change{put(e, encode(next)), fmt.Sprintf("%s-%d: %s, ISR %v, leader epoch %d", topic, n, leader, next.ISR, next.LeaderEpoch)})
	return nil
}

// read reads a key that only controllers write, once.
func (c *controller) read(ctx context.Context, key string) (backend.Entry, error) {
	if e, ok := c.known[key]; ok {
		return e, nil
	}
	e, err := get(ctx, c.session, key)
	if err == nil {
		c.known[key] = e
	}
	return e, err
}

// write commits the changes in their order: all at once, or, where that is more
// than the service takes, in halves. Each part is right by itself.
func (c *controller) write(ctx context.Context, changes []change) error {
	ops := make([]elector.Op, len(changes))
	for i := range changes {
		ops[i] = changes[i].op
	}
	made, err := c.term.Commit(ctx, ops...)
	if half := len(changes) / 2; errors.Is(err, backend.ErrTooLarge) && half > 0 {
		if err := c.write(ctx, changes[:half]); err != nil {
			return err
		}
		return c.write(ctx, changes[half:])
	}
	if err != nil {
		return err
	}
	for i, e := range made {
		c.known[e.Key] = e
		c.say("controller: %s", changes[i].says)
	}
	return nil
}

// once says something that would otherwise be said at each look.
func (c *controller) once(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); !c.waiting[line] {
		c.waiting[line] = true
		c.say("%s", line)
	}
}

// insist is for the demonstration: it sends a write of the term that is over past
// the library's own look at the clock, in a session that lives. It carries the
// condition of its term, as all writes of a controller do, so the service refuses it.
func (c *controller) insist(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s, err := c.backend.Open(ctx, backend.OpenOptions{})
	if err != nil {
		c.say("insists, in vain: %v", err)
		return
	}
	defer s.Close(ctx)
	e, err := get(ctx, s, c.layout.heartbeat())
	if err == nil {
		value := encode(heartbeat{Broker: c.id, ControllerEpoch: c.term.Token(), Beat: -1})
		_, err = s.Commit(ctx, c.term.Guard().Conditions, backend.CompareAndSet(e.Key, value, e.Version))
	}
	if err == nil {
		c.say("insists: the service took it, as nobody has followed yet")
		return
	}
	c.say("insists, with its old condition in a live session; refused by the service: %v", err)
}
