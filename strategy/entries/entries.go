// Package entries is what strategies have in common that keep this library's layout: what
// candidates' entries hold, the claim of one that leads by such an entry, and what outsiders
// read. It is for authors of strategies; docs/internals/write-a-strategy.md leads through it.
//
// There are two ways to stand, and a part for each. With Queue and QueueUp each candidate
// enqueues an entry of its own, and the oldest leads: see strategy/fair. With Seat there is
// one entry, under SeatKey, and whoever has created it leads: see strategy/unfair. Either
// type is embedded in a strategy, which then has the methods Observe and Candidates.
//
// A strategy that stands in another way writes these two methods itself, and lists what its
// candidates keep in conformance.ElectionConfig.Entries.
package entries

import (
	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
)

// Payload is what the entry of the candidate holds: its ID and value. leads sets the leader's
// mark, by which others tell that this entry's candidate has been elected: see Marked.
func Payload(c *elector.Candidacy, leads bool) []byte {
	return layout.Candidate{ID: c.ID, Value: c.Value, Leads: leads}.Encode()
}

// Marked tells whether an entry bears the leader's mark. That of a leader may lack it: it is
// written when the term has begun, if at all (elector.Claim.MarkLeader).
func Marked(e backend.Entry) bool { return layout.DecodeCandidate(e.Value).Leads }

// Heir is the entry that the leader has named to lead next, in its own entry, seat: see
// elector.Term.Transfer and elector.Handover.Name. It has Key and Rev only, and may have gone. It is
// the zero Entry if the leader has named none in the directory. id is the heir's ID, for people.
func Heir(seat backend.Entry) (heir backend.Entry, id string) {
	h, named := layout.Named(seat.Value)
	if !named || backend.Parent(h.Key) != backend.Parent(seat.Key) || backend.CheckKey(h.Key) != nil { // somebody else's
		return backend.Entry{}, ""
	}
	return backend.Entry{Key: h.Key, Rev: h.Rev}, h.ID
}

// Claim is the claim of a candidate that leads for as long as its entry, the seat, exists.
// The token is the revision at which the service has created the seat. It rises from term to
// term only if no seat was created before the one of the term before, as with the oldest of
// enqueued entries, and with one key for all.
//
// Set MarkLeader in what it returns if others learn from the mark.
//
//go:noinline // it is no part of the stack of who waits
func Claim(c *elector.Candidacy, seat backend.Entry) elector.Claim {
	return elector.Claim{
		Entry:      seat,
		Token:      seat.Rev,
		Conditions: []backend.Condition{backend.IfExists(seat)},
		Encode: func(value []byte) []byte {
			return layout.Candidate{ID: c.ID, Value: value, Leads: true}.Encode()
		},
	}
}

// Leader reads the leader from its entry. It is the zero Leader if the entry does not exist,
// or no session holds it: no candidate has made it then. Of a payload that it cannot read it
// tells the token alone.
func Leader(e backend.Entry) elector.Leader {
	if e.Session == "" {
		return elector.Leader{}
	}
	c := layout.DecodeCandidate(e.Value)
	return elector.Leader{ID: c.ID, Value: c.Value, Token: e.Rev, Seat: e}
}

// Candidate reads a candidate from its entry, which a session holds. leads is whether it is
// entitled to lead, as the caller knows: the mark does not tell it.
func Candidate(e backend.Entry, leads bool) elector.Candidate {
	c := layout.DecodeCandidate(e.Value)
	return elector.Candidate{ID: c.ID, Value: c.Value, Leads: leads, Entry: e}
}
