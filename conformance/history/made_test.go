package history

// made is a handmade history. Its methods return what they add, so that tests can change it.
type made struct{ History }

func newMade(until int64) *made {
	return &made{History{Clock: LogicalClock, Until: until}}
}

func (m *made) add(e Event) *Event {
	e.ID = uint64(len(m.Events) + 1)
	if e.Outcome == "" {
		e.Outcome = OK
	}
	m.Events = append(m.Events, e)
	return &m.Events[len(m.Events)-1]
}

// history returns it with its events in order, like one that was read.
func (m *made) history() *History {
	h := m.History
	h.Events = append([]Event(nil), m.Events...)
	byCall(h.Events)
	return &h
}

// wins adds a campaign that was won.
func (m *made) wins(who string, token uint64, call, ret int64) Event {
	return *m.add(Event{Kind: Campaign, Election: "/e", Candidate: who, Token: token, Call: call, Return: ret})
}

// leads adds a term that was valid when it began, is last seen valid at held, and done after that.
func (m *made) leads(who string, token uint64, call, ret, held int64) Event {
	c := m.wins(who, token, call, ret)
	m.of(c, Valid, held, held+1)
	m.of(c, Context, held, held+1)
	m.of(c, Valid, held+2, held+3).Outcome = Refused
	m.of(c, Context, held+2, held+3).Outcome = Refused
	return c
}

// of adds an event of a term.
func (m *made) of(c Event, kind Kind, call, ret int64) *Event {
	return m.add(Event{Kind: kind, Election: c.Election, Candidate: c.Candidate, Term: c.ID, Token: c.Token, Call: call, Return: ret})
}

func (m *made) writes(c Event, op Op, value string, expected, version uint64, call, ret int64) *Event {
	e := m.of(c, Commit, call, ret)
	e.Writes = []Write{{Op: op, Key: "/k", Value: value, Expected: expected, Version: version}}
	return e
}

func (m *made) ledger(at int64, values ...string) {
	m.add(Event{Kind: Ledger, Key: "/k", Values: values, Call: at, Return: at + 1})
}

func (m *made) happens(kind Kind, call, ret int64) *Event {
	return m.add(Event{Kind: kind, Call: call, Return: ret, Text: string(kind)})
}

func (m *made) enters(who string, call, ret int64) {
	m.add(Event{Kind: Enter, Election: "/e", Candidate: who, Call: call, Return: ret})
}
