package etcd_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/servertest"
)

// beats waits until a heartbeat is confirmed.
func (f *fixture) beats() {
	f.t.Helper()
	now := f.s.Deadline()
	eventually(f.t, "a heartbeat", func() bool { return f.s.Deadline().After(now) })
}

// The connection for heartbeats has the client's TLS and credentials.
func TestHeartbeatsByALineOfTheirOwn(t *testing.T) {
	t.Run("TLS", func(t *testing.T) {
		proxy, config, err := servertest.NewTLSProxy(sharedServer(t).Addr())
		require.NoError(t, err)
		defer proxy.Close()
		endpoint := "https://" + proxy.Addr()
		f := setUpOn(t, 4*time.Second, func(cfg *clientv3.Config) {
			cfg.Endpoints, cfg.TLS = []string{endpoint, endpoint}, config
		})
		f.beats()
	})
	t.Run("authentication", func(t *testing.T) {
		server := guarded(t, t.Context()).Addr()
		f := setUpOn(t, 4*time.Second, as("root"), server, server)
		f.enqueue(f.s)
		f.beats()
	})
}

// Watches are on a member that goes silent, and heartbeats on another: they do not tell.
func TestSilentWatches(t *testing.T) {
	server := sharedServer(t).Addr()
	p := etcdtest.NewProcess(t, []string{server, server}, nil)
	silent, good := p.Proxies[0], p.Proxies[1]
	good.Refuse(true)
	f := setUpWith(t, 4*time.Second, p)
	f.neverLost()
	f.beats()
	other := setUpOn(t, 20*time.Second, nil, server)
	e := other.commit(other.s, backend.Put(f.dir+"/e", nil, 0))[0]
	waiting := f.armed(e)
	good.Refuse(false)
	links := silent.Links()
	require.Len(t, links, 2, "the client's own, and that of the heartbeats")
	links[1].Stall()
	eventually(t, "they move", func() bool { return len(good.Links()) == 2 })
	for range 3 { // until it is known that the watches were not concerned
		f.beats()
	}
	silent.Stall()
	other.commit(other.s, backend.Delete(e))
	got, err := receive(f, waiting)
	require.NoError(t, err)
	assert.False(t, got[0].Exists())
	f.state(backend.Live)
}
