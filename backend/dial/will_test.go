package dial_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
)

// What a URL opens executes wills, also of sessions that another Backend has opened.
func TestWill(t *testing.T) {
	s := must.Get(open(t, "mem://wills").Open(t.Context(), backend.OpenOptions{}))(t)
	require.NoError(t, backend.Execute(t.Context(), open(t, "mem://wills"), must.Get(s.Will())(t)))
	assert.ErrorIs(t, must.Err(s.Get(t.Context(), "/any")), backend.ErrSessionLost)
	assert.Implements(t, (*backend.Executor)(nil), open(t, "zk://h"))
}
