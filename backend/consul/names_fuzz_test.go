package consul

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
)

// FuzzOwner holds that a key is taken for an enqueued entry's only if it is, to the byte,
// one that this package makes, and that it is an entry only where the session in its name
// holds it, directly in the directory.
func FuzzOwner(f *testing.F) {
	good := nameOf(id, 0x1f, 3)
	for _, key := range []string{
		"", "/", "e-", good, "/a/" + good, "/a/b/" + good, good + "0", good[1:], strings.ToUpper(good), "/a/" + good + "/",
		strings.Replace(good, "addf", "ad-f", 1), "e-" + strings.Repeat("-", 36) + good[38:],
	} {
		f.Add(key, id)
		f.Add(key, "")
	}
	f.Fuzz(func(t *testing.T, key, session string) {
		got := owner(key)
		name := key[strings.LastIndexByte(key, '/')+1:]
		if got != "" {
			number := name[len(entryPrefix)+idLength+1:]
			nonce, err := strconv.ParseUint(number[:16], 16, 64)
			op, err2 := strconv.ParseUint(number[16:], 16, 8)
			if err != nil || err2 != nil || nameOf(got, nonce, int(op)) != name {
				t.Fatalf("%q was taken for an entry of session %q", key, got)
			}
		}
		all := enqueued("/a", api.KVPairs{{Key: strings.TrimPrefix(key, "/"), Session: session, CreateIndex: 5, ModifyIndex: 5}})
		is := got != "" && got == session && strings.TrimPrefix(key, "/") == "a/"+name
		if is != (len(all) == 1) || is && all[0].Session != session {
			t.Errorf("%q, held by session %q, in /a: %+v", key, session, all)
		}
	})
}

// FuzzOrder holds that a list is in the order of creation, and for one commit in that of
// its ops, however the server sends it and whatever else is there.
func FuzzOrder(f *testing.F) {
	f.Add([]byte{1, 1, 2, 0, 9, 255}, uint64(7))
	f.Add([]byte{0, 0, 0}, uint64(1))
	f.Fuzz(func(t *testing.T, shape []byte, nonce uint64) {
		if len(shape) > 200 {
			return
		}
		var want []string
		var pairs api.KVPairs
		index := uint64(1)
		op := 0
		for _, b := range shape {
			if b%2 == 0 || op == 255 { // another commit
				index += 1 + uint64(b)
				nonce += 0x9e3779b97f4a7c15
				op = 0
			} else {
				op++
			}
			name := nameOf(id, nonce, op)
			want = append(want, "/a/"+name)
			pairs = append(pairs, &api.KVPair{Key: "a/" + name, Session: id, CreateIndex: index, ModifyIndex: index},
				&api.KVPair{Key: "a/x" + name, Session: id, CreateIndex: index}, &api.KVPair{Key: "a/" + name + "0", CreateIndex: index})
		}
		slices.SortFunc(pairs, func(a, b *api.KVPair) int { return strings.Compare(a.Key, b.Key) }) // as Consul does
		var got []string
		for _, e := range enqueued("/a", pairs) {
			got = append(got, e.Key)
			if indexOf(e) != e.Rev {
				t.Errorf("%+v was last written at %d", e, indexOf(e))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// FuzzKey holds that a key comes back from Consul's name of it as it was.
func FuzzKey(f *testing.F) {
	for _, key := range []string{"/jobs/ünï 日本", "/a\u00a0b", "/a\u200bb", "jobs", "/a//b", "/a?b#c%zz", "/.elector/x"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if got := entryOf(&api.KVPair{Key: path(key)}).Key; backend.CheckKey(key) == nil && got != key {
			t.Fatalf("%q became %q", key, got)
		}
	})
}

// FuzzRefusal has a server refuse a transaction with any text. What comes of it is one of
// the contract's errors, or another attempt; never a success, and never a crash.
func FuzzRefusal(f *testing.F) {
	for _, body := range []string{
		"", "no JSON", "null", "{}", `{"Errors":[]}`, `{"Errors":[null]}`, `{"Errors":[{"OpIndex":2,"What":"invalid session \"x\""}]}`,
		`{"Errors":[{"OpIndex":-1,"What":"x"}]}`, `{"Errors":[{"OpIndex":0,"What":"Permission denied"}]}`, `{"Errors":[{"OpIndex":3,"What":"key \"a\" doesn't exist"}]}`,
		`{"Errors":[{"OpIndex":9223372036854775807,"What":""}]}`, `{"Errors":[{"OpIndex":1,"What":"due to lock delay"}],"Results":[null]}`, `{"Errors":[{"OpIndex":4}]}`,
	} {
		f.Add(body, uint8(1))
		f.Add(body, uint8(3))
	}
	f.Fuzz(func(t *testing.T, body string, shift uint8) {
		given := api.StatusError{Code: 409, Body: body}
		response, err := rolledBack(given)
		if (response == nil) != (err != nil) || err != nil && err != error(given) {
			t.Fatalf("%q: %v, %v", body, response, err)
		}
		if response == nil || invalidSession(response.Errors) { // which ends the session
			return
		}
		c := &commit{s: &session{}, ops: []backend.Op{backend.CompareAndSet("/a/b", nil, 0), backend.CreateEphemeral("/a/c", nil)}}
		p := &plan{parents: make(map[string]bool), touched: make(map[string]touch), shift: int(shift)}
		p.condition(api.KVTxnOp{Key: "g"}, ref{role: roleGuard, key: "/g"})
		p.condition(api.KVTxnOp{Key: "h"}, ref{role: roleGuard, key: "/h", held: true})
		p.parent("/a/b", 0)
		p.add(api.KVTxnOp{Key: "a/b"}, ref{role: roleMain, op: 0, key: "/a/b"})
		p.add(api.KVTxnOp{Key: "a/c"}, ref{role: roleMain, op: 1, key: "/a/c"})
		err = c.takeRefusal(p, response.Errors)
		first := response.Errors[0]
		if at := first.OpIndex - p.shift; err == nil && (at < 0 || at >= 5) {
			t.Errorf("%q: a refusal of an operation that was not sent goes unnoticed", body)
		}
		if err != nil && !strings.Contains(err.Error(), first.What) {
			t.Errorf("%q: %v", body, err)
		}
	})
}
