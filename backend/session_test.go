package backend_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
)

// Two ops on one key are refused before the service is asked, since services treat them differently. An
// enqueued entry has a key of its own.
func TestCommitOfTwoOpsOnOneKey(t *testing.T) {
	s := must.Get(memory.New(memory.Options{}).Client("c").Open(t.Context(), backend.OpenOptions{}))(t)
	defer func() { require.NoError(t, s.Close(context.Background())) }()
	_, err := s.Commit(t.Context(), nil, backend.CompareAndSet("/a/b", nil, 0), backend.CreateEphemeral("/a/c", nil), backend.CompareAndSet("/a/b", nil, 1))
	require.ErrorContains(t, err, "two operations are about /a/b")
	require.ErrorIs(t, must.Err(s.Get(t.Context(), "/a/b")), backend.ErrNoEntry)

	_, err = s.Commit(t.Context(), nil, backend.CompareAndSet("/a", nil, 0), backend.Enqueue("/a", nil), backend.Enqueue("/a", nil))
	require.ErrorContains(t, err, "two operations enqueue in /a:")
	must.Get(s.Commit(t.Context(), nil, backend.CompareAndSet("/a", nil, 0), backend.Enqueue("/a", nil)))(t)
}
