package main

import (
	"math/rand/v2"
	"slices"
	"time"
)

// A kind is one kind of fault.
type kind struct {
	name     string
	onServer bool // it meets the service, else a candidate
	cluster  bool // it takes several servers
	stepped  bool // it takes candidates built for it

	// lo and hi bound how long it lasts, in session timeouts.
	lo, hi float64

	// ways are those in which it can be done.
	ways []string

	// silent: the candidate's session may end meanwhile, and nobody can take the seat
	// before. After other faults of a candidate it is the end of the fault that counts.
	silent bool
	// majority: the service goes on without the server, once the others have noticed.
	majority bool

	// begin makes it so; undo ends it. What it meets is named, for the history.
	begin func(c *campaign, s step) (met string, undo func() error, err error)
}

// kinds returns all.
func kinds() []*kind {
	return []*kind{
		{name: "SIGKILL", silent: true, lo: 0.1, hi: 1.5, begin: beginKill},
		{name: "SIGSTOP < window", silent: true, lo: 0.1, hi: 0.6, begin: beginStop},
		{name: "SIGSTOP > window", silent: true, lo: 1.4, hi: 2.2, begin: beginStop},
		{name: "cut", silent: true, lo: 0.1, hi: 2, ways: []string{"once", "and refused"}, begin: beginCut},
		{name: "half-open", silent: true, lo: 0.5, hi: 2, ways: []string{"then delivered", "then cut"}, begin: beginHalfOpen},
		{name: "slow link", lo: 1, hi: 2, begin: beginSlow},
		{name: "reply lost", silent: true, lo: 0.05, hi: 0.15, begin: beginReplyLost},
		{name: "clock stepped", stepped: true, lo: 0.5, hi: 1.5, ways: []string{"forward", "back"}, begin: beginClock},
		{name: "server restart", onServer: true, majority: true, lo: 0.05, hi: 1, ways: []string{"killed", "stopped"}, begin: beginRestart},
		{name: "rolling restart", onServer: true, cluster: true, lo: 0.2, hi: 0.5, ways: []string{"killed", "stopped"}, begin: beginRolling},
		{name: "quorum lost", onServer: true, lo: 0.5, hi: 1.5, ways: []string{"killed", "frozen"}, begin: beginQuorum},
		{name: "follower lagging", onServer: true, cluster: true, majority: true, lo: 1, hi: 2, begin: beginLagging},
		{name: "server wiped", onServer: true, cluster: true, majority: true, lo: 0.2, hi: 1, begin: beginWipe},
	}
}

// kindsFor returns those there are with one server, or with several; and with candidates
// whose clock can be stepped, or without.
func kindsFor(cluster, stepped bool) []*kind {
	return slices.DeleteFunc(kinds(), func(k *kind) bool { return k.cluster && !cluster || k.stepped && !stepped })
}

func (k *kind) least(timeout time.Duration) time.Duration { return scale(timeout, k.lo) }
func (k *kind) most(timeout time.Duration) time.Duration  { return scale(timeout, k.hi) }

func scale(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

// way returns in which way a fault is to be done.
func (k *kind) way(s step) string { return k.ways[s.Way%len(k.ways)] }

// random is for what a fault draws while it lasts.
func (s step) random() *rand.Rand { return rand.New(rand.NewPCG(uint64(s.Way), 2)) }
