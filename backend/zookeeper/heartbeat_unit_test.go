package zookeeper

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
	"github.com/elector-go/elector/backend/zookeeper/internal/wire"
	"github.com/elector-go/elector/backend/zookeeper/internal/wire/wiretest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// A heartbeat without a reply gives up the link that it was sent on, and not the link that the client
// library is making meanwhile.
func TestUnansweredHeartbeatLeavesTheNextLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Servers: []string{"a:1"}}.withDefaults()
		s := newSession(&cfg, new(ballot), time.Minute)
		s.pin.WithBuffer(0, 0)(new(zk.Conn))
		link, conn := wiretest.Greeted(t, s.pin.Attach, nil, nil)
		s.live()
		_, next := wiretest.Attach(t, s.pin.Attach, nil, nil)
		_, err := s.ask(link, false, nil)
		require.ErrorIs(t, err, net.ErrClosed)
		synctest.Wait()
		assert.True(t, conn.Closed)
		assert.False(t, next.Closed)
	})
}

// If the window passes while the handshake's reply comes in, nothing is written over that link.
func TestWindowPassesInTheHandshake(t *testing.T) {
	s := newSession(&Config{Servers: []string{"127.0.0.1:1"}, SessionTimeout: 4 * time.Second}, &ballot{}, 4*time.Second)
	late := false
	s.pin = wire.New(wire.Events{Granted: func(id int64, timeout time.Duration, sent time.Time) error {
		if late {
			s.Lose(driver.ErrWindow)
		}
		return s.granted(id, timeout, sent)
	}}, wire.Queue{}, 0)
	wiretest.Greeted(t, s.pin.Attach, nil, nil)
	late = true
	again, conn := wiretest.Greeted(t, s.pin.Attach, nil, nil) // which closes the session
	sent := len(conn.Wrote)
	wiretest.Say(t, again, wiretest.Frame(int32(1), int32(wire.OpCreate), make([]byte, 50)))
	assert.Len(t, conn.Wrote, sent)
}

// A vote on another link counts if its epoch shows that this link's leader is of the same or a later
// one. A zxid without an epoch shows nothing about leaders, and then only votes on the link count.
func TestVotesNeedEpochs(t *testing.T) {
	const epoch = int64(1) << 32
	// answered returns a link of the session on which a server has replied to a request, at a zxid.
	answered := func(s *session, request int32, zxid int64) *wire.Link {
		s.pin.WithBuffer(0, 0)(new(zk.Conn))
		l, _ := wiretest.Greeted(t, s.pin.Attach, wiretest.Frame(int32(1), zxid, int32(0), int32(-1), true, int32(-1)), nil)
		wiretest.Say(t, l, wiretest.Frame(int32(1), request))
		_, _ = io.ReadAll(l) // a reply like a multi's ends it, if none was asked for
		return l
	}
	for name, try := range map[string]struct {
		here, there int64 // the zxids of the replies on this link, and of the vote on another
		counts      bool
	}{
		"the same epoch": {here: epoch + 5, there: epoch + 9, counts: true},
		"an older vote":  {here: 2*epoch + 5, there: epoch + 9, counts: true},
		"a newer vote":   {here: epoch + 5, there: 2*epoch + 1},
		"no epochs":      {here: 9, there: 5},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Servers: []string{"a:1"}}.withDefaults()
			shared := new(ballot)
			since := time.Now()
			other := newSession(&cfg, shared, time.Minute)
			answered(other, wire.OpMulti, try.there)
			s := newSession(&cfg, shared, time.Minute)
			assert.Equal(t, try.counts, s.voted(answered(s, wire.OpExists, try.here), since))
			assert.True(t, s.voted(answered(s, wire.OpMulti, try.here), since), "a vote on the link itself")
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
