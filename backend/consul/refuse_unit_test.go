package consul

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

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
