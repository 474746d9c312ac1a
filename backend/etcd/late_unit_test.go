package etcd

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
)

// The answer to Open may come when the window has passed.
func TestGrantedTooLate(t *testing.T) {
	t.Parallel()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}})
	require.NoError(t, err)
	defer client.Close()
	b, err := New(client, Config{})
	require.NoError(t, err)
	s := b.start(&clientv3.LeaseGrantResponse{ID: 1, TTL: 2}, time.Now().Add(-time.Minute))
	if state, err := s.AwaitState(t.Context(), backend.Live); state != backend.Lost {
		t.Errorf("state %v, error %v", state, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = s.Close(ctx) // nobody is there to confirm it
}
