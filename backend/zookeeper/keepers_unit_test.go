package zookeeper

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// greeted is a link of the session on which a server has answered a request, at a zxid.
func greeted(t *testing.T, s *session, request int32, zxid int64) *link {
	t.Helper()
	answer := frame(int32(1), zxid, int32(0), int32(-1), true, int32(-1))
	l, _ := startLink(t, s.pin, join(connectResponse(5, 4000), answer), whole)
	_, err := l.Write(connectRequest(s.pin.session))
	require.NoError(t, err)
	_, err = l.Write(frame(int32(1), request))
	require.NoError(t, err)
	for err == nil {
		_, err = l.Read(make([]byte, 4096))
	}
	return l
}

// A vote on another link counts where its epoch shows that this link's leader is of the same or a
// later one. A zxid without an epoch shows nothing of leaders, and then only votes on the link count.
func TestVotesNeedEpochs(t *testing.T) {
	const epoch = int64(1) << 32
	for name, try := range map[string]struct {
		here, there int64 // the zxids of the answers on this link, and of the vote on another
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
			greeted(t, other, opMulti, try.there)
			s := newSession(&cfg, shared, time.Minute)
			assert.Equal(t, try.counts, s.voted(greeted(t, s, opExists, try.here), since))
			assert.True(t, s.voted(greeted(t, s, opMulti, try.here), since), "a vote on the link itself")
		})
	}
}

// A server that grants a session without a password is no ZooKeeper. What a session has is not taken from it,
// as its other servers may be right ones.
func TestWireRefusesServersWithoutPasswords(t *testing.T) {
	var e wireEvents
	p := newPin(&e)
	connect := func(response []byte) error {
		l, _ := startLink(t, p, response, whole)
		_, err := l.Write(connectRequest(p.session))
		require.NoError(t, err)
		_, err = l.Read(make([]byte, 100))
		return err
	}
	for _, session := range []int64{5, -1} { // the latter is of a Keeper that has no leader
		require.ErrorIs(t, connect(keeperResponse(session)), errors.ErrUnsupported)
	}
	assert.Equal(t, 2, e.foreign)
	assert.Zero(t, p.session, "none was granted")
	require.NoError(t, connect(connectResponse(5, 4000)))
	require.ErrorIs(t, connect(keeperResponse(6)), errors.ErrUnsupported)
	assert.Equal(t, 2, e.foreign, "the session goes on")
	assert.Zero(t, e.expired, "another server may know it")
}
