package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy/kafka"
)

// A broker is one process of the cluster. It registers, learns from the service
// which partitions it leads, and stands for controller: all in one session, so that
// a broker which has lost its session has lost all of it at the same time.
type broker struct {
	id       int
	backend  backend.Backend // shared: registration and candidacy have one session
	layout   layout
	stubborn bool // see controller.insist
	say      sayer

	seen  map[string]partition // the latest state of each partition, by name
	leads map[string]bool      // by the partition's name
}

func newBroker(id int, b backend.Backend, root string, say sayer) *broker {
	return &broker{
		id: id, backend: backend.Share(b, 0), layout: layout(root),
		say:  func(format string, args ...any) { say("broker "+strconv.Itoa(id)+": "+format, args...) },
		seen: make(map[string]partition), leads: make(map[string]bool),
	}
}

// errUnregistered ends a life whose registration somebody has deleted.
var errUnregistered = errors.New("the registration is gone")

// run lives one life after the other until ctx ends.
func (b *broker) run(ctx context.Context) error {
	const pause = 250 * time.Millisecond
	down := false
	for {
		err := b.live(ctx)
		if ctx.Err() != nil {
			return nil // told to stop
		}
		again := slices.ContainsFunc([]error{
			backend.ErrSessionLost, backend.ErrUnavailable, backend.ErrIndeterminate, backend.ErrNoParent, errUnregistered,
		}, func(passing error) bool { return errors.Is(err, passing) })
		if !again {
			return err
		}
		wasDown := down
		if down = errors.Is(err, backend.ErrUnavailable); !down || !wasDown {
			b.say("begins anew: %v", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// live is the life of one session: register, and then be a broker and a candidate
// until it is over. A candidate registers first, as in Kafka: a controller that is no
// broker would be in nobody's view of the cluster.
func (b *broker) live(ctx context.Context) error {
	s, err := b.backend.Open(ctx, backend.OpenOptions{})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		lost := s.State() == backend.Lost
		if err := s.Close(closing); err != nil && !lost {
			b.say("session not closed cleanly: %v", err)
		}
	}()
	own, err := b.register(ctx, s)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var candidacy sync.WaitGroup
	var failed error
	candidacy.Go(func() {
		defer cancel() // the broker ends with its candidacy: half of it would look well
		failed = b.stand(ctx)
	})
	err = b.follow(ctx, s, own)
	b.stepDown()
	cancel()
	candidacy.Wait()
	if failed != nil {
		return failed
	}
	return err
}

// stand is the candidacy: it returns when ctx ends, or standing is of no use.
func (b *broker) stand(ctx context.Context) error {
	e, err := elector.New(elector.Config{
		Backend: b.backend, Strategy: kafka.New(), Election: string(b.layout), ID: strconv.Itoa(b.id),
		Hooks: elector.Hooks{
			Elected: func(t *elector.Term) { b.say("IS THE CONTROLLER, epoch %d", t.Token()) },
			Ended: func(t *elector.Term, cause error) {
				b.say("is the controller no more (epoch %d): %v", t.Token(), cause)
			},
			Stage: func(s elector.StageEvent) {
				if s.Stage == elector.StageReady && !s.Completed {
					b.say("stands for controller, and waits")
				}
			},
		},
	})
	if err != nil {
		return err
	}
	err = elector.Run(ctx, e, func(ctx context.Context, t *elector.Term) error { return newController(b, t).lead(ctx) })
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = e.Close(closing) // what is not confirmed goes with the session, which live closes
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// register enters the broker, and blocks until its registration is the one that
// counts: the oldest with its id. A process that is started again under the id of one
// that has died waits here until the service has noticed that.
func (b *broker) register(ctx context.Context, s *backend.Session) (backend.Entry, error) {
	dir := b.layout.brokers()
	if _, err := s.Commit(ctx, nil, backend.CompareAndSet(dir, nil, 0)); err != nil && !errors.Is(err, backend.ErrConflict) {
		return backend.Entry{}, err // ErrConflict: it is there
	}
	made, err := s.Commit(ctx, nil, backend.Enqueue(dir, encode(registration{ID: b.id, PID: os.Getpid()})))
	if err != nil {
		return backend.Entry{}, err
	}
	own := made[0]
	for {
		older, pid, err := b.elder(ctx, s, own)
		if err != nil {
			return own, err
		}
		if pid == 0 {
			b.say("registered")
			return own, nil
		}
		b.say("broker %d is registered already (pid %d, session %s): waits until that is gone", b.id, pid, older.Session)
		for now := []backend.Entry{older, own}; now[0].Exists() && now[1].Exists(); {
			if now, err = s.Await(ctx, now...); err != nil {
				return own, err
			}
		}
	}
}

// elder finds the oldest registration with this broker's id that is older than its
// own. pid is 0 if there is none.
func (b *broker) elder(ctx context.Context, s *backend.Session, own backend.Entry) (e backend.Entry, pid int, err error) {
	listing, err := s.List(ctx, b.layout.brokers())
	if err != nil {
		return e, 0, err
	}
	at := slices.Index(listing.Keys, own.Key)
	if at < 0 {
		return e, 0, errUnregistered
	}
	for _, key := range listing.Keys[:at] {
		if e, err = get(ctx, s, key); err != nil {
			return e, 0, err
		}
		if r, ok := decode[registration](e.Value); ok && r.ID == b.id && r.PID > 0 {
			return e, r.PID, nil
		}
	}
	return e, 0, nil
}

// follow learns what the controller has decided, until the registration or the
// session is gone. One blocked call waits for everything: the registration, the
// topics and the states of all partitions.
func (b *broker) follow(ctx context.Context, s *backend.Session, own backend.Entry) error {
	topicsKey := b.layout.topics()
	known := map[string]backend.Entry{own.Key: own, topicsKey: backend.Unknown(topicsKey)}
	names := make(map[string]string) // of partitions, by key
	for {
		now, err := s.Await(ctx, slices.Collect(maps.Values(known))...)
		if err != nil {
			return err
		}
		for _, e := range now {
			last := known[e.Key]
			known[e.Key] = e
			switch name := names[e.Key]; {
			case e.Same(last):
			case e.Key == own.Key && !e.Exists():
				return errUnregistered
			case name != "":
				b.learn(name, e)
			}
		}
		all, _ := decodeTopics(known[topicsKey]) // the controller complains
		for name, t := range all {
			for n := range t.Partitions {
				key := b.layout.partition(name, n)
				if _, is := known[key]; !is {
					known[key], names[key] = backend.Unknown(key), fmt.Sprintf("%s-%d", name, n)
				}
			}
		}
	}
}

// learn takes the state of a partition. One that an earlier controller has written,
// or that is older than what was seen, is ignored: a session that begins at a server
// which lags behind may be shown one. Each partition has epochs of its own,
// because a new controller writes only what it changes.
func (b *broker) learn(name string, e backend.Entry) {
	p, ok := decodePartition(e)
	if !ok {
		return
	}
	last, known := b.seen[name]
	if known && (p.ControllerEpoch < last.ControllerEpoch || p.LeaderEpoch < last.LeaderEpoch) {
		b.say("ignores %s, leader epoch %d (controller epoch %d): it has seen leader epoch %d (controller epoch %d)",
			name, p.LeaderEpoch, p.ControllerEpoch, last.LeaderEpoch, last.ControllerEpoch)
		return
	}
	b.seen[name] = p
	epochs := fmt.Sprintf("leader epoch %d (controller epoch %d)", p.LeaderEpoch, p.ControllerEpoch)
	led := b.leads[name]
	b.leads[name] = p.Leader == b.id
	switch {
	case p.Leader == b.id:
		b.say("leads %s, %s", name, epochs)
	case led:
		b.say("leads %s no more, %s", name, epochs)
	case slices.Contains(p.Replicas, b.id) && p.Leader != offline && p.Leader != last.Leader:
		b.say("follows %s, leader %d, %s", name, p.Leader, epochs)
	}
}

// stepDown ends what the broker leads with the life of its session. What was seen
// stays, since it is to be ignored in the next life, too, if it is outdated.
func (b *broker) stepDown() {
	for _, name := range slices.Sorted(maps.Keys(b.leads)) {
		if b.leads[name] {
			b.say("leads %s no more: its registration is over", name)
		}
	}
	clear(b.leads)
}
