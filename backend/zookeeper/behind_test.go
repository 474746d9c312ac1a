package zookeeper_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
)

// A server that is behind does not have a directory that was just made by way of another
// server. A commit is decided by the leader, and finds it.
func TestCreateInANewDirectory(t *testing.T) {
	svc := zktest.Ensemble(t).Service(ttl)(t)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	defer cancel()
	var sessions []*backend.Session
	for member := range svc.Members {
		c, free := svc.ClientAt(t, member)
		defer free()
		s, err := c.Backend.Open(ctx, backend.OpenOptions{})
		require.NoError(t, err)
		defer s.Close(ctx)
		sessions = append(sessions, s)
	}
	for i := range 100 {
		dir := fmt.Sprint(svc.Root, "/", i)
		_, err := sessions[i%len(sessions)].Commit(ctx, nil, backend.CompareAndSet(dir, nil, 0))
		require.NoError(t, err)
		for j, s := range sessions {
			_, err := s.Commit(ctx, nil, backend.CreateEphemeral(fmt.Sprint(dir, "/seat", j), nil))
			require.NoError(t, err)
		}
	}
}
