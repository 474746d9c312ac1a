package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// state is what a peer does, in ZooKeeper's words.
type state string

const (
	looking   state = "LOOKING"
	following state = "FOLLOWING"
	leading   state = "LEADING"
	observing state = "OBSERVING" // follows, and never votes
)

// ballot names the peer that a vote is for.
type ballot struct {
	ID   int    `json:"id"`
	Zxid uint64 `json:"zxid"` // how far its log goes; the upper 32 bits are the epoch
}

func (b ballot) String() string { return fmt.Sprintf("%d (zxid %d)", b.ID, b.Zxid) }

// vote is the only message between peers.
type vote struct {
	Round uint64 `json:"logic_clock"` // of a settled peer: the round in which it settled
	State state  `json:"state"`
	Self  ballot `json:"self"` // who says it
	For   ballot `json:"vote"` // its choice; ID 0 from an observer, which has none
}

func (v vote) settled() bool { return v.State == following || v.State == leading }

// effects are what a peer wants done after a step.
type effects struct {
	to    []int // send its word to these
	timer bool  // call timeout after a beat, and forget the running timer
}

// beat is the only interval. Looking or settled, a peer repeats its vote at this interval. A majority must
// last for one beat before it counts [finalizeWait].
const beat = 200 * time.Millisecond

// config is known to all peers.
type config struct {
	voters, observers []int
	patience          int // after so many silent beats a peer looks for a leader
	// The rules are fields because the tests break them, to check that this is found.
	better func(a, b ballot) bool
	quorum func(votes, voters int) bool
	say    func(id int, line string)
}

var usual = config{
	patience: 4,
	better:   func(a, b ballot) bool { return a.Zxid > b.Zxid || a.Zxid == b.Zxid && a.ID > b.ID }, // [totalOrderPredicate]
	quorum:   func(votes, voters int) bool { return votes > voters/2 },                             // [QuorumMaj]
}

// place returns the index of a voter, and -1 for others.
func (c *config) place(id int) int { return slices.Index(c.voters, id) }

func (c *config) enough(ids []int) bool { return c.quorum(len(ids), len(c.voters)) }

// peer elects as ZooKeeper's servers do. It has no goroutine, clock or socket: it takes votes and timeouts,
// and returns what to send.
//
//  1. Begin a round, one after the last. Vote for yourself, and tell all.
//  2. A vote of a later round: take that round over, and begin it with the better of your
//     own ballot and this one. Of an earlier round: send yours back, and forget it.
//  3. Of this round: a ballot with the higher zxid, then with the higher id, becomes yours.
//  4. Whenever your vote has changed, tell all. The last vote of each voter counts.
//  5. A majority votes as you do, for 200 ms without a better vote: lead, or follow.
//  6. If you come late, the settled peers tell you. If a majority is for one leader, and that
//     leader says so too, follow it.
//
// Source: lookForLeader in FastLeaderElection.java of Apache ZooKeeper; the names in brackets are its own.
// ZooKeeper differs: there the epoch is a field of its own, compared first. A vote that is not better is
// dropped during the 200 ms. A looking peer repeats its vote less and less often. And the round can fall: see
// settle.
//
// In ZooKeeper an elected leader does nothing before a majority has agreed on its epoch (Zab). Here a leader
// only counts its followers. A peer is a plain value, so that the tests can copy and compare it.
type peer struct {
	*config
	self     ballot
	round    uint64 // [logicalclock]
	state    state
	choice   ballot  // my vote [proposedLeader, proposedZxid], and later my leader
	term     uint64  // the round in which I settled on it; while I look, this round
	received [7]vote // [recvset, outofelection] by voter; of a settled peer: who has agreed since the last beat
	standing bool    // a majority is for my choice, and the 200 ms run
	backed   bool    // I lead, and a majority has said that it follows
	quiet    int     // beats in a row without the leader, or without a majority
}

func (p *peer) voter() bool { return p.place(p.self.ID) >= 0 }

func (p *peer) tell(format string, args ...any) { p.say(p.self.ID, fmt.Sprintf(format, args...)) }

func (p *peer) start() effects { return p.look("it has started") }

// look begins a round.
func (p *peer) look(why string) effects {
	*p = peer{config: p.config, self: p.self, round: p.round + 1, term: p.round + 1, state: looking}
	if !p.voter() {
		return p.propose(ballot{}, why) // an observer asks
	}
	return p.propose(p.self, why)
}

// propose votes, and tells all.
func (p *peer) propose(b ballot, why string) effects {
	p.choice, p.standing = b, false
	if p.voter() {
		p.received[p.place(p.self.ID)] = p.word()
		p.tell("round %d: votes for %v: %s", p.round, b, why)
	}
	return effects{p.others(), true}
}

// word returns the peer's message.
func (p *peer) word() vote { return vote{p.term, p.state, p.self, p.choice} }

func (p *peer) others() []int {
	return slices.DeleteFunc(slices.Clone(p.voters), func(id int) bool { return id == p.self.ID })
}

func (p *peer) receive(v vote) effects {
	switch {
	case p.voter() && slices.Contains(p.observers, v.Self.ID):
		return effects{to: []int{v.Self.ID}} // an observer asks, and does not count
	case !p.valid(v):
	case p.state == looking && (p.voter() || v.settled()):
		return p.count(v)
	case v.Self.ID == p.choice.ID && v.Round > p.term:
		return p.look("the leader is in a later round, and leads no more")
	case v.State == looking && p.voter():
		return effects{to: []int{v.Self.ID}} // this tells it that there is a leader
	case v.settled() && v.For == p.choice && v.Round == p.term:
		p.received[p.place(v.Self.ID)] = v
		if by := p.supporters(p.choice, p.term); p.state == leading && !p.backed && p.enough(by) {
			p.backed = true
			p.tell("is followed by a majority: %v of %d", by, len(p.voters))
		}
	}
	return effects{}
}

// valid reports whether v is the vote of another voter for a voter. Anybody can send anything.
func (p *peer) valid(v vote) bool {
	return (v.State == looking || v.settled()) && v.Self.ID != p.self.ID &&
		p.place(v.Self.ID) >= 0 && p.place(v.For.ID) >= 0 &&
		v.Round < math.MaxInt64 // the round after it must not be 0
}

// count handles the vote of a peer that looks, too, and the word of a settled one.
func (p *peer) count(v vote) (e effects) {
	switch {
	case v.settled():
	case v.Round < p.term:
		return effects{to: []int{v.Self.ID}}
	case v.Round > p.term:
		best := p.self
		if p.better(v.For, best) {
			best = v.For
		}
		p.round, p.term = v.Round, v.Round
		e = p.propose(best, fmt.Sprintf("%d is in this later round", v.Self.ID))
	case p.better(v.For, p.choice):
		e = p.propose(v.For, fmt.Sprintf("%d votes so, and it is better than %v", v.Self.ID, p.choice))
	}
	p.received[p.place(v.Self.ID)] = v
	if by := p.supporters(v.For, v.Round); v.settled() && p.enough(by) && p.claims(v) {
		return p.settle(v.For, v.Round, by)
	}
	// Each vote is a reason to count again: it may have ended the majority.
	stood := p.standing
	p.standing = p.enough(p.supporters(p.choice, p.term))
	e.timer = e.timer || p.standing && !stood
	return e
}

// claims reports whether the leader that v names says itself that it leads. Without this, peers would keep
// electing a dead one, on each other's word [checkLeader].
func (p *peer) claims(v vote) bool {
	if v.For.ID == p.self.ID {
		return v.Round == p.term // a vote of an earlier round is not for me in this one
	}
	leader := p.received[p.place(v.For.ID)]
	return leader.State == leading && leader.Round == v.Round
}

// supporters returns who votes for b in a round, as far as p knows [getVoteTracker].
func (p *peer) supporters(b ballot, round uint64) (ids []int) {
	for _, v := range p.received {
		if v.For == b && v.Round == round {
			ids = append(ids, v.Self.ID)
		}
	}
	return ids
}

// settle ends the election. A peer settles by votes at most once in each round. So two majorities of one
// round have a peer in common, and cannot follow two leaders. For this the round must never fall. In
// ZooKeeper it does, to the round of the leader that a late server joins; and there, as here, it is lost when
// the process dies. There, Zab's epoch, on disk, keeps a second leader from acting.
func (p *peer) settle(on ballot, term uint64, by []int) effects {
	*p = peer{config: p.config, self: p.self, round: max(p.round, term), state: following, choice: on, term: term}
	if on.ID == p.self.ID {
		p.state = leading
	} else if !p.voter() {
		p.state = observing
	}
	p.tell("is %s: %v has the votes of %v in round %d", p.state, on, by, term)
	return p.remind()
}

// remind says that the peer has settled, and begins to listen whether others still agree.
func (p *peer) remind() effects {
	clear(p.received[:])
	if p.voter() {
		p.received[p.place(p.self.ID)] = p.word()
	}
	if p.state == leading {
		return effects{p.others(), true}
	}
	return effects{[]int{p.choice.ID}, true} // an observer's word is a question
}

// timeout is called after a beat.
func (p *peer) timeout() effects {
	by := p.supporters(p.choice, p.term)
	switch {
	case p.standing:
		return p.settle(p.choice, p.term, by)
	case p.state == looking:
		return effects{p.others(), true}
	case p.state == leading && p.enough(by), p.state != leading && slices.Contains(by, p.choice.ID):
		p.quiet = 0
	default:
		p.quiet++
	}
	if p.quiet < p.patience {
		return p.remind()
	}
	silence := time.Duration(p.quiet) * beat
	if p.state == leading {
		return p.look(fmt.Sprintf("no majority has followed it for %v", silence))
	}
	return p.look(fmt.Sprintf("it has heard nothing of %d for %v", p.choice.ID, silence))
}
