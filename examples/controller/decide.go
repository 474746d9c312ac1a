package main

import (
	"maps"
	"slices"
)

// This file is what the controller decides. It knows of no service and no time, only
// of a state, the brokers that live, and the next state.

// offline is the Leader of a partition that has none.
const offline = -1

// fresh is a partition before anybody has led it: all replicas are as good, as there
// is nothing in it.
func fresh(replicas []int) partition {
	return partition{Leader: offline, LeaderEpoch: -1, ISR: replicas, Replicas: replicas}
}

// decide returns the next state of a partition, and whether that is a change.
//
//   - Who does not live leaves the ISR.
//   - A leader that is in the ISR stays. Otherwise the first in-sync replica leads: it
//     has all messages.
//   - No in-sync replica lives: the partition is offline, and the ISR stays as it was,
//     because who returns from it has all messages. Where an unclean election is
//     allowed, the first replica that lives leads, and what it lacks is lost.
//   - Nothing of that: replicas that are back join the ISR.
//
// So a change is an election or a return, and one after the other. The ISR is kept in
// the order of the replicas.
func decide(p partition, live map[int]bool, unclean bool) (next partition, changed bool) {
	next = p
	inSync := keep(p.Replicas, func(id int) bool { return live[id] && slices.Contains(p.ISR, id) })
	alive := keep(p.Replicas, func(id int) bool { return live[id] })
	switch {
	case len(inSync) > 0:
		next.ISR = inSync
		if !slices.Contains(inSync, p.Leader) {
			next.Leader = inSync[0]
		}
		if next.same(p) {
			// In a real cluster a replica first catches up, and its leader reports it.
			next.ISR = alive
		}
	case unclean && len(alive) > 0:
		next.Leader, next.ISR = alive[0], alive[:1]
	default:
		next.Leader = offline
	}
	if next.same(p) {
		return p, false
	}
	next.LeaderEpoch++
	return next, true
}

// same tells whether leader and ISR are as in o.
func (p partition) same(o partition) bool {
	return p.Leader == o.Leader && slices.Equal(p.ISR, o.ISR)
}

// assign spreads a topic over the brokers: each partition begins one broker further.
// It returns false where there are too few.
func assign(t topic, live map[int]bool) (assignment, bool) {
	ids := slices.Sorted(maps.Keys(live))
	if t.Replicas < 1 || len(ids) < t.Replicas {
		return assignment{}, false
	}
	var a assignment
	for n := range t.Partitions {
		replicas := make([]int, t.Replicas)
		for r := range replicas {
			replicas[r] = ids[(n+r)%len(ids)]
		}
		a.Replicas = append(a.Replicas, replicas)
	}
	return a, true
}

// steps returns the sets of live brokers to decide for, one after the other, given
// the revisions of their registrations before and now. A broker that has registered
// anew has died in between, though its id was never missing: it is to be taken for
// dead first, and for live then.
func steps(before, now map[int]uint64) []map[int]bool {
	live, stayed := make(map[int]bool), make(map[int]bool)
	for id, rev := range now {
		live[id] = true
		if last, known := before[id]; !known || last == rev {
			stayed[id] = true
		}
	}
	if len(stayed) < len(live) {
		return []map[int]bool{stayed, live}
	}
	return []map[int]bool{live}
}

// keep returns the ids that are wanted, in their order.
func keep(ids []int, wanted func(int) bool) []int {
	var kept []int
	for _, id := range ids {
		if wanted(id) {
			kept = append(kept, id)
		}
	}
	return kept
}
