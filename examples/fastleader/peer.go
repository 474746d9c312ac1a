package main

import (
	"hash/maphash"
	"slices"
	"time"
)

// peer elects as ZooKeeper's servers do.
//
//  1. Begin a round, one after the last. Vote for yourself, and tell all.
//  2. A vote of a later round: take that round over, and begin it with the better of your
//     own ballot and this one. Of an earlier round: send yours back, and forget it.
//  3. Of this round: a ballot with the higher zxid, then with the higher id, becomes yours.
//  4. Whenever your vote has changed, tell all. One box per voter; the last vote counts.
//  5. A majority votes as you do, for 200 ms without a better one: lead, or follow.
//  6. One who comes late hears from those who have settled. If a majority has settled on
//     one leader, and that one says so too, follow it.
//
// Source: lookForLeader in FastLeaderElection.java of Apache ZooKeeper. The names in
// brackets below are its own. Three things differ. The zxid carries the epoch, where the
// original compares a field peerEpoch first. A vote for a peer that is no better is counted
// during the 200 ms, and not dropped. And the round never falls: see settle.
//
// What comes then, in ZooKeeper, is Zab: the leader gathers a majority of followers,
// and has them agree on an epoch, before it does anything. Member has the first half of
// that, which shows in status.Backed.
type peer struct {
	member
	round    uint64 // [logicalclock]
	saved    uint64
	ballot   ballot // [proposedLeader, proposedZxid]
	box      []vote // by voter: the last vote of this round [recvset]
	outside  []vote // by voter: the last word of those who have settled, of any round [outofelection]
	standing bool   // a majority stands for my ballot, and the 200 ms run
	interval time.Duration
}

func newPeer(c *config) machine {
	return &peer{
		member: member{config: c, state: looking},
		round:  c.durable, saved: c.durable,
		box: make([]vote, len(c.voters)), outside: make([]vote, len(c.voters)),
	}
}

func (p *peer) start() effects { return p.look("it has started") }

// look begins a round.
func (p *peer) look(why string) effects {
	p.state, p.leader = looking, ballot{}
	p.round++
	clear(p.box)
	clear(p.outside)
	return p.propose(p.first(), why)
}

// first is the ballot with which a round begins.
func (p *peer) first() ballot {
	if !p.voter() {
		return ballot{} // an observer asks, by a vote for nobody
	}
	return p.self()
}

// propose votes, and tells all.
func (p *peer) propose(b ballot, why string, args ...any) effects {
	p.ballot, p.standing, p.interval = b, false, p.notify
	if p.voter() {
		p.box[p.place(p.id)] = p.greeting()
		p.tell("round %d: votes for %d (zxid %d): "+why, append([]any{p.round, b.ID, b.Zxid}, args...)...)
	}
	return effects{p.toAll(p.greeting()), p.interval}
}

func (p *peer) greeting() vote {
	if p.state != looking {
		return p.word()
	}
	return vote{Round: p.round, State: looking, Self: p.self(), For: p.ballot}
}

func (p *peer) receive(v vote) effects {
	if p.place(v.Self.ID) < 0 { // an observer: its vote is none, and it is told at once
		if !p.voter() {
			return effects{}
		}
		return effects{send: []message{{v.Self.ID, p.greeting()}}}
	}
	switch {
	case !p.sane(v):
		return effects{}
	case p.state != looking:
		e, ok := p.hear(v)
		if !ok {
			return p.look("the leader is in a later round, and leads no more")
		}
		return e
	case v.settled():
		return p.join(v)
	case v.State == looking && p.voter():
		return p.count(v)
	}
	return effects{}
}

// count takes the vote of one who is looking, too.
func (p *peer) count(v vote) (e effects) {
	switch mine := p.ballot; {
	case v.Round < p.round:
		return effects{send: []message{{v.Self.ID, p.greeting()}}}
	case v.Round > p.round:
		p.round = v.Round
		clear(p.box)
		if p.better(v.For, p.first()) {
			e = p.propose(v.For, "%d is in this later round, with a better ballot", v.Self.ID)
		} else {
			e = p.propose(p.first(), "%d is in this later round, with no better ballot", v.Self.ID)
		}
	case p.better(v.For, mine) && v.For.Zxid != mine.Zxid:
		e = p.propose(v.For, "%d votes so, and zxid %d is better than %d", v.Self.ID, v.For.Zxid, mine.Zxid)
	case p.better(v.For, mine):
		e = p.propose(v.For, "%d votes so, and id %d is better than %d", v.Self.ID, v.For.ID, mine.ID)
	}
	p.box[p.place(v.Self.ID)] = v
	// That a majority stands is looked at again with each vote: the last one may have taken it away.
	stood := p.standing
	p.standing = p.enough(p.support(p.box, p.ballot, p.round))
	if p.standing && !stood {
		e.wait = p.finalize
	} else if stood && !p.standing {
		e.wait = p.interval
	}
	return e
}

// join takes the word of one who has settled.
func (p *peer) join(v vote) effects {
	at := p.place(v.Self.ID)
	p.outside[at] = v
	if v.Round == p.round {
		p.box[at] = v
		if for_ := p.support(p.box, v.For, v.Round); p.enough(for_) && p.claims(p.box, v) {
			return p.settle(v.For, v.Round, "%v are for it in round %d, and some have settled", p.ids(for_), v.Round)
		}
	}
	if for_ := p.support(p.outside, v.For, v.Round); p.enough(for_) && p.claims(p.outside, v) {
		return p.settle(v.For, v.Round, "%v have settled on it in round %d", p.ids(for_), v.Round)
	}
	return effects{}
}

// support is who votes for b in a round [getVoteTracker].
func (p *peer) support(votes []vote, b ballot, round uint64) (s set) {
	for at, v := range votes {
		if v.State != 0 && v.For == b && v.Round == round {
			s |= 1 << at
		}
	}
	return s
}

// claims tells whether the one of whom v speaks says itself that it leads. Else peers would
// go on electing one that is dead, on the word of each other [checkLeader].
func (p *peer) claims(votes []vote, v vote) bool {
	if v.For.ID == p.id {
		return v.Round == p.round // those of an earlier round are not for me as I am now
	}
	leader := votes[p.place(v.For.ID)]
	return leader.State == leading && leader.Round == v.Round
}

// settle ends the election. A peer settles by votes at most once in each round: so two
// majorities of one round have nobody in common who could make two leaders. For this the
// round never falls, and the next life starts above it. In ZooKeeper it is not stored, and
// falls to that of the leader whom a late server joins. There Zab's epoch, which is
// stored, keeps two leaders from acting.
func (p *peer) settle(on ballot, term uint64, why string, args ...any) effects {
	if p.round = max(p.round, term); p.clockBack {
		p.round = term
	}
	if p.voter() {
		p.saved = p.round
	}
	return p.member.settle(on, term, why, args...)
}

func (p *peer) timeout() effects {
	switch {
	case p.state != looking:
		e, ok := p.pulse()
		if !ok {
			return p.look("a new election")
		}
		return e
	case p.standing:
		return p.settle(p.ballot, p.round, "votes of %v in round %d", p.ids(p.support(p.box, p.ballot, p.round)), p.round)
	}
	p.interval = min(2*p.interval, p.notifyMost)
	return effects{p.toAll(p.greeting()), p.interval}
}

func (p *peer) durable() uint64 { return p.saved }

func (p *peer) clone() machine {
	c := *p
	c.box, c.outside = slices.Clone(p.box), slices.Clone(p.outside)
	return &c
}

func (p *peer) hash(h *maphash.Hash) {
	p.member.hash(h)
	maphash.WriteComparable(h, [2]uint64{p.round, p.saved})
	if p.state != looking {
		return // the tables are cleared before they are used again
	}
	maphash.WriteComparable(h, p.standing)
	maphash.WriteComparable(h, p.ballot)
	for at := range p.box {
		maphash.WriteComparable(h, p.box[at])
		maphash.WriteComparable(h, p.outside[at])
	}
}
