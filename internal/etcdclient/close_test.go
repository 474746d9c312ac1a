package etcdclient_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"

	"github.com/elector-go/elector/internal/etcdclient"
)

func newClient(t *testing.T) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}}) // it does not connect
	require.NoError(t, err)
	return client
}

func TestClose(t *testing.T) {
	require.NoError(t, etcdclient.Close(newClient(t), time.Minute))
}

// stuck is a watcher whose Close does not return.
type stuck struct {
	clientv3.Watcher
	until chan struct{}
}

func (w stuck) Close() error {
	<-w.until
	return w.Watcher.Close()
}

func TestCloseIsStuck(t *testing.T) {
	client, until := newClient(t), make(chan struct{})
	defer close(until)
	client.Watcher = stuck{client.Watcher, until}
	require.ErrorContains(t, etcdclient.Close(client, time.Millisecond), "has not returned after 1ms")
	require.Equal(t, connectivity.Shutdown, client.ActiveConnection().GetState())
}
