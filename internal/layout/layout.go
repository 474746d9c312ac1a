// Package layout is what elections look like in the service: the payloads of the
// record and of candidates' entries. It is an interface between versions of this
// library that run side by side, so it carries a version number and only grows.
//
//	<election>                 Record, persistent
//	<election>/<dir>           directory, persistent and empty; see Record.Dir
//	<election>/<dir>/<entry>   Candidate, ephemeral
package layout

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Version is the layout's version that this library writes.
const Version = 1

// A Record says what election lives under a path. The first candidate writes it.
type Record struct {
	V        int    `json:"v"`
	Strategy string `json:"strategy"`
	// Dir is the random name of the directory that holds the entries.
	Dir string `json:"dir"`
}

// NewRecord founds an election.
func NewRecord(strategy string) Record {
	var nonce [8]byte
	rand.Read(nonce[:]) // never fails, says its documentation
	return Record{V: Version, Strategy: strategy, Dir: "e" + hex.EncodeToString(nonce[:])}
}

// Encode returns the record's payload.
func (r Record) Encode() []byte {
	return encode(r)
}

// DecodeRecord parses a record's payload.
func DecodeRecord(b []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(b, &r); err != nil {
		return Record{}, fmt.Errorf("not an election record: %.200s", err.Error()) // which may repeat what stands there
	}
	switch {
	case r.V < 1 || r.Strategy == "":
		return Record{}, errors.New("not an election record: version or strategy is missing")
	case r.V > Version:
		return Record{}, fmt.Errorf("election record of version %d: this library knows up to %d", r.V, Version)
	case r.Dir == "" || r.Dir == "." || r.Dir == ".." || strings.Contains(r.Dir, "/"):
		return Record{}, fmt.Errorf("election record names %.100q for its directory", r.Dir)
	}
	return r, nil
}

// A Candidate is the payload of a candidate's entry.
type Candidate struct {
	V     int    `json:"v"`
	ID    string `json:"id"`
	Value []byte `json:"value,omitempty"`
	// Leads is set once the candidate has been elected. To its successor it says
	// that nobody else stands before the two of them.
	Leads bool `json:"leads,omitempty"`
}

// Encode returns the candidate's payload.
func (c Candidate) Encode() []byte {
	c.V = Version
	return encode(c)
}

// DecodeCandidate parses the payload of an entry. Of one that it cannot read it
// returns the zero Candidate: whoever made the entry stands in the election, but
// tells nothing.
func DecodeCandidate(b []byte) Candidate {
	var c Candidate
	if err := json.Unmarshal(b, &c); err != nil || c.V < 1 {
		return Candidate{}
	}
	return c
}

func encode(v any) []byte {
	// These structs hold strings, bytes, ints and bools only: Marshal cannot fail.
	b, _ := json.Marshal(v)
	return b
}
