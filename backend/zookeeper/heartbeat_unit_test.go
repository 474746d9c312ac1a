package zookeeper

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// A heartbeat without a reply gives up the link that it was sent on, and not the link that the client
// library is making meanwhile.
func TestUnansweredHeartbeatLeavesTheNextLink(t *testing.T) {
	for name, linkLost := range map[string]bool{"on the same link": false, "while a new one is made": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := Config{Servers: []string{"a:1"}}.withDefaults()
				s := newSession(&cfg, new(ballot), time.Minute)
				require.NoError(t, s.granted(1, time.Minute, time.Now()))
				s.live()
				_, conn := startLink(t, s.pin, nil, whole)
				released := make(chan struct{})
				_, err := s.beatOnce(1, func() error {
					if linkLost {
						s.suspend()
					}
					<-released
					return nil
				})
				require.Error(t, err)
				assert.Equal(t, !linkLost, conn.closed)
				close(released)
			})
		})
	}
}

// A session is live before the client library has noted the connection. A server that answers
// heartbeats still counts as serving, even if other sessions of the Backend vote.
func TestServesByHeartbeat(t *testing.T) {
	t.Parallel()
	server := servertest.SharedZooKeeper(t)
	b := must.Get(New(Config{Servers: []string{server.Addr()}}))(t)
	b.ballot.cast(time.Now().Add(time.Hour), 0) // no matter what another session has voted
	s := must.Get(b.Open(t.Context(), backend.OpenOptions{TTL: 20 * time.Second}))(t)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	own := driver.Of[*session](s)
	serves := func() bool {
		own.hosts.mu.Lock()
		defer own.hosts.mu.Unlock()
		return own.hosts.served
	}
	wait.For(t, "the first heartbeat", serves)
	own.hosts.Connected()
	wait.For(t, "the next heartbeat", serves)
}
