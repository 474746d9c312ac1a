package layout

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// FuzzRecord checks that a record is read as it was written, or refused with a line that can be logged,
// however large the payload is.
func FuzzRecord(f *testing.F) {
	for _, value := range []string{
		`{"v":1,"strategy":"fair","dir":"e0123456789abcdef"}`, `{"v":2,"strategy":"fair","dir":"e1"}`, `{"v":1,"strategy":"fair","dir":"../x"}`,
		`{"v":1,"strategy":"fair","dir":"."}`, `{"v":1,"strategy":"","dir":"e"}`, `{"v":1e0,"strategy":"fair","dir":"e"}`, `{"v":-1}`, `{}`, `null`, `[]`, `"v"`, ``, `{`,
		`{"v":1,"strategy":"fair","dir":"a\u0000b"}`, `{"v":1,"strategy":"fair","dir":"\ud800"}`, `{"V":1,"Strategy":"fair","DIR":"e"}`, "\x00\xff",
		`{"v":` + strings.Repeat("9", 3000) + `}`, `{"v":1,"strategy":"s","dir":"` + strings.Repeat("/", 3000) + `"}`, `{"v":1,"strategy":"fair","dir":"e"}{}`,
	} {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := DecodeRecord(value)
		if err != nil {
			message := err.Error()
			if len(message) > 1000 || !utf8.ValidString(message) || strings.ContainsFunc(message, unicode.IsControl) || !strings.Contains(message, "election record") {
				t.Errorf("the message is no good for a log: %d bytes: %.200q", len(message), message)
			}
			if r != (Record{}) {
				t.Errorf("%q is refused, and is %+v", value, r)
			}
			return
		}
		if r.V != Version || r.Strategy == "" || r.Dir == "" || r.Dir == "." || r.Dir == ".." || strings.Contains(r.Dir, "/") {
			t.Errorf("%q is %+v", value, r)
		}
		if again, err := DecodeRecord(r.Encode()); err != nil || again != r {
			t.Errorf("%+v is read as %+v: %v", r, again, err)
		}
	})
}

// FuzzCandidate checks that a candidate is read as it was written, and that any other payload yields
// nothing, or what it says.
func FuzzCandidate(f *testing.F) {
	for _, value := range []string{
		`{"v":1,"id":"a","value":"aGk=","leads":true}`, `{"v":0,"id":"a"}`, `{"v":7,"id":"a","more":[1]}`, `{"v":1,"id":5}`, `{"v":1,"value":"%"}`, `{"v":1,"leads":"yes"}`, `null`, ``,
	} {
		f.Add([]byte(value), "id", true)
	}
	f.Fuzz(func(t *testing.T, value []byte, id string, leads bool) {
		own := Candidate{V: Version, ID: strings.ToValidUTF8(id, "?"), Value: value, Leads: leads}
		if got := DecodeCandidate(own.Encode()); got.ID != own.ID || got.Leads != leads || got.V != Version || !bytes.Equal(got.Value, value) {
			t.Fatalf("%+v is read as %+v", own, got)
		}
		got := DecodeCandidate(value)
		if got.V < 1 && !reflect.DeepEqual(got, Candidate{}) {
			t.Errorf("%q has no version, and is %+v", value, got)
		}
		if got.V >= 1 {
			again := DecodeCandidate(got.Encode())
			if again.V = got.V; !reflect.DeepEqual(again, got) && len(got.Value)+len(again.Value) > 0 {
				t.Errorf("%+v is read as %+v", got, again)
			}
		}
	})
}
