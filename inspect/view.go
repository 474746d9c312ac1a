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
	// Strategy is the name in the election's record, or of the strategy whose layout
	// is found there; "" if nobody has founded an election.
	Strategy string `json:"strategy"`
	// Unknown says that the strategy is not known here (ErrUnknownStrategy). Leader is then whoever
	// says so in its entry: that there is none may only mean that nothing tells.
	Unknown bool `json:"unknown,omitempty"`
	// Leader is who leads; nil: nobody.
	Leader *Leader `json:"leader"`
	// Candidates are those who stand, in order of succession where the strategy has one. Leader and
	// Watch have them only where they are asked for, and List not at all.
	Candidates []Candidate `json:"candidates,omitempty"`
	// Count is how many stand, as far as the strategy tells; 0 where nobody has counted.
	Count int `json:"count"`
	// Hidden says that those who wait leave no trace in the service (unfair, kafka): Candidates and
	// Count are the leader alone.
	Hidden bool `json:"hidden,omitempty"`
	// Designated is whom an operator wants to lead, or nil.
	Designated *elector.Designation `json:"designated,omitempty"`
	// At is when it was asked for, by the clock of this process: it was so then, or later. In a watch it
	// is when the last change was noticed: while there is no Trouble, nothing newer is known.
	At time.Time `json:"at"`
	// Trouble says why the rest may be so no longer, or is not all there is; nil: all is well.
	Trouble *Trouble `json:"trouble,omitempty"`
}

// Trouble is what keeps a View from being up to date, or complete.
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
	// Since is when it was elected, by its own clock; zero where the strategy does not record it,
	// as none but kafka does.
	Since time.Time `json:"since,omitzero"`
	// Session is the one that its entry dies with, as the service names it, and Key that entry's.
	Session string `json:"session"`
	Key     string `json:"key"`
	// Asked is the request of this term that the leader should go, if there is one. It stands in the
	// leader's entry until the leader writes there again: then the leader has heard it.
	Asked *elector.Request `json:"asked,omitempty"`
}

// A Candidate is one who stands in an election.
type Candidate struct {
	ID    string `json:"id"`
	Value []byte `json:"value,omitempty"`
	Leads bool   `json:"leads"`
	// Rank is what a strategy compares that ranks its candidates, else nil.
	Rank       []int64 `json:"rank,omitempty"`
	Designated bool    `json:"designated,omitempty"`
	// Since is that of the Leader, for the one who leads.
	Since time.Time `json:"since,omitzero"`
	// Session is the one that its entry dies with. Key and Rev, the revision at which the entry was
	// made, tell it from another candidate with the same ID.
	Session string `json:"session"`
	Key     string `json:"key"`
	Rev     uint64 `json:"rev"`
}

// leaderOf is nil if nobody leads.
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

// seated is a view with this leader, by its entry.
func (v View) seated(l elector.Leader) View {
	v.Leader = leaderOf(l)
	return v.standing(v.Candidates, l)
}

// standing is a view with these candidates, of whom this one leads.
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

// candidatesOf takes over what a strategy has listed.
func candidatesOf(listed []elector.Candidate) (all []Candidate) {
	for _, c := range listed {
		all = append(all, Candidate{
			ID: c.ID, Value: slices.Clone(c.Value), Leads: c.Leads, Rank: slices.Clone(c.Rank), Designated: c.Designated,
			Session: c.Entry.Session, Key: c.Entry.Key, Rev: c.Entry.Rev,
		})
	}
	return all
}
