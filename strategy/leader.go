package strategy

import (
	"fmt"
	"time"

	"github.com/elector-go/elector/backend"
)

// A Leader describes who leads an election. The zero Leader means that nobody does.
type Leader struct {
	ID    string
	Value []byte
	// Token is the term's fencing token. It rises from term to term.
	Token uint64
	// Seat is the leader's entry in the service, as it was read.
	Seat backend.Entry
	// Since is when the leader was elected, by its own clock; zero if the
	// strategy does not record it. It is for people: nothing may depend on it.
	Since time.Time
}

// Vacant reports whether nobody leads.
func (l Leader) Vacant() bool { return l.Token == 0 }

// A Candidate describes a candidate that stands in an election.
type Candidate struct {
	ID    string
	Value []byte
	// Leads is set for the candidate that is entitled to lead.
	Leads bool
	// Entry is the candidate's entry in the service, as it was read: Key and Rev distinguish it
	// from another candidate with the same ID.
	Entry backend.Entry
	// Own is set for the candidate of the elector that returned the list: its place there is its place in line.
	// Strategies leave it unset.
	Own bool
	// Rank is what a ranking strategy compares; nil with other strategies.
	Rank []int64
	// NeverLeads is set for a candidate that stands, but does not lead even if it is the only one.
	NeverLeads bool
	// Designated is set for the candidate designated by an operator: see inspect.Inspector.Designate.
	Designated bool
}

// A Stage is a state of the ZooKeeper leader election recipe. The strategy reports Offer, Determine and Ready
// (Candidacy.Begin), and the elector the others.
// Source: LeaderElectionSupport in Apache ZooKeeper's recipes.
type Stage int

const (
	StageStart     Stage = iota + 1 // open a session, find or found the election
	StageOffer                      // enter the election
	StageDetermine                  // find out which candidates come before this one
	StageReady                      // wait for the predecessor, or for the seat
	StageElected                    // begin the term
	StageFailed                     // an attempt has failed; it begins and completes at once
	StageStop                       // resign or withdraw
)

var stageNames = [...]string{
	StageStart: "start", StageOffer: "offer", StageDetermine: "determine", StageReady: "ready",
	StageElected: "elected", StageFailed: "failed", StageStop: "stop",
}

// String returns the recipe's name of the stage.
func (s Stage) String() string {
	if s >= StageStart && int(s) < len(stageNames) {
		return stageNames[s]
	}
	return fmt.Sprintf("Stage(%d)", int(s))
}
