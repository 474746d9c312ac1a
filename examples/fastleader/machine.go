package main

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
	"time"
)

// state is what a peer is at. The names are ZooKeeper's.
type state int

const (
	looking state = 1 + iota
	following
	leading
	observing // follows, and never votes
)

var stateNames = []string{looking: "LOOKING", following: "FOLLOWING", leading: "LEADING", observing: "OBSERVING"}

func (s state) String() string {
	if s < looking || s > observing {
		return fmt.Sprintf("state(%d)", int(s))
	}
	return stateNames[s]
}

// ballot is for whom a vote is.
type ballot struct {
	ID   int
	Zxid uint64 // how far its log goes; the upper 32 bits are the epoch, as in ZooKeeper
}

// vote is all that peers say to each other.
type vote struct {
	Round uint64 // logicClock; of a settled peer, the round in which it has settled
	State state
	Self  ballot // who says it
	For   ballot // whom it votes for or has settled on; nobody, with ID 0, if it is an observer
}

func (v vote) settled() bool { return v.State == following || v.State == leading }

// message is a vote on its way.
type message struct {
	To   int
	Vote vote
}

// effects are what a machine wants to be done after a step, in this order.
type effects struct {
	send []message
	wait time.Duration // call timeout when this has passed, and not what was asked for before; 0: leave it
}

// status is what a peer knows of itself.
type status struct {
	State  state
	Leader int    // 0 if it is looking
	Round  uint64 // in which it has settled; 0 with Zen, which has none
	Backed bool   // it leads, and a majority, itself included, has said that it follows
}

// machine is a peer without its surroundings: no goroutine, no clock, no socket, no lots.
// The simulator, the search and the program over TCP all run the same one.
type machine interface {
	start() effects
	receive(vote) effects
	timeout() effects
	greeting() vote  // what a peer hears first when a connection to it stands
	durable() uint64 // must be on disk before anything is sent: the next life starts with it
	status() status
	clone() machine
	hash(*maphash.Hash)
}

// config is what a peer is told. It does not change.
type config struct {
	id        int
	zxid      uint64
	voters    []int  // at most 64
	observers []int  // told by the leader, and by nobody asked
	durable   uint64 // what the machine of the last life said, or 0
	timing
	rules
	say func(format string, args ...any) // may be nil
}

// timing is ZooKeeper's in the first three; it has its beats from elsewhere (tickTime).
type timing struct {
	finalize           time.Duration // a majority stands for so long before it counts
	notify, notifyMost time.Duration // a peer that is looking says its vote again, ever more seldom
	beat               time.Duration // those who have settled say so
	patience           int           // so many beats of silence: look for a leader
}

var usual = timing{
	finalize: 200 * time.Millisecond, notify: 200 * time.Millisecond, notifyMost: time.Minute,
	beat: 200 * time.Millisecond, patience: 4,
}

// rules are those of the election. The tests break them, one at a time, to see the search find it.
type rules struct {
	better    func(a, b ballot) bool
	quorum    func(votes, of int) bool
	clockBack bool // as in ZooKeeper: see peer.settle
}

// right is what FastLeaderElection.java has in totalOrderPredicate and QuorumMaj.
var right = rules{
	better: func(a, b ballot) bool { return a.Zxid > b.Zxid || a.Zxid == b.Zxid && a.ID > b.ID },
	quorum: majority,
}

func majority(votes, of int) bool { return votes > of/2 }

// set is a set of voters, by their place in config.voters.
type set uint64

// member is what all peers have in common, whatever they elect by: whom they have settled
// on, and whether it is still there.
type member struct {
	*config
	state   state
	leader  ballot
	term    uint64 // the round in which it has settled
	heard   set    // since the last beat: those who follow me, or the one whom I follow
	backers set    // those who have ever said that they follow me, in this term
	quiet   int    // beats without the leader, or without a majority
}

// place is where a voter stands; -1 for others.
func (c *config) place(id int) int { return slices.Index(c.voters, id) }

func (c *config) voter() bool { return c.place(c.id) >= 0 }

func (c *config) self() ballot { return ballot{c.id, c.zxid} }

func (c *config) tell(format string, args ...any) {
	if c.say != nil {
		c.say(format, args...)
	}
}

// only is the set of one voter; empty for others.
func (c *config) only(id int) set {
	if at := c.place(id); at >= 0 {
		return 1 << at
	}
	return 0
}

// ids are the members of a set.
func (c *config) ids(s set) (ids []int) {
	for at, id := range c.voters {
		if s&(1<<at) != 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

func (c *config) enough(s set) bool { return c.quorum(bits.OnesCount64(uint64(s)), len(c.voters)) }

// toAll is a vote on its way to each voter but this one, and from a leader to the observers too.
func (c *config) toAll(v vote) (all []message) {
	to := c.voters
	if v.State == leading {
		to = slices.Concat(c.voters, c.observers)
	}
	for _, id := range to {
		if id != c.id {
			all = append(all, message{id, v})
		}
	}
	return all
}

// sane tells whether a vote is from another voter, for a voter.
func (c *config) sane(v vote) bool {
	return v.Self.ID != c.id && c.place(v.Self.ID) >= 0 && c.place(v.For.ID) >= 0
}

// settle ends an election.
func (m *member) settle(on ballot, term uint64, why string, args ...any) effects {
	m.leader, m.term = on, term
	m.heard, m.backers, m.quiet = 0, m.only(m.id), 0
	why = fmt.Sprintf(why, args...)
	switch {
	case on.ID == m.id:
		m.state = leading
		m.tell("LEADS: %s", why)
		return effects{m.toAll(m.word()), m.beat}
	case !m.voter():
		m.state = observing
		m.tell("OBSERVES %d: %s", on.ID, why)
		return effects{wait: m.beat}
	default:
		m.state = following
		m.tell("FOLLOWS %d: %s", on.ID, why)
		return effects{[]message{{on.ID, m.word()}}, m.beat}
	}
}

// word is what a settled peer says.
func (m *member) word() vote {
	return vote{Round: m.term, State: m.state, Self: m.self(), For: m.leader}
}

// hear takes what is said to a settled peer. It returns false if the leader leads no more.
func (m *member) hear(v vote) (effects, bool) {
	from := m.only(v.Self.ID)
	switch {
	case v.Self.ID == m.leader.ID && v.Round > m.term:
		return effects{}, false
	case v.State == looking && m.state != observing:
		return effects{send: []message{{v.Self.ID, m.word()}}}, true // it hears from one who has settled
	case v.Self.ID == m.leader.ID && v.State == leading && v.Round == m.term:
		m.heard |= from
	case m.state == leading && v.State == following && v.For.ID == m.id && v.Round == m.term:
		before := m.enough(m.backers)
		m.heard |= from
		m.backers |= from
		if !before && m.enough(m.backers) {
			m.tell("is followed by a majority: %v of %d", m.ids(m.backers), len(m.voters))
		}
	}
	return effects{}, true
}

// pulse is the timeout of a settled peer. It returns false if it has been alone for too long.
func (m *member) pulse() (effects, bool) {
	alive := m.heard != 0
	if m.state == leading {
		alive = m.enough(m.heard | m.only(m.id))
	}
	m.heard = 0
	if m.quiet++; alive {
		m.quiet = 0
	}
	if m.quiet >= m.patience {
		if m.state == leading {
			m.tell("leads no more: no majority has said for %v that it follows", time.Duration(m.quiet)*m.beat)
		} else {
			m.tell("has heard nothing of %d for %v", m.leader.ID, time.Duration(m.quiet)*m.beat)
		}
		return effects{}, false
	}
	switch m.state {
	case leading:
		return effects{m.toAll(m.word()), m.beat}, true
	case following:
		return effects{[]message{{m.leader.ID, m.word()}}, m.beat}, true
	}
	return effects{wait: m.beat}, true
}

func (m *member) status() status {
	if m.state == looking {
		return status{State: looking}
	}
	return status{m.state, m.leader.ID, m.term, m.state == leading && m.enough(m.backers)}
}

// hash takes all that makes a difference to what comes next.
func (m *member) hash(h *maphash.Hash) {
	maphash.WriteComparable(h, m.state)
	if m.state != looking {
		maphash.WriteComparable(h, [5]uint64{uint64(m.leader.ID), m.term, uint64(m.heard), uint64(m.backers), uint64(m.quiet)})
	}
}
