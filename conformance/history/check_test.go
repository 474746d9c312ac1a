package history

import (
	"strings"
	"testing"
)

// cases are handmade histories, with what Check says of each: "" is nothing.
var cases = []struct {
	name string
	make func(m *made)
	o    Options
	want string
}{
	{"nothing", func(*made) {}, Options{Ordered: true, Dense: true, Contexts: true, Bound: 1}, ""},
	{"one after the other", func(m *made) {
		m.leads("a", 1, 1, 2, 10)
		m.leads("b", 2, 1, 20, 30)
	}, Options{Dense: true, Contexts: true}, ""},

	// Overlap.
	{"both valid", func(m *made) {
		m.leads("a", 1, 1, 2, 40)
		m.leads("b", 2, 1, 20, 30)
	}, Options{}, "overlap: a's term 1 and b's term 2 were valid at the same instant, from 20 to 30"},
	{"the one may have ended as the other began", func(m *made) {
		m.leads("a", 1, 1, 2, 20)
		m.leads("b", 2, 1, 20, 30)
	}, Options{Contexts: true}, ""},
	{"begun, and never seen valid", func(m *made) {
		m.leads("a", 1, 1, 2, 40)
		m.wins("b", 2, 1, 20)
	}, Options{Contexts: true}, ""},
	{"both valid, in two elections", func(m *made) {
		m.leads("a", 1, 1, 2, 40)
		m.leads("b", 1, 1, 20, 30)
		for i := range m.Events {
			if m.Events[i].Candidate == "b" {
				m.Events[i].Election = "/other"
			}
		}
	}, Options{Contexts: true}, ""},
	{"both Contexts live", func(m *made) {
		c := m.leads("a", 1, 1, 2, 10)
		m.of(c, Context, 40, 41)
		m.Events[4].Return = 50 // seen done later
		m.of(m.leads("b", 2, 1, 20, 30), Context, 35, 36)
	}, Options{Contexts: true}, "overlap: the Contexts of"},
	{"both Contexts live, where that may be", func(m *made) {
		c := m.leads("a", 1, 1, 2, 10)
		m.of(c, Context, 40, 41)
		m.Events[4].Return = 50
		m.leads("b", 2, 1, 20, 30)
	}, Options{}, ""},
	{"both valid, as the first was removed by force", func(m *made) {
		m.leads("a", 1, 1, 2, 40)
		m.happens(Force, 15, 16)
		m.leads("b", 2, 1, 20, 30)
	}, Options{Contexts: true}, ""},
	{"both valid, and force came too late to explain it", func(m *made) {
		m.leads("a", 1, 1, 2, 40)
		m.leads("b", 2, 1, 20, 30)
		m.happens(Force, 21, 22)
	}, Options{}, "overlap: "},

	// Readings.
	{"valid after the end", func(m *made) {
		m.of(m.leads("a", 1, 1, 2, 10), Valid, 20, 21)
	}, Options{}, "reading: Valid of a's term 1 was true at 20, after its Context was seen done at 13"},
	{"valid again", func(m *made) {
		c := m.wins("a", 1, 1, 2)
		m.of(c, Valid, 5, 6).Outcome = Refused
		m.of(c, Valid, 7, 8)
	}, Options{}, "reading: Valid of a's term 1 was true at 7 again"},
	{"alive again", func(m *made) {
		m.of(m.leads("a", 1, 1, 2, 10), Context, 20, 21)
	}, Options{}, "reading: the Context of"},
	{"readings at once", func(m *made) {
		c := m.wins("a", 1, 1, 2)
		m.of(c, Valid, 5, 9)
		m.of(c, Valid, 6, 7).Outcome = Refused
		m.of(c, Context, 6, 7).Outcome = Refused
	}, Options{}, ""},

	// Tokens.
	{"no token", func(m *made) { m.wins("a", 0, 1, 2) }, Options{}, "token: a's term 0 has no token"},
	{"the same token", func(m *made) {
		m.leads("a", 1, 1, 2, 10)
		m.leads("b", 1, 1, 20, 30)
	}, Options{}, "token: a's term 1 and b's term 1 have the same token"},
	{"the token falls, seen by readings", func(m *made) {
		m.leads("a", 2, 1, 2, 10)
		m.leads("b", 1, 1, 20, 30)
	}, Options{}, "token: b's term 1 came after a's term 2, with a lower token"},
	{"the token falls, seen by campaigns", func(m *made) {
		m.wins("a", 2, 1, 2)
		m.wins("b", 1, 3, 4)
	}, Options{}, "token: b's term 1 came after a's term 2, with a lower token"},
	{"the first to win is the last to hear", func(m *made) {
		m.leads("b", 2, 1, 20, 30)
		m.wins("a", 1, 1, 40) // it was stopped right after it had won
	}, Options{}, ""},
	{"tokens begin again", func(m *made) {
		m.leads("a", 7, 1, 2, 10)
		m.happens(Renumber, 15, 16)
		m.leads("b", 1, 1, 20, 30)
	}, Options{Dense: true}, ""},
	{"an old one believes in itself for longer", func(m *made) {
		m.happens(Force, 3, 4)
		m.leads("b", 2, 1, 20, 25)
		m.leads("a", 1, 1, 30, 40)
	}, Options{}, ""},
	{"the token falls beside force that explains nothing", func(m *made) {
		m.leads("a", 2, 1, 2, 10)
		m.happens(Force, 15, 16)
		m.leads("b", 1, 1, 20, 30)
	}, Options{}, "lower token"},
	{"tokens are not dense", func(m *made) {
		m.leads("a", 1, 1, 2, 10)
		m.leads("b", 3, 1, 20, 30)
	}, Options{Dense: true}, "token: after a's term 1 came b's term 3, but its token is not the next one"},
	{"tokens need not be dense", func(m *made) {
		m.leads("a", 1, 1, 2, 10)
		m.leads("b", 3, 1, 20, 30)
	}, Options{}, ""},

	// Order.
	{"in the order of arrival", func(m *made) {
		m.enters("a", 2, 3)
		m.enters("b", 4, 5)
		m.leads("a", 1, 1, 10, 15)
		m.leads("b", 2, 1, 20, 30)
	}, Options{Ordered: true}, ""},
	{"out of order", func(m *made) {
		m.enters("a", 4, 5)
		m.enters("b", 2, 3)
		m.leads("a", 1, 1, 10, 15)
		m.leads("b", 2, 1, 20, 30)
	}, Options{Ordered: true}, "order: a's term 1 came before b's term 2, which had enrolled at 3, while the other began to enrol only at 4"},
	{"out of order, where there is none", func(m *made) {
		m.enters("a", 4, 5)
		m.enters("b", 2, 3)
		m.leads("a", 1, 1, 10, 15)
		m.leads("b", 2, 1, 20, 30)
	}, Options{}, ""},
	{"enrolled at once", func(m *made) {
		m.enters("a", 3, 5)
		m.enters("b", 2, 4)
		m.leads("a", 1, 1, 10, 15)
		m.leads("b", 2, 1, 20, 30)
	}, Options{Ordered: true}, ""},
	{"enrolled again", func(m *made) {
		m.enters("b", 2, 3)
		m.enters("a", 4, 5)
		m.enters("b", 6, 7)
		m.leads("a", 1, 1, 10, 15)
		m.leads("b", 2, 1, 20, 30)
	}, Options{Ordered: true}, ""},
	{"perhaps enrolled again", func(m *made) { // the second time could be the last one
		m.enters("b", 2, 3)
		m.enters("a", 4, 5)
		m.enters("b", 2, 7)
		m.leads("a", 1, 1, 10, 15)
		m.leads("b", 2, 1, 20, 30)
	}, Options{Ordered: true}, ""},
	{"perhaps enrolled again during its campaign", func(m *made) {
		m.enters("b", 2, 3)
		m.enters("a", 4, 5)
		m.enters("b", 6, 21)
		m.leads("a", 1, 1, 10, 15)
		m.leads("b", 2, 1, 20, 30)
	}, Options{Ordered: true}, ""},

	// The end.
	{"a write after the Context was done", func(m *made) {
		m.writes(m.leads("a", 1, 1, 2, 10), Put, "v", 0, 1, 20, 21)
	}, Options{}, "end: a commit of a's term 1 began at 20 and was done, after its Context was seen done at 13"},
	{"a write as the Context was done", func(m *made) {
		m.writes(m.leads("a", 1, 1, 2, 10), Put, "v", 0, 1, 13, 21)
	}, Options{}, ""},
	{"a write refused after the end", func(m *made) {
		m.writes(m.leads("a", 1, 1, 2, 10), Put, "v", 0, 1, 20, 21).Outcome = Refused
	}, Options{}, ""},
	{"a write after it resigned", func(m *made) {
		c := m.wins("a", 1, 1, 2)
		m.of(c, Resign, 5, 6)
		m.of(c, Proclaim, 7, 8)
	}, Options{}, "end: a proclaim of a's term 1 began at 7 and was done, after it had resigned at 6"},
	{"a write after the next began", func(m *made) {
		c := m.wins("a", 1, 1, 2)
		m.wins("b", 2, 1, 10)
		m.writes(c, Put, "v", 0, 1, 11, 12)
	}, Options{}, "end: a commit of a's term 1 began at 11 and was done, after b's term 2 had begun at 10"},
	{"a write that began before the next term", func(m *made) {
		c := m.wins("a", 1, 1, 2)
		m.wins("b", 2, 1, 10)
		m.writes(c, Put, "v", 0, 1, 9, 12)
	}, Options{}, ""},
	{"older writes behind newer ones", func(m *made) {
		a, b := m.wins("a", 1, 1, 2), m.wins("b", 2, 1, 10)
		m.writes(a, Put, "one", 0, 1, 9, 30)
		m.writes(b, Put, "two", 0, 2, 11, 12)
		m.ledger(90, "two", "one")
	}, Options{}, "end: in /k, "},

	// Once.
	{"all that was committed is there", func(m *made) {
		a := m.wins("a", 1, 1, 2)
		m.writes(a, Put, "one", 0, 1, 3, 4)
		m.writes(a, Put, "two", 0, 2, 5, 6)
		m.writes(a, Put, "refused", 0, 0, 5, 6).Outcome = Refused
		m.writes(a, Put, "there", 0, 0, 7, 8).Outcome = Unknown
		m.writes(a, Put, "not there", 0, 0, 9, 0).Outcome = Unknown
		m.ledger(50, "one")
		m.ledger(90, "one", "two", "there")
	}, Options{}, ""},
	{"one was committed as the ledger was read", func(m *made) {
		m.writes(m.wins("a", 1, 1, 2), Put, "one", 0, 1, 3, 90)
		m.ledger(90)
	}, Options{}, ""},
	{"one is missing", func(m *made) {
		a := m.wins("a", 1, 1, 2)
		m.writes(a, Put, "one", 0, 1, 3, 4)
		m.ledger(90)
	}, Options{}, `once: "one" is not in /k, though it was committed`},
	{"one is there twice", func(m *made) {
		a := m.wins("a", 1, 1, 2)
		m.writes(a, Put, "one", 0, 1, 3, 4)
		m.ledger(90, "one", "one")
	}, Options{}, `once: "one" is in /k 2 times`},
	{"an unknown one is there twice", func(m *made) {
		a := m.wins("a", 1, 1, 2)
		m.writes(a, Put, "one", 0, 1, 3, 4).Outcome = Unknown
		m.ledger(90, "one", "one")
	}, Options{}, `once: "one" is in /k 2 times`},
	{"a refused one is there", func(m *made) {
		a := m.wins("a", 1, 1, 2)
		m.writes(a, Put, "one", 0, 1, 3, 4).Outcome = Refused
		m.ledger(90, "one")
	}, Options{}, `once: "one" is in /k, though it was refused`},
	{"nobody's is there", func(m *made) {
		m.ledger(90, "one")
	}, Options{}, `once: "one" is in /k, but no commit wrote it`},
	{"two alike", func(m *made) {
		a := m.wins("a", 1, 1, 2)
		m.writes(a, Put, "one", 0, 1, 3, 4)
		m.writes(a, Put, "one", 0, 1, 5, 6)
		m.ledger(90, "one")
	}, Options{}, "write different values"},
	{"out of order", func(m *made) {
		a := m.wins("a", 1, 1, 2)
		m.writes(a, Put, "one", 0, 1, 3, 4)
		m.writes(a, Put, "two", 0, 2, 5, 6)
		m.ledger(90, "two", "one")
	}, Options{}, "though the second was done before the first began"},
	{"before it was committed", func(m *made) {
		m.ledger(3, "one")
		m.writes(m.wins("a", 1, 1, 2), Put, "one", 0, 1, 50, 60)
	}, Options{}, `once: "one" is in /k before it was committed`},

	// Progress.
	{"nobody leads after the last fault", func(m *made) {
		m.leads("a", 1, 1, 2, 10)
		m.happens(Fault, 12, 20)
		m.leads("b", 2, 15, 80, 90)
	}, Options{Bound: 50}, "progress: nobody led from 20 to 70, though all faults had ended at 20, and b campaigned"},
	{"somebody leads in time", func(m *made) {
		m.leads("a", 1, 1, 2, 10)
		m.happens(Fault, 12, 20)
		m.leads("b", 2, 15, 60, 65)
	}, Options{Bound: 50}, ""},
	{"the leader has outlived the fault", func(m *made) {
		m.leads("a", 1, 1, 2, 25)
		m.happens(Fault, 12, 20)
		m.leads("b", 2, 15, 80, 90)
	}, Options{Bound: 50}, ""},
	{"nobody campaigns", func(m *made) {
		m.leads("a", 1, 1, 2, 10)
		m.happens(Fault, 12, 20)
	}, Options{Bound: 50}, ""},
	{"a fault goes on", func(m *made) {
		m.happens(Fault, 12, 0)
		m.leads("b", 2, 15, 80, 90)
	}, Options{Bound: 50}, ""},
	{"the recording ended too soon", func(m *made) {
		m.happens(Fault, 12, 60)
		m.add(Event{Kind: Campaign, Election: "/e", Candidate: "b", Call: 1, Outcome: Unknown})
	}, Options{Bound: 50}, ""},
	{"a campaign without end", func(m *made) {
		m.add(Event{Kind: Campaign, Election: "/e", Candidate: "b", Call: 1, Outcome: Unknown})
	}, Options{Bound: 50}, "progress: nobody led from 1 to 51"},
}

func TestCheck(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := newMade(100)
			c.make(m)
			found := m.history().Check(c.o)
			var all []string
			for _, v := range found {
				all = append(all, v.String())
			}
			got := strings.Join(all, "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

// Every check has a case in which it finds something.
func TestChecksAreCovered(t *testing.T) {
	for _, check := range []string{CheckReading, CheckOverlap, CheckToken, CheckOrder, CheckEnd, CheckOnce, CheckProgress} {
		seen := false
		for _, c := range cases {
			seen = seen || strings.HasPrefix(c.want, check+": ")
		}
		if !seen {
			t.Errorf("no case for check %s", check)
		}
	}
}
