package consul

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

const id = "4ca8e74b-6350-7587-addf-a18084928f3c"

func TestOwner(t *testing.T) {
	name := nameOf(id, 0x1f, 3)
	require.Equal(t, "e-"+id+"-000000000000001f03", name)
	assert.Equal(t, id, owner("/a/b/"+name))
	assert.Equal(t, id, owner(name))
	for _, foreign := range []string{"", "e-", name[1:], name + "0", name[:len(name)-1], "/" + name + "/", strings.ToUpper(name),
		strings.Replace(name, "addf", "ad-f", 1), strings.Replace(name, "c-0", "c_0", 1), strings.Replace(name, "1f03", "1g03", 1)} {
		assert.Empty(t, owner("/a/"+foreign), foreign)
	}
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

// What is gone is not remembered for ever, but for as long as those who wait may ask.
func TestMemoryOfWhatIsGone(t *testing.T) {
	var m learned
	key := func(dir string, n uint64) string { return "/" + dir + "/" + nameOf(id, n, 0) }
	for i := range uint64(10_000) {
		m.note(backend.Entry{Key: key("a", i)})
	}
	assert.LessOrEqual(t, m.gone.Len(), goneLeast)
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
	// What Consul 1.21.5 says to a key that it does not take any more.
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

// Each status but those that no waiting changes is ridden out, those that nobody has heard of
// among them.
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

// What an answer to a transaction says is never trusted to be what it should be.
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
