package main

import (
	"hash/maphash"
	"math/bits"
	"slices"
)

// zen elects as Elasticsearch did before 7.0.
//
//  1. Ask all who is there, and wait for the answers.
//  2. Somebody knows a leader: vote for that one. Else, if n/2+1 are there: sort their ids,
//     and vote for the first.
//  3. One box per voter; the last vote counts. Who has n/2+1 votes and its own leads.
//  4. Follow the one for whom you have voted when it says that it leads. If it does not
//     come to that: back to 1.
//
// Source: ZenDiscovery and ElectMasterService of Elasticsearch up to 6. (From 5 on the
// version of the cluster's state was compared before the id.)
//
// No vote bears a round. So one who has changed its mind counts for two, until the first
// has heard of it: Elasticsearch's issue 2488, and what the search finds here.
type zen struct {
	member
	there set   // heard of since the last timeout
	knows []int // by voter: the leader that it speaks of, or 0
	box   []int // by voter: for whom it votes
	vote  int
}

func newZen(c *config) machine {
	return &zen{
		member: member{config: c, state: looking},
		knows:  make([]int, len(c.voters)), box: make([]int, len(c.voters)),
	}
}

func (z *zen) start() effects { return z.look() }

// look asks who is there.
func (z *zen) look() effects {
	z.state, z.leader, z.vote = looking, ballot{}, 0
	z.there = z.only(z.id)
	clear(z.knows)
	clear(z.box)
	z.tell("asks who is there")
	return z.ask()
}

func (z *zen) ask() effects { return effects{z.toAll(z.greeting()), z.notify} }

func (z *zen) greeting() vote {
	if z.state != looking {
		return z.word()
	}
	return vote{State: looking, Self: z.self(), For: ballot{ID: z.vote}}
}

func (z *zen) receive(v vote) effects {
	at := z.place(v.Self.ID)
	switch {
	case v.Self.ID == z.id || v.For.ID != 0 && z.place(v.For.ID) < 0:
		return effects{}
	case at < 0: // an observer asks
		if !z.voter() {
			return effects{}
		}
		return effects{send: []message{{v.Self.ID, z.greeting()}}}
	case z.state != looking:
		e, ok := z.hear(v)
		if !ok {
			z.tell("its leader %d says that it leads no more", v.Self.ID)
			return z.look()
		}
		return e
	}
	z.there |= z.only(v.Self.ID)
	z.knows[at], z.box[at] = 0, v.For.ID
	if v.settled() {
		z.knows[at] = v.For.ID
	}
	if v.State == leading && (v.Self.ID == z.vote || !z.voter()) {
		return z.settle(v.Self, 0, "it says that it leads")
	}
	return z.count()
}

// timeout is the end of the time for answers.
func (z *zen) timeout() effects {
	if z.state != looking {
		e, ok := z.pulse()
		if !ok {
			return z.look()
		}
		return e
	}
	if z.voter() {
		z.choose()
	}
	z.there = z.only(z.id)
	clear(z.knows)
	if e := z.count(); z.state != looking {
		return e
	}
	return z.ask()
}

// choose votes.
func (z *zen) choose() {
	var masters []int
	for _, id := range z.knows {
		if id != 0 && id != z.id {
			masters = append(masters, id)
		}
	}
	was := z.vote
	switch ids := z.ids(z.there); {
	case len(masters) > 0:
		z.vote = slices.Min(masters)
	case z.enough(z.there):
		z.vote = slices.Min(ids)
	default:
		z.vote = 0
	}
	if z.vote != was && z.vote != 0 {
		z.tell("votes for %d: sees %v, of whom these lead: %v", z.vote, z.ids(z.there), masters)
	}
	z.box[z.place(z.id)] = z.vote
}

// count leads if it can.
func (z *zen) count() effects {
	if z.vote != z.id {
		return effects{}
	}
	var mine set
	for at, id := range z.box {
		if id == z.id {
			mine |= 1 << at
		}
	}
	if !z.quorum(bits.OnesCount64(uint64(mine)), len(z.voters)) {
		return effects{}
	}
	return z.settle(z.self(), 0, "votes of %v", z.ids(mine))
}

func (z *zen) durable() uint64 { return 0 }

func (z *zen) clone() machine {
	c := *z
	c.knows, c.box = slices.Clone(z.knows), slices.Clone(z.box)
	return &c
}

func (z *zen) hash(h *maphash.Hash) {
	z.member.hash(h)
	if z.state != looking {
		return
	}
	maphash.WriteComparable(h, [2]uint64{uint64(z.there), uint64(z.vote)})
	for at := range z.box {
		maphash.WriteComparable(h, [2]int{z.knows[at], z.box[at]})
	}
}
