package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy/kafka"
)

// The cluster's keys in the service. Only the controller writes the partitions, by Term.Commit.
const (
	root          = "/demo"              // the controller's seat and its epoch are below; Kafka's own root is "/"
	partitionsKey = root + "/partitions" // the states of all partitions
)

// registrationKey returns the key of a broker's registration, an ephemeral entry.
func registrationKey(id int) string { return root + "/brokers/ids/" + strconv.Itoa(id) }

// replicas has the brokers of each partition; the first is the preferred leader.
var replicas = [][]int{{1, 2}, {2, 3}, {3, 1}}

// A broker is one process of the cluster. It registers, learns from the service which partitions it leads,
// and stands for controller: all in one session, so that a broker that loses its session loses all of it at
// the same time.
type broker struct {
	id      int
	backend backend.Backend
	shared  backend.Backend // registration and candidacy have one session
	unclean bool            // as the controller it prefers a leader that may lack messages to none
	say     func(format string, args ...any)

	seen  map[int]partition // the latest state of each partition
	leads map[int]bool      // by partition, too
}

func newBroker(id int, b backend.Backend, unclean bool, say func(string, ...any)) *broker {
	return &broker{
		id: id, backend: b, shared: backend.Share(b, 0), unclean: unclean,
		say:  func(format string, args ...any) { say("broker "+strconv.Itoa(id)+": "+format, args...) },
		seen: make(map[int]partition), leads: make(map[int]bool),
	}
}

// run calls live again and again until ctx ends.
func (b *broker) run(ctx context.Context) {
	for said := ""; ; time.Sleep(500 * time.Millisecond) {
		err := b.live(ctx)
		if ctx.Err() != nil {
			return
		}
		if text := err.Error(); text != said { // else for the same reason as before
			b.say("starts over: %s", text)
			said = text
		}
	}
}

// live is the life of one session: it registers, and then is a broker and a candidate until the session ends.
// A candidate registers first, as in Kafka: a controller that is not a broker would be in nobody's view of
// the cluster.
func (b *broker) live(ctx context.Context) error {
	s, err := b.shared.Open(ctx, backend.OpenOptions{})
	if err != nil {
		return err
	}
	defer s.Close(context.WithoutCancel(ctx)) // for some seconds; then the service times the session out
	own, err := b.register(ctx, s)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	stood := make(chan error, 1)
	go func() {
		defer cancel() // the broker ends with its candidacy: half of it would look healthy
		stood <- b.stand(ctx)
	}()
	err = b.follow(ctx, s, own)
	b.stepDown()
	cancel()
	return cmp.Or(<-stood, err)
}

// register enters the broker. A process that is started again under the id of a dead one fails until the
// service has noticed the death.
func (b *broker) register(ctx context.Context, s *backend.Session) (backend.Entry, error) {
	key := registrationKey(b.id)
	if _, err := s.Commit(ctx, nil, backend.CompareAndSet(backend.Parent(key), nil, 0)); err != nil && !errors.Is(err, backend.ErrConflict) {
		return backend.Entry{}, err // ErrConflict: it exists
	}
	made, err := s.Commit(ctx, nil, backend.CreateEphemeral(key, fmt.Appendf(nil, "pid %d", os.Getpid())))
	if err != nil {
		return backend.Entry{}, fmt.Errorf("not registered: %w", err)
	}
	b.say("registered")
	return made[0], nil
}

// stand is the candidacy: it returns when ctx ends, or when it cannot succeed.
func (b *broker) stand(ctx context.Context) error {
	e, err := elector.New(elector.Config{Backend: b.shared, Strategy: kafka.Strategy{}, Election: root, ID: strconv.Itoa(b.id)})
	if err != nil {
		return err
	}
	defer e.Close(ctx) // ctx ends with the session at the latest
	if err = elector.Run(ctx, e, b.lead); ctx.Err() != nil {
		return nil
	}
	return err
}

// follow learns the controller's decisions, until the registration or the session is gone.
func (b *broker) follow(ctx context.Context, s *backend.Session, own backend.Entry) error {
	known := []backend.Entry{own, backend.Unknown(partitionsKey)}
	for {
		now, err := s.Await(ctx, known...)
		if err != nil {
			return err
		}
		if !now[0].Is(own) {
			return errors.New("the registration is gone")
		}
		states, _ := decode(now[1]) // the controller complains
		for n, p := range states {
			b.learn(n, p)
		}
		known = now
	}
}

// learn takes the state of a partition. It ignores a state of an earlier controller, or one older than it has
// seen: somebody wrote without the service's conditions, or restored a backup of it. Each partition has
// epochs of its own, because a new controller changes only what it must.
func (b *broker) learn(n int, p partition) {
	last, known := b.seen[n]
	if known && (p.ControllerEpoch < last.ControllerEpoch || p.LeaderEpoch < last.LeaderEpoch) {
		b.say("ignores partition %d: %v: it has seen %v", n, p, last)
		return
	}
	led, leads := b.leads[n], p.Leader == b.id
	b.seen[n], b.leads[n] = p, leads
	switch {
	case leads && (!led || p.LeaderEpoch > last.LeaderEpoch):
		b.say("LEADS partition %d: %v", n, p)
	case led && !leads:
		b.say("leads partition %d no more: %v", n, p)
	}
}

// stepDown gives up what the broker leads when its session ends. It keeps what it has seen, to ignore
// outdated states in the next session, too.
func (b *broker) stepDown() {
	for n := range replicas {
		if b.leads[n] {
			b.say("leads partition %d no more: its registration is over", n)
		}
	}
	clear(b.leads)
}
