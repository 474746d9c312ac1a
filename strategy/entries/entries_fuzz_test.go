package entries

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy"
)

// FuzzLeader holds that a candidate is read from its entry as it was written there, that the token is the
// entry's revision for any payload, and that an entry without a session makes nobody the leader.
func FuzzLeader(f *testing.F) {
	f.Add("id", []byte("value"), uint64(5), "s1")
	f.Add("", []byte(`{"v":1,"id":"other","leads":true,"token":9}`), uint64(1), "")
	f.Add("x", []byte(nil), uint64(1<<64-1), "s")
	f.Fuzz(func(t *testing.T, id string, value []byte, rev uint64, session string) {
		id = strings.ToValidUTF8(id, "?")
		rev = max(rev, 1)
		c := &strategy.Candidacy{ID: id, Value: value}
		seat := backend.Entry{Key: "/e/seat", Rev: rev, Version: 1, Session: session, Value: Payload(c, true)}
		claim := Claim(c, seat)
		if claim.Token != rev || !claim.Entry.Same(seat) || len(claim.Conditions) != 1 || claim.Conditions[0].Entry.Rev != rev {
			t.Errorf("claim %+v", claim)
		}
		if !bytes.Equal(claim.Encode(value), seat.Value) {
			t.Errorf("%q is announced as %q", seat.Value, claim.Encode(value))
		}
		for _, payload := range [][]byte{seat.Value, value} {
			seat.Value = payload
			leader := Leader(seat)
			switch {
			case session == "" && !reflect.DeepEqual(leader, strategy.Leader{}):
				t.Errorf("a persistent entry leads: %+v", leader)
			case session != "" && leader.Token != rev:
				t.Errorf("token %d of an entry of revision %d", leader.Token, rev)
			}
			if who := Candidate(seat, true); session != "" && (who.ID != leader.ID || !bytes.Equal(who.Value, leader.Value) || !who.Leads) {
				t.Errorf("candidate %+v, leader %+v", who, leader)
			}
		}
		if !Marked(seat) && bytes.Equal(seat.Value, Payload(c, true)) {
			t.Errorf("%q bears no mark", seat.Value)
		}
		seat.Value = Payload(c, false)
		if Marked(seat) {
			t.Errorf("%q bears the mark", seat.Value)
		}
		if who := Candidate(seat, false); who.ID != id || !bytes.Equal(who.Value, value) {
			t.Errorf("%q, %q is read as %+v", id, value, who)
		}
	})
}
