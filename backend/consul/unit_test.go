package consul

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

const id = "4ca8e74b-6350-7587-addf-a18084928f3c"

// FuzzOwner tests other names.
func TestOwner(t *testing.T) {
	name := nameOf(id, 0x1f, 3)
	require.Equal(t, "e-"+id+"-000000000000001f03", name)
	assert.Equal(t, id, owner("/a/b/"+name))
	assert.Equal(t, id, owner(name))
}

func TestEnqueued(t *testing.T) {
	pair := func(key, session string, created uint64) *api.KVPair {
		return &api.KVPair{Key: key, Session: session, CreateIndex: created, ModifyIndex: created + 4}
	}
	first, second, third := nameOf(id, 9, 0), nameOf(id, 8, 0), nameOf(id, 8, 1)
	got := enqueued("/a", api.KVPairs{
		pair("a/"+third, id, 7), pair("a/"+second, id, 7), pair("a/"+first, id, 5),
		pair("a/"+nameOf(id, 1, 0), "", 1), // released, or put by somebody
		pair("a/"+nameOf(id, 2, 0), "another", 1),
		pair("a/b/"+nameOf(id, 3, 0), id, 1),
		pair("a/seat", id, 1),
		pair("a/", "", 1),
	})
	require.Len(t, got, 3)
	for i, name := range []string{first, second, third} {
		assert.Equal(t, "/a/"+name, got[i].Key)
	}
	assert.Equal(t, backend.Entry{Key: "/a/" + first, Rev: 5, Version: 5, Session: id}, got[0])
	assert.EqualValues(t, 9, indexOf(got[0]))
}

// Entries that are gone are remembered only for as long as waits may ask for them.
func TestMemoryOfWhatIsGone(t *testing.T) {
	var m learned
	key := func(dir string, n uint64) string { return "/" + dir + "/" + nameOf(id, n, 0) }
	for i := range uint64(10_000) {
		m.note(backend.Entry{Key: key("a", i)})
	}
	assert.LessOrEqual(t, m.gone.Len(), driver.GoneLeast)
	const waiting = 100
	for i := range waiting {
		m.before.Put(key(fmt.Sprintf("b%d", i), 1), ahead{})
	}
	m.gone.Limit(0)
	for i := range waiting {
		m.note(backend.Entry{Key: key(fmt.Sprintf("b%d", i), 0)})
	}
	for i := range waiting {
		assert.True(t, m.gone.Has(key(fmt.Sprintf("b%d", i), 0)), "the one before %d", i)
	}
}

func TestTransient(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	for _, err := range []error{dial, errSilent, errors.New("EOF"), api.StatusError{Code: 500}, api.StatusError{Code: 503}, api.StatusError{Code: 429}, api.StatusError{Code: 404}, api.StatusError{Code: 408}, api.StatusError{Code: 418}, errNoIndex, errNull,
		textError(errors.New("Failed request: rpc error making call: No cluster leader"))} {
		assert.True(t, transient(err), "%v", err)
	}
	for _, err := range []error{nil, api.StatusError{Code: 400}, api.StatusError{Code: 413}, context.Canceled, as(backend.ErrSessionLost, driver.ErrClosed)} {
		assert.False(t, transient(err), "%v", err)
	}
	// The reply of Consul 1.21.5 to a key that it no longer accepts.
	const badKey = `invalid key name, keys should respect the "^[a-zA-Z0-9,_./\\-?&=]+$" format`
	for _, err := range []error{api.StatusError{Code: 500, Body: badKey}, textError(errors.New("Failed request: " + badKey))} {
		assert.False(t, transient(err), "%v", err)
		require.ErrorIs(t, answerError(err), backend.ErrBadKey)
		require.NotErrorIs(t, answerError(err), backend.ErrUnavailable)
	}
	assert.True(t, unsent(dial))
	assert.False(t, unsent(&net.OpError{Op: "read", Err: errors.New("reset")}))
	require.ErrorIs(t, answerError(textError(errors.New("Failed request: ACL not found"))), backend.ErrDenied)
	require.ErrorIs(t, answerError(api.StatusError{Code: 429}), backend.ErrUnavailable)
	require.ErrorContains(t, answerError(api.StatusError{Code: 429}), "http_max_conns_per_client")
}

// Each status except those that waiting does not change is ridden out, unknown ones among them.
func TestEveryStatus(t *testing.T) {
	lasting := []int{400, 405, 413, 414, 431, 501} // see the table
	denied, tooLarge := []int{401, 403}, []int{413}
	for status := 300; status < 1000; status++ {
		err := api.StatusError{Code: status}
		assert.Equal(t, !slices.Contains(lasting, status), transient(err), "%d", status)
		told := answerError(err)
		assert.Equal(t, transient(err) && !forbidden(err), errors.Is(told, backend.ErrUnavailable), "%d", status)
		assert.Equal(t, slices.Contains(denied, status), errors.Is(told, backend.ErrDenied), "%d", status)
		assert.Equal(t, slices.Contains(tooLarge, status), errors.Is(told, backend.ErrTooLarge), "%d", status)
	}
}

// The content of a reply to a transaction is never trusted to be what it should be.
func TestRolledBack(t *testing.T) {
	for _, body := range []string{"", "no JSON", "null", "{}", `{"Errors":[]}`, `{"Errors":[null]}`, `{"Errors":[{}],"Results":[null]}`, `{"Errors":"x"}`} {
		given := api.StatusError{Code: 409, Body: body}
		response, err := rolledBack(given)
		assert.Nil(t, response, body)
		assert.Equal(t, error(given), err, body)
	}
	response, err := rolledBack(api.StatusError{Code: 409, Body: `{"Errors":[{"OpIndex":2,"What":"invalid session \"x\""}]}`})
	require.NoError(t, err)
	assert.Equal(t, 2, response.Errors[0].OpIndex)
	assert.True(t, invalidSession(response.Errors))
}

// FuzzOwner checks that a key counts as an enqueued entry's only if this package makes it, to the byte,
// and that it is an entry only if the session in its name holds it, directly in the directory.
func FuzzOwner(f *testing.F) {
	good := nameOf(id, 0x1f, 3)
	for _, key := range []string{
		"", "/", "e-", good, "/a/" + good, "/a/b/" + good, good + "0", good[1:], strings.ToUpper(good), "/a/" + good + "/",
		strings.Replace(good, "addf", "ad-f", 1), strings.Replace(good, "c-0", "c_0", 1), strings.Replace(good, "1f03", "1g03", 1), "e-" + strings.Repeat("-", 36) + good[38:],
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

// FuzzOrder checks that a list is in the order of creation, and for one commit in the order of its ops,
// for any order in which the server sends it, and with any other keys.
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

// FuzzKey checks that a key comes back from Consul's name of it as it was.
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

// FuzzRefusal checks that a refusal of a transaction with any text gives one of the contract's errors,
// or another attempt; never a success, and never a crash.
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
		if response == nil || invalidSession(response.Errors) { // this ends the session
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
