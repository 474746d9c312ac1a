package consul_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/servertest"
)

// The health check goes with the session, and not one of another session's.
func TestWillRemovesTheCheck(t *testing.T) {
	t.Parallel()
	server := servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true})
	f, other := setUpChecked(t, server), setUpChecked(t, server)
	w, err := f.s.Will()
	require.NoError(t, err)
	others, err := other.s.Will()
	require.NoError(t, err)
	by := consultest.NewProcess(t, f.Servers, consultest.Options{}) // without checks of its own
	wrong := w
	wrong.Secret = others.Secret
	require.ErrorContains(t, backend.Execute(f.ctx, by.Backend, wrong), "no health check of this session")
	require.NoError(t, backend.Execute(f.ctx, by.Backend, w))
	assert.False(t, exists(t, f.Servers, f.s.ID()))
	user, err := consultest.Operator(server)
	require.NoError(t, err)
	checks, err := user.Agent().Checks()
	require.NoError(t, err)
	assert.Len(t, checks, 1)
	time.Sleep(2 * check)
	assert.Equal(t, backend.Live, other.s.State())
}

// A leader that is new says that it has ended a session that it has not read of yet.
func TestWillIsNotOverBecauseALeaderHasNotReadOfIt(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	w, err := f.s.Will()
	require.NoError(t, err)
	by := consultest.NewProcess(t, f.Servers, consultest.Options{})
	destroyed := 0
	by.Intercept(func(r *http.Request, _ []byte, send consultest.Send) (*http.Response, error) {
		if path(r, "session/destroy") {
			if destroyed++; destroyed <= 2 {
				return consultest.Answer(http.StatusOK, "true"), nil
			}
		}
		return send()
	})
	require.NoError(t, backend.Execute(f.ctx, by.Backend, w))
	assert.Equal(t, 3, destroyed)
	assert.False(t, exists(t, f.Servers, f.s.ID()))
}

// A token that is refused is tried for a third of the timeout, as a server that was restarted refuses
// any.
func TestWillWithoutTheRight(t *testing.T) {
	t.Parallel()
	server := servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true, ACL: true})
	f := processOn(t, consultest.Options{Token: token(t, server, "enough", enough)}, server)
	f.s = f.open()
	w, err := f.s.Will()
	require.NoError(t, err)
	stranger := consultest.NewProcess(t, f.Servers, consultest.Options{Token: token(t, server, "none", `key "b" { policy = "write" }`)})
	require.ErrorIs(t, backend.Execute(f.ctx, stranger.Backend, w), backend.ErrDenied)
	assert.Equal(t, backend.Live, f.s.State())
	require.NoError(t, backend.Execute(f.ctx, f.Backend, w))
}
