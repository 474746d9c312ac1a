package main

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/elector-go/elector/backend"
)

// What stands in the service, below one root:
//
//	controller            the seat: strategy/kafka's
//	controller_epoch      how often there was a new controller: strategy/kafka's
//	controller_heartbeat  the controller's, five times a second
//	brokers/…             an ephemeral entry per broker: a registration
//	topics                what topics are wanted: the one key that clients write
//	topics/<name>         an assignment: which brokers hold which partition
//	topics/<name>/<n>     the state of a partition
//
// Everything below topics is written by the controller alone, and by Term.Commit alone.
type layout string // the root: "/" or a path such as "/demo"

func (l layout) key(names ...string) string {
	return strings.TrimSuffix(string(l), "/") + "/" + strings.Join(names, "/")
}

func (l layout) brokers() string          { return l.key("brokers") }
func (l layout) heartbeat() string        { return l.key("controller_heartbeat") }
func (l layout) topics() string           { return l.key("topics") }
func (l layout) topic(name string) string { return l.key("topics", name) }
func (l layout) partition(topic string, n int) string {
	return l.key("topics", topic, strconv.Itoa(n))
}

// A registration is what a broker says of itself.
type registration struct {
	ID  int `json:"id"`
	PID int `json:"pid"`
}

// Topics are the topics that are wanted, by name. They are one value under one key,
// because a listing of the contract has enqueued entries only: nobody could find out
// which persistent keys there are. The price is one write at a time, and a limit in bytes.
type topics map[string]topic

// A topic is what a client asks for.
type topic struct {
	Partitions int `json:"partitions"`
	Replicas   int `json:"replicas"` // copies of each partition: the replication factor
	// Unclean allows a leader that may lack the latest messages, rather than none.
	Unclean bool `json:"unclean,omitempty"`
}

// An assignment is the brokers that hold each partition of a topic; the first of
// them is the one to lead.
type assignment struct {
	Replicas [][]int `json:"replicas"`
}

// A partition is its state as all brokers have to see it.
type partition struct {
	Leader int `json:"leader"` // or offline
	// LeaderEpoch rises with each change of Leader or ISR. A broker that led in an
	// earlier one is refused by its followers.
	LeaderEpoch int   `json:"leaderEpoch"`
	ISR         []int `json:"isr"` // the replicas that have all messages
	Replicas    []int `json:"replicas"`
	// ControllerEpoch is that of the controller which has written this state.
	ControllerEpoch uint64 `json:"controllerEpoch"`
}

// A heartbeat is for people to read, and something to write for a zombie.
type heartbeat struct {
	Broker          int    `json:"broker"`
	ControllerEpoch uint64 `json:"controllerEpoch"`
	Beat            int    `json:"beat"`
}

// encode is for the types above, with which Marshal cannot fail.
func encode(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}

// decode reads what somebody has written, which need not be what we write.
func decode[T any](b []byte) (v T, ok bool) {
	err := json.Unmarshal(b, &v)
	return v, err == nil
}

// decodeTopics reads the wanted topics; a key that is not there, or there only as a
// parent, wants none. False says that there was something else, too, which is left out.
func decodeTopics(e backend.Entry) (all topics, ok bool) {
	if len(e.Value) == 0 {
		return topics{}, true
	}
	all, ok = decode[topics](e.Value)
	if !ok || all == nil {
		return topics{}, false
	}
	for name, t := range all {
		if t.check(name) != nil {
			delete(all, name)
			ok = false
		}
	}
	return all, ok
}

func decodePartition(e backend.Entry) (partition, bool) {
	p, ok := decode[partition](e.Value)
	return p, ok && len(p.Replicas) > 0
}

// get reads an entry; one that is not there has no Rev.
func get(ctx context.Context, s *backend.Session, key string) (backend.Entry, error) {
	e, err := s.Get(ctx, key)
	if errors.Is(err, backend.ErrNoEntry) {
		return backend.Entry{Key: key}, nil
	}
	return e, err
}
