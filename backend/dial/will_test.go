package dial_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
)

// What a URL opens executes wills, of sessions that another has opened, too.
func TestWill(t *testing.T) {
	s, err := open(t, "mem://wills").Open(t.Context(), backend.OpenOptions{})
	require.NoError(t, err)
	w, err := s.Will()
	require.NoError(t, err)
	require.NoError(t, backend.Execute(t.Context(), open(t, "mem://wills"), w))
	_, err = s.Get(t.Context(), "/any")
	assert.ErrorIs(t, err, backend.ErrSessionLost)
	assert.Implements(t, (*backend.Executor)(nil), open(t, "zk://h"))
}
