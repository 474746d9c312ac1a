package main

import (
	"fmt"
	"slices"
)

// This file has the controller's decisions. It knows no service and no time, only a state, the live brokers,
// and the next state.

// A partition is its state as all brokers must see it.
type partition struct {
	Leader int `json:"leader"` // or offline
	// LeaderEpoch rises with each change of Leader or ISR. Followers refuse a broker that led in an earlier
	// one.
	LeaderEpoch int   `json:"leaderEpoch"`
	ISR         []int `json:"isr"` // the replicas that have all messages
	Replicas    []int `json:"replicas"`
	// ControllerEpoch is the epoch of the controller that wrote this state.
	ControllerEpoch uint64 `json:"controllerEpoch"`
}

// offline is the Leader of a partition without one.
const offline = -1

func (p partition) String() string {
	leader := fmt.Sprint("leader ", p.Leader)
	if p.Leader == offline {
		leader = "OFFLINE"
	}
	return fmt.Sprintf("%s, ISR %v, epoch %d of controller %d", leader, p.ISR, p.LeaderEpoch, p.ControllerEpoch)
}

// fresh returns a partition that nobody has led yet: all replicas are equal, as it is empty.
func fresh(replicas []int) partition {
	return partition{Leader: offline, LeaderEpoch: -1, ISR: replicas, Replicas: replicas}
}

// decide returns the next state of a partition, which is the same if all is well.
//
//   - A dead broker leaves the ISR.
//   - A leader that is in the ISR stays. Otherwise the first in-sync replica leads: it
//     has all messages.
//   - No in-sync replica lives: the partition is offline, and the ISR stays as it was,
//     because a replica that returns from it has all messages. If an unclean election is
//     allowed, the first live replica leads, and the messages that it lacks are lost.
//   - None of these: replicas that are back join the ISR.
//
// So a change is either an election or a return, one at a time. The ISR has the order of the replicas.
func decide(p partition, live map[int]bool, unclean bool) partition {
	next := p
	inSync := keep(p.Replicas, func(id int) bool { return live[id] && slices.Contains(p.ISR, id) })
	alive := keep(p.Replicas, func(id int) bool { return live[id] })
	switch {
	case len(inSync) > 0:
		next.ISR = inSync
		if !slices.Contains(inSync, p.Leader) {
			next.Leader = inSync[0]
		}
		if next.same(p) {
			// In a real cluster a replica catches up first, and its leader reports it.
			next.ISR = alive
		}
	case unclean && len(alive) > 0:
		next.Leader, next.ISR = alive[0], alive[:1]
	default:
		next.Leader = offline
	}
	if !next.same(p) {
		next.LeaderEpoch++
	}
	return next
}

// same reports whether leader and ISR are as in o.
func (p partition) same(o partition) bool {
	return p.Leader == o.Leader && slices.Equal(p.ISR, o.ISR)
}

// keep returns the wanted ids, in their order.
func keep(ids []int, wanted func(int) bool) []int {
	return slices.DeleteFunc(slices.Clone(ids), func(id int) bool { return !wanted(id) })
}
