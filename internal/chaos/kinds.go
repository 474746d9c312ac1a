package main

import (
	"math/rand/v2"
	"slices"
	"time"
)

// A kind is one kind of fault.
type kind struct {
	name    string
	group   string // what has the fault
	leaves  bool   // needs servers that can leave the others: see service.leave
	forgets bool   // needs servers that keep little of their log: see service.fill
	servers int    // minimum number of servers; 0 for one
	stepped bool   // needs candidates built for it

	// lo and hi are the limits of its duration, in session timeouts.
	lo, hi float64

	// ways are the ways to do it.
	ways []string

	effect effect // on who can lead

	begin beginner
}

// A beginner starts a fault; undo ends it. met names what the fault meets, for the history.
type beginner func(c *campaign, s step) (met string, undo func() error, err error)

// An effect is what a fault can do to the time without a leader: see bound.
type effect int

const (
	none   effect = iota + 1
	silent        // a candidate, or all that depend on one server, may be silent from its beginning
	slow          // a candidate may be slow until its end
	away          // the service may be away until its end
)

// outage is a kind that nobody injects: the service does not answer. It follows from a fault of a server,
// or from a machine that is too busy.
var outage = &kind{name: "outage", group: ofServers, effect: away}

// kinds returns all kinds that can be injected.
func kinds() []*kind {
	return []*kind{
		{name: "SIGKILL", group: ofCandidates, effect: silent, lo: 0.1, hi: 1.5, begin: onCandidate(beginKill)},
		{name: "SIGSTOP < window", group: ofCandidates, effect: silent, lo: 0.1, hi: 0.6, begin: onCandidate(beginStop)},
		{name: "SIGSTOP > window", group: ofCandidates, effect: silent, lo: 1.4, hi: 2.2, begin: onCandidate(beginStop)},
		{name: "cut", group: ofCandidates, effect: silent, lo: 0.1, hi: 2, ways: []string{"once", "and refused"}, begin: onLinks(cutLinks)},
		{name: "half-open", group: ofCandidates, effect: silent, lo: 0.5, hi: 2, ways: []string{"then delivered", "then cut"}, begin: onLinks(halfOpen)},
		{name: "slow link", group: ofCandidates, effect: slow, lo: 1, hi: 2, begin: onLinks(slowLinks)},
		{name: "reply lost", group: ofCandidates, effect: silent, lo: 0.05, hi: 0.15, begin: onLinks(loseReplies)},
		{name: "clock stepped", group: ofCandidates, stepped: true, effect: none, lo: 0.5, hi: 1.5, ways: []string{"forward", "back"}, begin: onCandidate(beginClock)},
		{name: "companion killed", group: ofCompanions, effect: silent, lo: 0.02, hi: 0.5, ways: []string{"alone", "before its process", "with its process", "after its process"}, begin: onCandidate(beginCompanionKilled)},
		{name: "companion frozen", group: ofCompanions, effect: silent, lo: 0.1, hi: 2.2, ways: []string{"alone", "with its process", "and its process killed"}, begin: onCandidate(beginCompanionFrozen)},
		{name: "server restart", group: ofServers, effect: silent, lo: 0.05, hi: 1, ways: []string{"killed", "stopped"}, begin: beginRestart},
		{name: "server leaves", group: ofServers, leaves: true, servers: 3, effect: away, lo: 0.2, hi: 1, begin: beginLeave},
		{name: "rolling restart", group: ofServers, servers: 3, effect: away, lo: 0.2, hi: 0.5, ways: []string{"killed", "stopped"}, begin: beginRolling},
		{name: "quorum lost", group: ofServers, effect: away, lo: 0.5, hi: 1.5, ways: []string{"killed", "frozen"}, begin: beginQuorum},
		{name: "follower lagging", group: ofServers, servers: 3, effect: slow, lo: 1, hi: 2, begin: beginLagging},
		{name: "server wiped", group: ofServers, servers: 3, effect: silent, lo: 0.2, hi: 1, begin: beginWipe},
		{name: "members cut off", group: ofMembers, servers: 3, effect: away, lo: 1.5, hi: 4, ways: []string{"in silence", "the others reset"}, begin: beginCutOff},
		{name: "members cut one way", group: ofMembers, servers: 3, effect: away, lo: 1.5, hi: 4, ways: []string{"unheard", "unheard and reset", "deaf", "deaf and reset"}, begin: beginOneWay},
		{name: "leader frozen", group: ofMembers, servers: 3, effect: away, lo: 1.5, hi: 4, ways: []string{"alone", "and cut off for longer"}, begin: beginFrozen},
		{name: "back by snapshot", group: ofMembers, forgets: true, servers: 3, effect: away, lo: 0.2, hi: 1, ways: []string{"killed", "cut off"}, begin: beginSnapshot},
		{name: "old leader beside a snapshot", group: ofMembers, forgets: true, servers: 5, effect: away, lo: 1, hi: 2, begin: beginBeside},
	}
}

// Groups of kinds, by what has the fault.
const (
	ofCandidates = "candidate"
	ofServers    = "server"
	ofMembers    = "member" // between servers: needs a network for them
	// ofCompanions are faults of what ends the sessions of candidates that die: companions for half of the
	// candidates, and the agent for the other half.
	ofCompanions = "companion"
)

// onServer reports whether the fault meets the service.
func (k *kind) onServer() bool { return k.group == ofServers || k.group == ofMembers }

// kindsFor returns the kinds of some groups that are possible with this number of servers, and with
// candidates whose clock can be stepped or not.
func kindsFor(groups []string, servers int, stepped bool) []*kind {
	return slices.DeleteFunc(kinds(), func(k *kind) bool {
		return !slices.Contains(groups, k.group) || k.servers > servers || k.stepped && !stepped
	})
}

func (k *kind) least(timeout time.Duration) time.Duration { return scale(timeout, k.lo) }
func (k *kind) most(timeout time.Duration) time.Duration  { return scale(timeout, k.hi) }

func scale(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

// way returns in which way to do a fault.
func (k *kind) way(s step) string { return k.ways[s.Way%len(k.ways)] }

// random returns the source for random choices during a fault.
func (s step) random() *rand.Rand { return rand.New(rand.NewPCG(uint64(s.Way), 2)) }
