package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// longest is the longest line that a peer reads: the longest vote has some 200 bytes.
const longest = 512

// wire is a vote as it is sent: one line of JSON.
type wire struct {
	LogicClock uint64 `json:"logic_clock"`
	State      string `json:"state"`
	SelfID     int    `json:"self_id"`
	SelfZxid   uint64 `json:"self_zxid"`
	VoteID     int    `json:"vote_id"`
	VoteZxid   uint64 `json:"vote_zxid"`
}

func encode(v vote) []byte {
	line, err := json.Marshal(wire{v.Round, v.State.String(), v.Self.ID, v.Self.Zxid, v.For.ID, v.For.Zxid})
	if err != nil {
		panic(err) // numbers and a name
	}
	return append(line, '\n')
}

// decode reads a line. Whoever reaches the port can send one: nothing in it is believed but
// that it is a vote. Whose it says it is cannot be checked here. (ZooKeeper has SASL and
// TLS for that.)
func decode(line []byte) (vote, error) {
	if len(line) > longest {
		return vote{}, fmt.Errorf("a line of %d bytes: a vote has %d at most", len(line), longest)
	}
	var w wire
	if err := json.Unmarshal(line, &w); err != nil {
		return vote{}, fmt.Errorf("no vote: %w", err)
	}
	state := state(slices.Index(stateNames, w.State))
	switch {
	case state < looking:
		return vote{}, fmt.Errorf("no vote: state %q is none of %v", w.State, stateNames[looking:])
	case w.SelfID < 1 || w.SelfID > math.MaxInt32 || w.VoteID < 0 || w.VoteID > math.MaxInt32:
		return vote{}, fmt.Errorf("no vote: ids are from 1 to %d", math.MaxInt32)
	case w.LogicClock > math.MaxInt64/2: // what comes after it must not begin at 0 again
		return vote{}, fmt.Errorf("no vote: nobody has come to round %d", w.LogicClock)
	}
	return vote{w.LogicClock, state, ballot{w.SelfID, w.SelfZxid}, ballot{w.VoteID, w.VoteZxid}}, nil
}
