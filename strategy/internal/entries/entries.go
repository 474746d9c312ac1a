// Package entries is what the strategies that keep candidates' own entries share:
// their payloads, and what to read from them.
package entries

import (
	"fmt"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
)

// Payload is the payload of the candidate's entry; leads sets the leader's mark.
func Payload(c *elector.Candidacy, leads bool) []byte {
	return layout.Candidate{ID: c.ID, Value: c.Value, Leads: leads}.Encode()
}

// Claim is the claim of a candidate whose own entry is the seat.
func Claim(c *elector.Candidacy, seat backend.Entry, announce bool) elector.Claim {
	return elector.Claim{
		Entry:      seat,
		Token:      seat.Rev,
		Conditions: []backend.Condition{backend.IfExists(seat)},
		MarkLeader: announce,
		Encode: func(value []byte) []byte {
			return layout.Candidate{ID: c.ID, Value: value, Leads: true}.Encode()
		},
	}
}

// ErrPersistent is the error of a candidate that finds somebody's persistent entry on
// the seat.
func ErrPersistent(seat backend.Entry) error {
	return fmt.Errorf("%w: %s is persistent, so no candidate made it and it would never go: delete it", elector.ErrStrategyMismatch, seat.Key)
}

// Leader reads the leader from its entry; the zero Leader from none, and from a
// persistent one, which is no candidate's.
func Leader(e backend.Entry) elector.Leader {
	if e.Session == "" {
		return elector.Leader{}
	}
	c := layout.DecodeCandidate(e.Value)
	return elector.Leader{ID: c.ID, Value: c.Value, Token: e.Rev}
}

// Candidate reads a candidate from its entry.
func Candidate(e backend.Entry, leads bool) elector.Candidate {
	c := layout.DecodeCandidate(e.Value)
	return elector.Candidate{ID: c.ID, Value: c.Value, Leads: leads}
}
