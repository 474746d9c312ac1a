// Package entries has what the strategies that keep this library's layout share: the payload of candidates'
// entries, the claim of a candidate that leads by such an entry, and what outsiders read. It is for authors
// of strategies; docs/internals/write-a-strategy.md is the tutorial.
//
// There are two ways to stand. With Queue and QueueUp, each candidate enqueues an entry of its own, and the
// oldest leads: see strategy/fair. With Seat, there is one entry, under SeatKey, and the candidate that
// creates it leads: see strategy/unfair. A strategy embeds one of these types, which gives it the methods
// Observe and Candidates.
//
// A strategy may do both, as strategy/ranked does: its candidates wait with an enqueued entry each, and replace
// it by the seat in one step. It embeds Seat, and writes Candidates itself, to list those that wait, too.
//
// A strategy that stands in yet another way writes these two methods itself, and lists in
// conformance.ElectionConfig.Entries what its candidates keep.
package entries

import (
	"context"
	"errors"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
	"github.com/elector-go/elector/strategy"
)

// Payload returns the payload of the candidate's entry: its ID and value. leads sets the leader's mark, which
// tells others that this candidate has been elected: see Marked.
func Payload(c *strategy.Candidacy, leads bool) []byte {
	return layout.Candidate{ID: c.ID, Value: c.Value, Leads: leads}.Encode()
}

// Marked reports whether an entry bears the leader's mark. A leader's entry may lack it: the mark is written
// when the term has begun, if at all (strategy.Claim.MarkLeader).
func Marked(e backend.Entry) bool { return layout.DecodeCandidate(e.Value).Leads }

// Heir returns the entry that the leader has named in its own, seat, to lead next: see elector.Term.Transfer
// and strategy.Handover.Name. It has only Key and Rev, and may be gone. It is the zero Entry if the leader has
// named none in the directory. id is the heir's ID, for people.
func Heir(seat backend.Entry) (heir backend.Entry, id string) {
	h, named := layout.Named(seat.Value)
	if !named || backend.Parent(h.Key) != backend.Parent(seat.Key) || backend.CheckKey(h.Key) != nil { // somebody else's
		return backend.Entry{}, ""
	}
	return backend.Entry{Key: h.Key, Rev: h.Rev}, h.ID
}

// Claim returns the claim of a candidate that leads for as long as its entry, the seat, exists. The token is
// the revision at which the service created the seat. It rises from term to term only if each term's seat is
// created after the seat of the term before, as with the oldest of enqueued entries, and with one key for
// all.
//
// Set MarkLeader in the result if others learn from the mark.
//
//go:noinline // it is no part of the stack of who waits
func Claim(c *strategy.Candidacy, seat backend.Entry) strategy.Claim {
	return strategy.Claim{
		Entry:      seat,
		Token:      seat.Rev,
		Conditions: []backend.Condition{backend.IfExists(seat)},
		Encode: func(value []byte) []byte {
			return layout.Candidate{ID: c.ID, Value: value, Leads: true}.Encode()
		},
	}
}

// Get reads an entry. If it does not exist, Rev is 0.
func Get(ctx context.Context, s *backend.Session, key string) (backend.Entry, error) {
	e, err := s.Get(ctx, key)
	if errors.Is(err, backend.ErrNoEntry) {
		return backend.Entry{Key: key}, nil
	}
	return e, err
}

// Leader reads the leader from its entry. It returns the zero Leader if the entry does not exist or no
// session holds it: no candidate has made it then. If it cannot read the payload, it sets only the token and
// the seat.
func Leader(e backend.Entry) strategy.Leader {
	if e.Session == "" {
		return strategy.Leader{}
	}
	c := layout.DecodeCandidate(e.Value)
	return strategy.Leader{ID: c.ID, Value: c.Value, Token: e.Rev, Seat: e}
}

// Candidate reads a candidate from its entry, which a session holds. leads is whether it is entitled to lead:
// the caller must know, as the mark does not tell.
func Candidate(e backend.Entry, leads bool) strategy.Candidate {
	c := layout.DecodeCandidate(e.Value)
	return strategy.Candidate{ID: c.ID, Value: c.Value, Leads: leads, Entry: e}
}
