package history

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// linearCases are handmade histories, with what Linearizable says of each.
var linearCases = []struct {
	name string
	make func(m *made)
	want porcupine.CheckResult
}{
	{"nothing", func(*made) {}, porcupine.Ok},

	// Claims as a lock with fencing.
	{"one after the other", func(m *made) {
		m.leads("a", 5, 1, 2, 10)
		m.leads("b", 9, 1, 20, 30)
		m.leads("a", 11, 15, 40, 50)
	}, porcupine.Ok},
	{"many wait at once", func(m *made) {
		for i := range int64(40) {
			m.leads("c", uint64(100-i), 1, 1000-10*i, 1000-10*i+5)
		}
	}, porcupine.Ok},
	{"two hold it", func(m *made) {
		m.leads("a", 1, 1, 2, 40)
		m.leads("b", 2, 1, 20, 30)
	}, porcupine.Illegal},
	{"two hold it for all they know", func(m *made) {
		m.leads("a", 1, 1, 2, 40)
		m.happens(Force, 10, 11)
		m.leads("b", 2, 1, 20, 30)
	}, porcupine.Ok},
	{"the token falls", func(m *made) {
		m.leads("a", 2, 1, 2, 10)
		m.leads("b", 1, 11, 20, 30)
	}, porcupine.Illegal},
	{"the token repeats", func(m *made) {
		m.leads("a", 1, 1, 2, 10)
		m.leads("b", 1, 11, 20, 30)
	}, porcupine.Illegal},
	{"tokens begin again", func(m *made) {
		m.leads("a", 7, 1, 2, 10)
		m.happens(Renumber, 15, 16).Election = "/e"
		m.leads("b", 1, 1, 20, 30)
	}, porcupine.Ok},
	{"tokens begin again while somebody deletes, again and again", func(m *made) {
		m.leads("a", 7, 1, 2, 10)
		m.happens(Renumber, 15, 45).Election = "/e"
		m.leads("b", 1, 1, 20, 25)
		m.leads("c", 1, 26, 30, 35)
		m.leads("a", 1, 36, 50, 60)
		m.leads("b", 2, 61, 65, 70)
	}, porcupine.Ok},
	{"tokens begin again when nobody deletes any more", func(m *made) {
		m.happens(Renumber, 15, 45).Election = "/e"
		m.leads("a", 1, 16, 20, 30)
		m.leads("b", 1, 46, 50, 60)
		m.leads("c", 1, 61, 65, 70)
	}, porcupine.Illegal},
	{"two lead while tokens begin again", func(m *made) {
		m.happens(Renumber, 15, 45).Election = "/e"
		m.leads("a", 1, 16, 20, 30)
		m.leads("b", 1, 16, 25, 35)
	}, porcupine.Illegal},
	{"tokens begin again for two operators, of whom one is done", func(m *made) {
		m.happens(Renumber, 15, 25).Election = "/e"
		m.happens(Renumber, 20, 45).Election = "/e"
		m.leads("a", 1, 26, 27, 30)
		m.leads("b", 1, 31, 32, 40)
	}, porcupine.Ok},
	{"tokens fall before they begin begun", func(m *made) {
		m.leads("a", 7, 1, 2, 10)
		m.leads("b", 1, 11, 20, 30)
		m.happens(Renumber, 35, 36).Election = "/e"
	}, porcupine.Illegal},
	{"both won, and only one order is possible", func(m *made) {
		// b wins while a campaigns, and a's token is lower, so a came before. But b's campaign is over
		// before a's begins.
		m.wins("b", 2, 1, 3)
		m.wins("a", 1, 4, 9)
	}, porcupine.Illegal},

	// Commits as writes to registers that accept only the holder's.
	{"writes of two terms", func(m *made) {
		a := m.leads("a", 1, 1, 2, 10)
		b := m.leads("b", 2, 1, 20, 30)
		m.writes(a, Create, "one", 0, 1, 3, 4)
		m.writes(a, CompareAndSet, "two", 1, 2, 5, 6)
		m.writes(b, CompareAndSet, "three", 2, 3, 21, 22)
	}, porcupine.Ok},
	{"an old term writes", func(m *made) {
		a := m.leads("a", 1, 1, 2, 10)
		m.leads("b", 2, 1, 20, 30)
		m.writes(a, Put, "late", 0, 1, 25, 26)
	}, porcupine.Illegal},
	{"an old term proclaims", func(m *made) {
		a := m.leads("a", 1, 1, 2, 10)
		m.leads("b", 2, 1, 20, 30)
		m.of(a, Proclaim, 25, 26)
	}, porcupine.Illegal},
	{"an old term's write is refused", func(m *made) {
		a := m.leads("a", 1, 1, 2, 10)
		m.leads("b", 2, 1, 20, 30)
		m.writes(a, Put, "late", 0, 0, 25, 26).Outcome = Refused
	}, porcupine.Ok},
	{"a write that began in time and may have landed then", func(m *made) {
		a := m.leads("a", 1, 1, 2, 10)
		m.leads("b", 2, 1, 20, 30)
		m.writes(a, Put, "v", 0, 1, 12, 26)
	}, porcupine.Ok},
	{"two compare and set over one version", func(m *made) {
		a := m.leads("a", 1, 1, 2, 10)
		m.writes(a, Create, "one", 0, 1, 3, 4)
		m.writes(a, CompareAndSet, "two", 1, 2, 5, 8)
		m.writes(a, CompareAndSet, "three", 1, 2, 5, 8)
	}, porcupine.Illegal},
	{"created twice", func(m *made) {
		a := m.leads("a", 1, 1, 2, 10)
		m.writes(a, Create, "one", 0, 1, 3, 4)
		m.writes(a, Create, "two", 0, 1, 5, 6)
	}, porcupine.Illegal},
	{"created, deleted, created", func(m *made) {
		a := m.leads("a", 1, 1, 2, 10)
		m.writes(a, Create, "one", 0, 1, 3, 4)
		m.writes(a, Delete, "", 0, 0, 5, 6)
		m.writes(a, Create, "two", 0, 1, 7, 8)
	}, porcupine.Ok},
	{"a refused write is read", func(m *made) {
		a := m.leads("a", 1, 1, 2, 10)
		m.writes(a, Put, "one", 0, 1, 3, 4)
		m.writes(a, Put, "two", 0, 0, 5, 6).Outcome = Refused
		m.reads("two", 7, 8)
	}, porcupine.Illegal},
	{"what was written is read", func(m *made) {
		a := m.leads("a", 1, 1, 2, 10)
		m.reads("old", 1, 2)
		m.writes(a, Put, "one", 0, 1, 3, 4)
		m.reads("one", 5, 6)
		m.writes(a, Delete, "", 0, 0, 7, 8)
		m.reads("", 9, 10).Outcome = Refused
	}, porcupine.Ok},
	{"an old value is read", func(m *made) {
		a := m.leads("a", 1, 1, 2, 10)
		m.writes(a, Put, "one", 0, 1, 3, 4)
		m.writes(a, Put, "two", 0, 2, 5, 6)
		m.reads("one", 7, 8)
	}, porcupine.Illegal},
	{"an unknown write was done", func(m *made) {
		a := m.leads("a", 1, 1, 2, 10)
		m.writes(a, Put, "one", 0, 1, 3, 4)
		m.writes(a, Put, "two", 0, 0, 5, 6).Outcome = Unknown
		m.reads("one", 7, 8)
		m.reads("two", 9, 10) // it was done late
	}, porcupine.Ok},
	{"an unknown write was not done", func(m *made) {
		a := m.leads("a", 1, 1, 2, 10)
		m.writes(a, Create, "one", 0, 1, 3, 4)
		m.writes(a, CompareAndSet, "two", 1, 0, 5, 0).Outcome = Unknown
		m.writes(a, CompareAndSet, "three", 1, 2, 7, 8)
		m.reads("three", 9, 10)
	}, porcupine.Ok},
	{"an unknown write was both done and not", func(m *made) {
		a := m.leads("a", 1, 1, 2, 10)
		m.writes(a, Create, "one", 0, 1, 3, 4)
		m.writes(a, CompareAndSet, "two", 1, 0, 5, 0).Outcome = Unknown
		m.reads("two", 6, 7)
		m.writes(a, CompareAndSet, "three", 1, 2, 8, 9)
	}, porcupine.Illegal},
	{"an unknown write is done after the end", func(m *made) {
		a := m.leads("a", 1, 1, 2, 10)
		m.writes(a, Put, "late", 0, 0, 5, 6).Outcome = Unknown
		b := m.leads("b", 2, 1, 20, 30)
		m.writes(b, Put, "new", 0, 2, 21, 22)
		m.reads("late", 25, 26)
	}, porcupine.Illegal},
	{"a write to another key is no matter", func(m *made) {
		a := m.leads("a", 1, 1, 2, 10)
		m.writes(a, Put, "one", 0, 1, 3, 4)
		m.writes(a, Put, "two", 0, 1, 5, 6).Writes[0].Key = "/other"
		m.reads("one", 7, 8)
	}, porcupine.Ok},
}

func TestLinearizable(t *testing.T) {
	for _, c := range linearCases {
		t.Run(c.name, func(t *testing.T) {
			m := newMade(2000)
			c.make(m)
			h := m.history()
			if got := h.Linearizable(Options{}).Result; got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			path := filepath.Join(t.TempDir(), "page.html")
			require.NoError(t, h.Draw(path, Options{}))
			page, err := os.ReadFile(path)
			require.NoError(t, err)
			if len(h.Events) > 0 && !strings.Contains(string(page), "begins") {
				t.Error("the page does not tell of a term that begins")
			}
		})
	}
}

func TestLinearizableClaimsOnly(t *testing.T) {
	m := newMade(100)
	a := m.leads("a", 1, 1, 2, 10)
	m.writes(a, Put, "one", 0, 1, 3, 4)
	m.reads("another's", 5, 6)
	if got := m.history().Linearizable(Options{}).Result; got != porcupine.Illegal {
		t.Errorf("%s", got)
	}
	if got := m.history().Linearizable(Options{OthersWrite: true}).Result; got != porcupine.Ok {
		t.Errorf("with foreign writes: %s", got)
	}
}

func (m *made) reads(value string, call, ret int64) *Event {
	return m.add(Event{Kind: Read, Key: "/k", Value: value, Call: call, Return: ret})
}
