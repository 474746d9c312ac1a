package inspect

import (
	"slices"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/internal/layout"
)

// A View is what was seen of an election. It encodes to JSON, with values in base64.
type View struct {
	Election string `json:"election"`
	// Strategy is the name in the election's record, or the name of the strategy whose layout was found;
	// "" if nobody has founded an election.
	Strategy string `json:"strategy"`
	// Unknown reports that the strategy is not known here (ErrUnknownStrategy). Then Leader is the
	// candidate whose own entry says that it leads; if it is nil, there may still be a leader.
	Unknown bool `json:"unknown,omitempty"`
	// Leader is who leads, or nil.
	Leader *Leader `json:"leader"`
	// Candidates are those who stand, in order of succession if the strategy has one. Leader and List omit
	// them, and Watch omits them unless asked for them.
	Candidates []Candidate `json:"candidates,omitempty"`
	// Count is how many stand, as far as the strategy shows it; 0 if they were not counted.
	Count int `json:"count"`
	// Hidden reports that waiting candidates leave no trace in the service (unfair, kafka): then
	// Candidates and Count include only the leader.
	Hidden bool `json:"hidden,omitempty"`
	// Designated is the candidate that an operator wants to lead, or nil.
	Designated *Designation `json:"designated,omitempty"`
	// At is when the request was made, by this process's clock: the View was true then or later. In a
	// watch it is when the last change was noticed: while there is no Trouble, nothing newer is known.
	At time.Time `json:"at"`
	// Trouble says why the rest may be outdated or incomplete; nil if all is well.
	Trouble *Trouble `json:"trouble,omitempty"`
}

// Trouble is what keeps a View from being current or complete.
type Trouble struct {
	Since time.Time `json:"since"`
	Why   string    `json:"why"`
}

// A Leader is who leads an election.
type Leader struct {
	ID    string `json:"id"`
	Value []byte `json:"value,omitempty"`
	// Token is the term's fencing token.
	Token uint64 `json:"token"`
	// Since is when it was elected, by its own clock; zero if the strategy does not record it. Only kafka
	// does.
	Since time.Time `json:"since,omitzero"`
	// Session is the service's name for the session of the leader's entry, and Key is the entry's key.
	Session string `json:"session"`
	Key     string `json:"key"`
	// Asked is the request of this term for the leader to go, if there is one. It stays in the leader's
	// entry until the leader writes there again: by then the leader has heard it.
	Asked *elector.Request `json:"asked,omitempty"`
}

// A Candidate is a candidate that stands in an election.
type Candidate struct {
	ID    string `json:"id"`
	Value []byte `json:"value,omitempty"`
	Leads bool   `json:"leads"`
	// Rank is what a ranking strategy compares; otherwise nil.
	Rank       []int64 `json:"rank,omitempty"`
	Designated bool    `json:"designated,omitempty"`
	// Since is Leader.Since, for the candidate that leads.
	Since time.Time `json:"since,omitzero"`
	// Session is the session of its entry. Key and Rev, the revision at which the entry was made,
	// distinguish it from another candidate with the same ID.
	Session string `json:"session"`
	Key     string `json:"key"`
	Rev     uint64 `json:"rev"`
}

// leaderOf returns nil if nobody leads.
func leaderOf(l elector.Leader) *Leader {
	if l.Vacant() {
		return nil
	}
	leader := &Leader{ID: l.ID, Value: slices.Clone(l.Value), Token: l.Token, Since: l.Since, Session: l.Seat.Session, Key: l.Seat.Key}
	if r, asked := layout.Asked(l.Seat.Value); asked {
		leader.Asked = (*elector.Request)(&r)
	}
	return leader
}

// seated returns a view with this leader, matched by its entry.
func (v View) seated(l elector.Leader) View {
	v.Leader = leaderOf(l)
	return v.standing(v.Candidates, l)
}

// standing returns a view with these candidates, of which l leads.
func (v View) standing(all []Candidate, l elector.Leader) View {
	v.Candidates = slices.Clone(all)
	for n := range v.Candidates {
		c := &v.Candidates[n]
		if c.Leads = leads(l, c.Key, c.Rev); c.Leads {
			c.Since = l.Since
		}
	}
	return v
}

func leads(l elector.Leader, key string, rev uint64) bool {
	return !l.Vacant() && l.Seat.Key == key && l.Seat.Rev == rev
}

// candidatesOf converts the list of a strategy.
func candidatesOf(listed []elector.Candidate) (all []Candidate) {
	for _, c := range listed {
		all = append(all, Candidate{
			ID: c.ID, Value: slices.Clone(c.Value), Leads: c.Leads, Rank: slices.Clone(c.Rank), Designated: c.Designated,
			Session: c.Entry.Session, Key: c.Entry.Key, Rev: c.Entry.Rev,
		})
	}
	return all
}
