package consul_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/must"
)

// A will removes its session's health check, and no other session's.
func TestWillRemovesTheCheck(t *testing.T) {
	t.Parallel()
	f, other := setUpChecked(t, sharedServer(t)), setUpChecked(t, sharedServer(t))
	own, its := f.checkID(), other.checkID()
	w := must.Get(f.S.Will())(t)
	others := must.Get(other.S.Will())(t)
	by := consultest.NewProcess(t, f.Servers, consultest.Options{}) // without its own checks
	wrong := w
	wrong.Secret = others.Secret
	require.ErrorContains(t, backend.Execute(f.Ctx, by.Backend, wrong), "not that of this session")
	require.NoError(t, backend.Execute(f.Ctx, by.Backend, w))
	assert.False(t, exists(t, f.Servers, f.S.ID()))
	assert.Nil(t, f.checkOf(own))
	assert.NotNil(t, other.checkOf(its))
	other.renewed()
}

// A refused token is tried for a third of the timeout, as a server that was restarted refuses any.
func TestWillWithoutTheRight(t *testing.T) {
	t.Parallel()
	f := withRules(t, enough)
	f.S = f.open()
	w := must.Get(f.S.Will())(t)
	stranger := withRules(t, `key "b" { policy = "write" }`)
	require.ErrorIs(t, backend.Execute(f.Ctx, stranger.Backend, w), backend.ErrDenied)
	assert.Equal(t, backend.Live, f.S.State())
	require.NoError(t, backend.Execute(f.Ctx, f.Backend, w))
}
