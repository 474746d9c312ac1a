package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A Kind says what an Event is about.
type Kind string

const (
	// Campaign: a call of Campaign. OK: it returned a term, with Token; the term began before Return.
	Campaign Kind = "campaign"
	// Enter: the candidate enrolled for the current Campaign. Fair order is the order of these.
	Enter Kind = "enter"
	// Valid: a reading of Term.Valid. OK: it was true; Refused: it was false.
	Valid Kind = "valid"
	// Context: a reading of Term.Context. OK: it was not done; Refused: it was done.
	Context Kind = "context"
	// Commit: a call of Term.Commit, with Writes.
	Commit Kind = "commit"
	// Proclaim: a call of Term.Proclaim.
	Proclaim Kind = "proclaim"
	// Resign: a call of Term.Resign.
	Resign Kind = "resign"
	// Close: a call of Elector.Close.
	Close Kind = "close"
	// Read: Key held Value, or nothing (Refused).
	Read Kind = "read"
	// Ledger: all Values that the register under Key has had so far, in order.
	Ledger Kind = "ledger"
	// Fault: something was broken, from Call to Return.
	Fault Kind = "fault"
	// Force: somebody removed a session or an entry in the service, so that another may get the seat
	// before its holder knows. Since that is allowed, terms that it may explain are not compared.
	Force Kind = "force"
	// Renumber: an operator deleted the place where tokens are counted, so that they may restart: once or
	// more often, from Call to Return, because new entries may appear between single deletions.
	Renumber Kind = "renumber"
	// Note: for people.
	Note Kind = "note"
)

// An Outcome says how a call ended.
type Outcome string

const (
	// OK: it was done.
	OK Outcome = "ok"
	// Refused: it was not done, and never will be.
	Refused Outcome = "refused"
	// Unknown: it may or may not have been done, or may still be done until its term ends.
	Unknown Outcome = "unknown"
)

// An Event is something that happened at an instant between Call and Return.
type Event struct {
	// ID is unique in a history, and before that among the events of one Recorder. In a file a later line
	// replaces an earlier one with the same ID: a call is written when it begins, and again when it
	// returns.
	ID   uint64 `json:"id"`
	Kind Kind   `json:"kind"`
	// Election separates events: terms of different elections are unrelated. A Fault, Force or Renumber
	// without an Election is about all of them.
	Election  string `json:"election,omitempty"`
	Process   string `json:"process,omitempty"`
	Candidate string `json:"candidate,omitempty"`
	Session   string `json:"session,omitempty"`
	// Term is the ID of the Campaign that returned the event's term.
	Term  uint64 `json:"term,omitempty"`
	Token uint64 `json:"token,omitempty"`
	// Call and Return are instants of the history's clock. Return is 0 if the call had not returned when
	// the recording ended.
	Call    int64   `json:"call"`
	Return  int64   `json:"return,omitempty"`
	Outcome Outcome `json:"outcome,omitempty"`

	Writes []Write  `json:"writes,omitempty"` // of a Commit
	Key    string   `json:"key,omitempty"`    // of a Read or a Ledger
	Value  string   `json:"value,omitempty"`  // of a Read
	Values []string `json:"values,omitempty"` // of a Ledger

	// Text is the error of a call, or the description of a Fault, a Force or a Note.
	Text string `json:"text,omitempty"`
}

// A Write is one op of a commit.
type Write struct {
	Op  Op     `json:"op"`
	Key string `json:"key"`
	// Value distinguishes this write from all others of the key. See Text.
	Value string `json:"value,omitempty"`
	// Expected is the version that a CompareAndSet requires. Version is the one that the write made, 0 if
	// unknown.
	Expected uint64 `json:"expected,omitempty"`
	Version  uint64 `json:"version,omitempty"`
}

// An Op is what a Write does. See the functions of package elector.
type Op string

const (
	Create        Op = "create"
	Put           Op = "put"
	CompareAndSet Op = "compare-and-set"
	Delete        Op = "delete"
)

// Text returns a value as it is recorded: its last line, and if that is long or binary its beginning and
// the value's length. So a register to which each commit appends a line costs one line per commit.
func Text(value []byte) string {
	const most = 200
	s := strings.TrimSuffix(string(value), "\n")
	s = s[strings.LastIndexByte(s, '\n')+1:]
	if clean := strings.ToValidUTF8(s, "?"); clean != s || len(s) > most {
		clean = strings.ToValidUTF8(clean[:min(len(clean), most)], "?")
		return fmt.Sprintf("%s… %d bytes", clean, len(value))
	}
	return s
}

// Lines returns the values that a register of one line per commit has had, for a Ledger.
func Lines(value []byte) []string {
	s := strings.TrimSuffix(string(value), "\n")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// until returns the latest instant at which it was over.
func (e *Event) until() int64 {
	if e.Return == 0 {
		return math.MaxInt64
	}
	return e.Return
}

// done reports whether the call returned and was done.
func (e *Event) done() bool { return e.Outcome == OK && e.Return != 0 }

// in reports whether the event is about an election.
func (e *Event) in(election string) bool {
	return e.Election == election || e.Election == "" && (e.Kind == Fault || e.Kind == Force || e.Kind == Renumber)
}

// String returns the event in one line.
func (e Event) String() string {
	var b strings.Builder
	if e.Return == 0 {
		fmt.Fprintf(&b, "[%d, …] ", e.Call)
	} else {
		fmt.Fprintf(&b, "[%d, %d] ", e.Call, e.Return)
	}
	for _, part := range []string{e.Process, e.Candidate, e.Session} {
		if part != "" {
			b.WriteString(part + ": ")
		}
	}
	b.WriteString(string(e.Kind))
	if e.Token != 0 {
		fmt.Fprintf(&b, ", token %d", e.Token)
	}
	for _, w := range e.Writes {
		fmt.Fprintf(&b, ", %s", w)
	}
	switch e.Kind {
	case Read:
		fmt.Fprintf(&b, " of %s: %q", e.Key, e.Value)
	case Ledger:
		fmt.Fprintf(&b, " of %s: %d values", e.Key, len(e.Values))
	}
	if e.Outcome != "" {
		fmt.Fprintf(&b, ": %s", e.Outcome)
	}
	if e.Text != "" {
		fmt.Fprintf(&b, ": %s", e.Text)
	}
	return b.String()
}

// String returns for example `put /k "v"`.
func (w Write) String() string {
	s := fmt.Sprintf("%s %s", w.Op, w.Key)
	if w.Op != Delete {
		s += fmt.Sprintf(" %q", w.Value)
	}
	if w.Expected != 0 {
		s += fmt.Sprintf(" over version %d", w.Expected)
	}
	return s
}

// byCall sorts events by their calls.
func byCall(events []Event) {
	slices.SortFunc(events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.ID, b.ID))
	})
}
