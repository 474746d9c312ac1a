// Package kafka is the strategy by which the brokers of Apache Kafka elected their controller on ZooKeeper.
// There is one entry, /controller, for which all candidates race, and beside it /controller_epoch, a number
// that each winner raises by one in the same atomic step. The epoch is the token: 1, 2, 3 …
//
// The epoch stays when everybody has gone. Every write of the controller carries the condition that it is
// unchanged, so a controller that slept through its deposition (a zombie) can neither write nor delete its
// successor's entry. That, and tokens that rise, hold for as long as nobody deletes the epoch.
//
// With Config.Election "/", keys and payloads are Kafka's own, byte for byte, so that Kafka's tools can read
// them. The price is the same as with strategy/unfair: a change of controller wakes every candidate.
//
// Source: KafkaZkClient.registerControllerAndIncrementControllerEpoch and KafkaController.elect in Apache
// Kafka up to 3.9, with KAFKA-6082 (guarded deletion) and KAFKA-1387 (the entry of one's own earlier
// session).
package kafka

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/entries"
)

// Strategy is the Kafka controller's strategy. Its zero value is ready, for candidates whose Config.ID is
// their broker id in decimal, such as "7": elector.New refuses any other ID. ForBroker is for others.
type Strategy struct {
	broker int32
	given  bool
}

// ForBroker returns the strategy for the one candidate that has this broker id, 0 or more, with any
// Config.ID. Others see it under the broker id, in decimal.
func ForBroker(id int32) Strategy { return Strategy{broker: id, given: true} }

var _ strategy.CustomLayout = Strategy{}

// Name is "kafka". It is recorded nowhere: Kafka's layout has no place for it.
func (Strategy) Name() string { return "kafka" }

// Identify returns the broker id in decimal.
func (s Strategy) Identify(id, _ string) (string, error) {
	if !s.given {
		_, err := brokerID(id)
		return id, err
	}
	if s.broker < 0 {
		return "", fmt.Errorf("Strategy: broker id %d is negative", s.broker)
	}
	return strconv.Itoa(int(s.broker)), nil
}

// Landmark returns the key of the epoch, which the first controller makes and nobody removes.
func (Strategy) Landmark(root string) string { return keys(root).epoch.Key }

// brokerID reads the broker id from a candidate's ID.
func brokerID(candidate string) (int32, error) {
	id, err := strconv.ParseInt(candidate, 10, 32)
	if err != nil || id < 0 || strconv.FormatInt(id, 10) != candidate {
		return 0, fmt.Errorf("ID %q is no broker id: give a decimal number from 0 to 2147483647, or the id by kafka.ForBroker", candidate)
	}
	return int32(id), nil
}

// A state is the two entries.
type state struct{ controller, epoch backend.Entry }

func (s state) same(o state) bool { return s.controller.Same(o.controller) && s.epoch.Same(o.epoch) }

// keys returns the state before the first look.
func keys(root string) state {
	root = strings.TrimSuffix(root, "/")
	return state{backend.Unknown(root + "/controller"), backend.Unknown(root + "/controller_epoch")}
}

// await blocks until the state differs from the known one.
func await(ctx context.Context, s *backend.Session, known state) (state, error) {
	now, err := s.Await(ctx, known.controller, known.epoch)
	if err != nil {
		return state{}, err
	}
	return state{now[0], now[1]}, nil
}

// Campaign races for the controller's entry until it is won.
//
//  1. Look at the controller and the epoch.
//  2. There is a controller: wait until there is none.
//  3. In one step, raise the epoch that I have seen by one, and create the
//     controller. Done: I lead.
//  4. Somebody was faster: back to 1.
//
// The wait is for both entries, so that at a vacancy the epoch is known already and the win takes one round
// trip after the notice. A candidate waits for the entry of its own earlier session as for any other: it goes
// when the service ends that session.
func (Strategy) Campaign(ctx context.Context, c *strategy.Candidacy) (strategy.Claim, error) {
	broker, err := brokerID(c.ID)
	if err != nil {
		return strategy.Claim{}, fmt.Errorf("%w: %w", strategy.ErrConfig, err)
	}
	now, err := determine(ctx, c)
	for err == nil {
		if now, err = ready(ctx, c, now); err != nil {
			break
		}
		claim, refused := offer(ctx, c, now, broker)
		if refused == nil {
			return claim, nil
		}
		if !errors.Is(refused, backend.ErrExists) && !errors.Is(refused, backend.ErrConflict) {
			return strategy.Claim{}, refused
		}
		before := now
		if now, err = determine(ctx, c); err == nil && now.same(before) {
			err = refused // though nothing has changed: so nobody was faster
		}
	}
	return strategy.Claim{}, err
}

func determine(ctx context.Context, c *strategy.Candidacy) (state, error) {
	completed := c.Begin(strategy.StageDetermine)
	now, err := await(ctx, c.Session, keys(c.Dir))
	completed(err)
	return now, err
}

// ready blocks until there is no controller, and returns the state at that moment.
func ready(ctx context.Context, c *strategy.Candidacy, now state) (_ state, err error) {
	if !now.controller.Exists() {
		return now, nil
	}
	completed := c.Begin(strategy.StageReady)
	defer func() { completed(err) }()
	for now.controller.Exists() {
		if now.controller.Session == "" {
			return now, entries.PersistentError(now.controller)
		}
		if leader, err := leaderOf(now); err == nil {
			c.Sees(leader, 0)
		}
		if now, err = await(ctx, c.Session, now); err != nil {
			return now, err
		}
	}
	return now, nil
}

// offer claims the vacant seat.
func offer(ctx context.Context, c *strategy.Candidacy, now state, broker int32) (_ strategy.Claim, err error) {
	completed := c.Begin(strategy.StageOffer)
	defer func() { completed(err) }()
	last, err := decodeEpoch(now.epoch)
	if err == nil && last == maxEpoch {
		err = fmt.Errorf("%w: %s holds the highest epoch, which nobody can follow", strategy.ErrStrategyMismatch, now.epoch.Key)
	}
	if err != nil {
		return strategy.Claim{}, err
	}
	elected := time.Now() // for people to read; it decides nothing
	encode := func(value []byte) []byte { return encodeController(broker, elected, value) }
	made, err := c.Session.Commit(ctx, nil,
		backend.CompareAndSet(now.epoch.Key, encodeEpoch(last+1), now.epoch.Version),
		backend.CreateEphemeral(now.controller.Key, encode(c.Value)))
	if err != nil {
		return strategy.Claim{}, err
	}
	epoch, controller := made[0], made[1]
	return strategy.Claim{
		Entry:      controller,
		Token:      last + 1,
		Conditions: []backend.Condition{backend.IfUnchanged(epoch), backend.IfExists(controller)},
		Encode:     encode,
		StillLeads: func(e backend.Entry) bool {
			now, ok := decodeController(e.Value)
			return ok && now.broker == broker
		},
	}, nil
}

// Observe follows the controller and the epoch.
func (Strategy) Observe(ctx context.Context, s *backend.Session, root string) iter.Seq2[strategy.Leader, error] {
	return func(yield func(strategy.Leader, error) bool) {
		for {
			now, err := look(ctx, s, root)
			leader := strategy.Leader{}
			if err == nil {
				leader, err = leaderOf(now)
			}
			if !yield(leader, err) || err != nil {
				return
			}
			if _, err := await(ctx, s, now); err != nil {
				yield(strategy.Leader{}, err)
				return
			}
		}
	}
}

// look reads a controller and its epoch. A claim changes both at once, so an epoch read between two reads of
// the same controller belongs to that controller.
func look(ctx context.Context, s *backend.Session, root string) (state, error) {
	for {
		at := keys(root)
		first, err := entries.Get(ctx, s, at.controller.Key)
		if err != nil {
			return at, err
		}
		if at.epoch, err = entries.Get(ctx, s, at.epoch.Key); err != nil || !first.Exists() {
			at.controller = first
			return at, err
		}
		at.controller, err = entries.Get(ctx, s, first.Key)
		if err != nil || at.controller.Rev == first.Rev {
			return at, err
		}
	}
}

// leaderOf reads the leader from the two entries. It returns the zero Leader if there is none.
func leaderOf(now state) (strategy.Leader, error) {
	epoch, err := decodeEpoch(now.epoch)
	if err != nil || now.controller.Session == "" || epoch == 0 {
		return strategy.Leader{}, err
	}
	leader := strategy.Leader{Token: epoch, Seat: now.controller}
	if c, ok := decodeController(now.controller.Value); ok {
		leader.ID, leader.Value, leader.Since = strconv.Itoa(int(c.broker)), c.value, c.elected
	}
	return leader, nil
}

// Candidates lists the controller only: the others leave no trace in the service.
func (Strategy) Candidates(ctx context.Context, s *backend.Session, root string) ([]strategy.Candidate, error) {
	now, err := look(ctx, s, root)
	if err != nil {
		return nil, err
	}
	leader, err := leaderOf(now)
	if err != nil || leader.Vacant() {
		return nil, err
	}
	return []strategy.Candidate{{ID: leader.ID, Value: leader.Value, Leads: true, Entry: leader.Seat}}, nil
}
