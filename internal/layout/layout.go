// Package layout defines what elections look like in the service: the payloads of the record and of the
// candidates' entries. It is an interface between versions of this library that run side by side, so it
// carries a version number and only grows.
//
//	<election>                 Record, persistent
//	<election>/<dir>           directory, persistent and empty; see Record.Dir
//	<election>/<dir>/<entry>   Candidate, ephemeral
package layout

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Version is the version of the layout that this library writes.
const Version = 1

// A Record describes the election under a path. The first candidate writes it.
type Record struct {
	V        int    `json:"v"`
	Strategy string `json:"strategy"`
	// Dir is the random name of the directory that holds the entries.
	Dir string `json:"dir"`
	// Designated is the candidate that an operator wants to lead. Some strategies obey it.
	Designated *Designation `json:"designated,omitempty"`
	// Heir is the candidate that the leader wants to lead after it. Some strategies look for it here.
	Heir *Heir `json:"heir,omitempty"`
}

// A Designation names the candidate that outranks all others, and the person who wants that.
type Designation struct {
	ID  string `json:"id"`
	By  string `json:"by,omitempty"`
	Why string `json:"why,omitempty"`
}

// An Heir is the entry that a leader has named to lead next. Some strategies look for it in the payload of
// the leader's entry, where it is one more field, like a Request.
type Heir struct {
	Key string `json:"key"`
	Rev uint64 `json:"rev"`
	// ID is the candidate's ID, for people.
	ID string `json:"id,omitempty"`
}

// NewRecord returns the record of a new election.
func NewRecord(strategy string) Record {
	var nonce [8]byte
	rand.Read(nonce[:]) // never fails, according to its documentation
	return Record{V: Version, Strategy: strategy, Dir: "e" + hex.EncodeToString(nonce[:])}
}

// Encode returns the record's payload.
func (r Record) Encode() []byte {
	return encode(r)
}

// longestDir is a length in bytes that no directory's name exceeds: a name is an e and 16 digits.
const longestDir = 64

// noPart reports whether r cannot be part of a directory's name.
func noPart(r rune) bool { return r <= ' ' || r > '~' || r == '/' }

// DecodeRecord parses a record's payload.
func DecodeRecord(b []byte) (Record, error) {
	var r Record
	if err := r.forgive(decode(b, &r)); err != nil {
		return Record{}, fmt.Errorf("not an election record: %.200s", err.Error()) // the error may quote the payload
	}
	switch {
	case r.V < 1 || r.Strategy == "":
		return Record{}, errors.New("not an election record: version or strategy is missing")
	case r.V > Version:
		return Record{}, fmt.Errorf("election record of version %d: this library knows up to %d", r.V, Version)
	case r.Dir == "" || len(r.Dir) > longestDir || r.Dir == "." || r.Dir == ".." || strings.ContainsFunc(r.Dir, noPart):
		return Record{}, fmt.Errorf("election record names %.100q for its directory", r.Dir)
	}
	return r, nil
}

// forgive drops the designation and the heir if the error is that one of them has the wrong type: a mistake
// in a field edited by hand ends no election. json.Unmarshal has decoded the other fields then.
func (r *Record) forgive(err error) error {
	var mistyped *json.UnmarshalTypeError
	if !errors.As(err, &mistyped) {
		return err
	}
	switch field, _, _ := strings.Cut(mistyped.Field, "."); field {
	case "designated", "heir":
		r.Designated, r.Heir = nil, nil
		return nil
	}
	return err
}

// A Candidate is the payload of a candidate's entry.
type Candidate struct {
	V     int    `json:"v"`
	ID    string `json:"id"`
	Value []byte `json:"value,omitempty"`
	// Leads is set once the candidate has been elected. It tells the candidate's successor that there is
	// nobody else before the two of them.
	Leads bool `json:"leads,omitempty"`
	// Rank is compared by strategies that rank their candidates.
	Rank []int64 `json:"rank,omitempty"`
	// Since is the creation revision of the candidate's first entry, if this entry has replaced it.
	Since uint64 `json:"since,omitempty"`
	// Told is the version of the election's record that names the candidate, as reported to the candidate.
	Told uint64 `json:"told,omitempty"`
}

// decode is json.Unmarshal on its own goroutine. The caller may wait for days afterwards, and Go would
// leave its stack as large as decoding needs.
func decode(b []byte, v any) error {
	done := make(chan error, 1)
	go func() { done <- json.Unmarshal(b, v) }()
	return <-done
}

// Encode returns the candidate's payload.
func (c Candidate) Encode() []byte {
	c.V = Version
	return encode(c)
}

// DecodeCandidate parses the payload of an entry. If it cannot, it returns the zero Candidate: the owner of
// the entry stands in the election, but nothing more is known about it.
func DecodeCandidate(b []byte) Candidate {
	var c Candidate
	if err := decode(b, &c); err != nil || c.V < 1 {
		return Candidate{}
	}
	return c
}

// A Request asks the leader to resign. It is one more field of the JSON object in the payload of the
// leader's entry, in any layout.
type Request struct {
	By  string `json:"by,omitempty"`
	Why string `json:"why,omitempty"`
	To  string `json:"to,omitempty"`
}

// String returns, for example, `by "anna": "deploy"`. It quotes the texts because somebody else wrote
// them.
func (r Request) String() string {
	s := "by somebody"
	if r.By != "" {
		s = fmt.Sprintf("by %q", r.By)
	}
	if r.Why != "" {
		s += fmt.Sprintf(": %q", r.Why)
	}
	if r.To != "" {
		s += fmt.Sprintf(", for %q to lead", r.To)
	}
	return s
}

// Fields in the payload of a leader's entry that the candidate's strategy does not write.
const (
	asked = "asked"
	heir  = "heir"
)

// Ask returns the payload with a request in it. All other bytes stay the same.
func Ask(payload []byte, r Request) ([]byte, error) { return with(payload, asked, r) }

// Name returns the payload with the heir in it. All other bytes stay the same.
func Name(payload []byte, h Heir) ([]byte, error) { return with(payload, heir, h) }

// with returns the payload with one more field.
func with(payload []byte, field string, v any) ([]byte, error) {
	var object map[string]json.RawMessage
	body := bytes.TrimRight(payload, " \t\r\n")
	if err := decode(payload, &object); err != nil || object == nil {
		return nil, fmt.Errorf("no field %q can be written there: it holds no JSON object", field)
	}
	if _, is := object[field]; is {
		return nil, fmt.Errorf("no field %q can be written there: it has one", field)
	}
	longer := slices.Clone(body[:len(body)-1])
	if len(object) > 0 {
		longer = append(longer, ',')
	}
	longer = append(longer, `"`+field+`":`...)
	return append(append(longer, encode(v)...), '}'), nil
}

// Named returns the heir in a payload, if there is one and Named can read it.
func Named(payload []byte) (Heir, bool) {
	if !bytes.Contains(payload, []byte(`"`+heir+`"`)) { // the usual case; this runs at each wake-up
		return Heir{}, false
	}
	var h struct {
		Heir *Heir `json:"heir"`
	}
	if decode(payload, &h) != nil || h.Heir == nil || h.Heir.Rev == 0 {
		return Heir{}, false
	}
	return *h.Heir, true
}

// Asked returns the request in a payload, if there is one. A request that it cannot read counts.
func Asked(payload []byte) (Request, bool) {
	var object map[string]json.RawMessage
	if decode(payload, &object) != nil || object[asked] == nil {
		return Request{}, false
	}
	var r Request
	if decode(object[asked], &r) != nil {
		return Request{}, true // of a later version, or written by hand
	}
	return r, true
}

func encode(v any) []byte {
	// These structs hold strings, bytes, ints and bools only: Marshal cannot fail.
	b, _ := json.Marshal(v)
	return b
}
