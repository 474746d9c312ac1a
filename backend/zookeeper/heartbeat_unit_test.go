package zookeeper

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A heartbeat that is not answered gives up the link that it was sent on, and not one that the
// client library is making meanwhile.
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
