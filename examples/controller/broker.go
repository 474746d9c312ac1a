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

// What the cluster has in the service. The controller alone writes the partitions, by Term.Commit.
const (
	root          = "/demo"              // the controller's seat and its epoch are below; Kafka's own root is "/"
	partitionsKey = root + "/partitions" // the states of all partitions
)

// registrationKey is the place of a broker's registration, an ephemeral entry.
func registrationKey(id int) string { return root + "/brokers/ids/" + strconv.Itoa(id) }

// replicas is the brokers of each partition; the first is the one to lead.
var replicas = [][]int{{1, 2}, {2, 3}, {3, 1}}

// A broker is one process of the cluster. It registers, learns from the service
// which partitions it leads, and stands for controller: all in one session, so that
// a broker which has lost its session has lost all of it at the same time.
type broker struct {
	id      int
	backend backend.Backend
	shared  backend.Backend // registration and candidacy have one session
	unclean bool            // as the controller it lets a replica lead that may lack messages, rather than none
	say     func(format string, args ...any)

	seen  map[int]partition // the latest state of each partition
	leads map[int]bool      // the partitions, too
}

func newBroker(id int, b backend.Backend, unclean bool, say func(string, ...any)) *broker {
	return &broker{
		id: id, backend: b, shared: backend.Share(b, 0), unclean: unclean,
		say:  func(format string, args ...any) { say("broker "+strconv.Itoa(id)+": "+format, args...) },
		seen: make(map[int]partition), leads: make(map[int]bool),
	}
}

// run lives one life after the other until ctx ends.
func (b *broker) run(ctx context.Context) {
	for said := ""; ; time.Sleep(500 * time.Millisecond) {
		err := b.live(ctx)
		if ctx.Err() != nil {
			return
		}
		if text := err.Error(); text != said { // else the same still keeps it from living
			b.say("starts over: %s", text)
			said = text
		}
	}
}

// live is the life of one session: register, and then be a broker and a candidate
// until it is over. A candidate registers first, as in Kafka: a controller that is no
// broker would be in nobody's view of the cluster.
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
		defer cancel() // the broker ends with its candidacy: half of it would look well
		stood <- b.stand(ctx)
	}()
	err = b.follow(ctx, s, own)
	b.stepDown()
	cancel()
	return cmp.Or(<-stood, err)
}

// register enters the broker. A process that is started again under the id of one that has died
// fails until the service has noticed that.
func (b *broker) register(ctx context.Context, s *backend.Session) (backend.Entry, error) {
	key := registrationKey(b.id)
	if _, err := s.Commit(ctx, nil, backend.CompareAndSet(backend.Parent(key), nil, 0)); err != nil && !errors.Is(err, backend.ErrConflict) {
		return backend.Entry{}, err // ErrConflict: it is there
	}
	made, err := s.Commit(ctx, nil, backend.CreateEphemeral(key, fmt.Appendf(nil, "pid %d", os.Getpid())))
	if err != nil {
		return backend.Entry{}, fmt.Errorf("not registered: %w", err)
	}
	b.say("registered")
	return made[0], nil
}

// stand is the candidacy: it returns when ctx ends, or standing is of no use.
func (b *broker) stand(ctx context.Context) error {
	e, err := elector.New(elector.Config{Backend: b.shared, Strategy: kafka.New(), Election: root, ID: strconv.Itoa(b.id)})
	if err != nil {
		return err
	}
	defer e.Close(ctx) // ctx ends, at the latest, with the session
	if err = elector.Run(ctx, e, b.lead); ctx.Err() != nil {
		return nil
	}
	return err
}

// follow learns what the controller has decided, until the registration or the
// session is gone.
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

// learn takes the state of a partition. One of an earlier controller, or an older one than was seen,
// is ignored: somebody writes past the service's conditions, or has restored a backup of it. Each
// partition has epochs of its own, because a new controller changes only what it has to.
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

// stepDown ends what the broker leads with the life of its session. What was seen
// stays, since it is to be ignored in the next life, too, if it is outdated.
func (b *broker) stepDown() {
	for n := range replicas {
		if b.leads[n] {
			b.say("leads partition %d no more: its registration is over", n)
		}
	}
	clear(b.leads)
}
