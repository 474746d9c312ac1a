package zookeeper_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
)

func TestTLSAndChroot(t *testing.T) {
	server := servertest.SharedZooKeeper(t)
	proxy, config, err := proxytest.NewTLS(server.Addr())
	require.NoError(t, err)
	defer proxy.Close()
	chroot := newRoot() + "/deep"
	b, err := zookeeper.New(zookeeper.Config{Servers: []string{proxy.Addr()}, TLS: config, Chroot: chroot})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	s, err := b.Open(ctx, backend.OpenOptions{})
	require.NoError(t, err)
	defer s.Close(ctx)
	made, err := s.Commit(ctx, nil, backend.CompareAndSet("/a", nil, 0), backend.CreateEphemeral("/a/seat", []byte("x")), backend.Enqueue("/a", nil))
	require.NoError(t, err)
	assert.Equal(t, "/a/seat", made[1].Key)
	got, err := s.Get(ctx, "/a/seat")
	require.NoError(t, err)
	assert.True(t, got.Same(made[1]))
	assert.Equal(t, chroot+"/a", zookeeper.Path(s, "/a"))
	data, _, err := zookeeper.Conn(s).Get(zookeeper.Path(s, "/a/seat"))
	require.NoError(t, err)
	assert.Equal(t, "x", string(data))
	waiting := make(chan error, 1)
	go func() { _, err := s.Await(ctx, made[2]); waiting <- err }()
	require.NoError(t, s.Discard(ctx, made[2]))
	require.NoError(t, <-waiting)
}

// A parent with a value of its own keeps it when an exclusive entry is made in it.
func TestCreateKeepsTheParentsValue(t *testing.T) {
	f := setUp(t, nil)
	record := f.commit(f.s, backend.CompareAndSet(f.dir+"/record", []byte("mine"), 0))[0]
	seat := f.commit(f.s, backend.CreateEphemeral(record.Key+"/seat", nil))[0]
	got, err := f.s.Get(f.ctx, record.Key)
	require.NoError(t, err)
	assert.Equal(t, "mine", string(got.Value))
	// Others create there, too, and the condition still knows the seat.
	other := f.open()
	for _, name := range []string{"/a", "/b"} {
		f.commit(other, backend.CreateEphemeral(record.Key+name, nil))
		_, err = f.s.Commit(f.ctx, []backend.Condition{backend.IfExists(seat)}, backend.CompareAndSet(record.Key+name+"x", nil, 0))
		require.NoError(t, err)
	}
	// A successor under the same key is another incarnation, for whoever asks.
	require.NoError(t, f.s.Discard(f.ctx, seat))
	successor := f.commit(other, backend.CreateEphemeral(seat.Key, nil))[0]
	for _, s := range []*backend.Session{f.s, other} {
		_, err = s.Commit(f.ctx, []backend.Condition{backend.IfExists(seat)}, backend.CompareAndSet(record.Key+"/y", nil, 0))
		require.ErrorIs(t, err, backend.ErrCondition)
		_, err = s.Commit(f.ctx, nil, backend.Delete(seat))
		require.ErrorIs(t, err, backend.ErrNoEntry)
		_, err = s.Commit(f.ctx, []backend.Condition{backend.IfExists(successor)}, backend.CompareAndSet(record.Key+"/"+s.ID(), nil, 0))
		require.NoError(t, err)
	}
}

// A condition that a commit's own op implies fails as a condition, known to be gone or not.
func TestImpliedGuard(t *testing.T) {
	f := setUp(t, nil)
	other := f.open()
	e := f.enqueue(f.s)
	require.NoError(t, f.s.Discard(f.ctx, e))
	for _, s := range []*backend.Session{f.s, other, other} {
		for _, op := range []backend.Op{backend.Delete(e), backend.Update(e, nil)} {
			_, err := s.Commit(f.ctx, []backend.Condition{backend.IfExists(e)}, op)
			require.ErrorIs(t, err, backend.ErrCondition)
			_, err = s.Commit(f.ctx, nil, op)
			require.ErrorIs(t, err, backend.ErrNoEntry)
		}
	}
}

// What a commit costs when nothing has to be learned: one request.
func TestCommitsTakeOneRoundTrip(t *testing.T) {
	f := setUp(t, pings)
	requests := f.countRequests()
	e := f.enqueue(f.s)
	seat := f.commit(f.s, backend.CreateEphemeral(f.dir+"/seat", nil))[0]
	_, err := f.s.Commit(f.ctx, []backend.Condition{backend.IfExists(e), backend.IfExists(seat)}, backend.Update(seat, []byte("v")), backend.CompareAndSet(f.dir+"/p", nil, 0))
	require.NoError(t, err)
	require.NoError(t, f.s.Discard(f.ctx, seat))
	require.NoError(t, f.s.Discard(f.ctx, e))
	assert.Equal(t, []int32{
		proxytest.OpMulti, proxytest.OpMulti, proxytest.OpMulti, proxytest.OpMulti, proxytest.OpDelete,
	}, requests.all())
}

// The server's own nodes are there, and are no entries: nobody can found an election at one.
func TestServersOwnNodes(t *testing.T) {
	f := setUp(t, nil)
	for _, key := range []string{"/zookeeper", "/zookeeper/quota"} {
		_, err := f.s.Get(f.ctx, key)
		require.ErrorIs(t, err, backend.ErrBadKey)
		_, err = elector.New(elector.Config{Backend: f.Backend, Strategy: fair.New(), Election: key, ID: "a"})
		require.ErrorIs(t, err, elector.ErrConfig)
		require.ErrorIs(t, err, backend.ErrBadKey)
	}
}

// Where the server grants less than was asked for, Config.Margin may leave heartbeats no time to
// move the window.
func TestMarginForWhatIsGranted(t *testing.T) {
	server := servertest.SharedZooKeeper(t)
	for heartbeat, margin := range map[zookeeper.Heartbeat]time.Duration{zookeeper.HeartbeatLeader: 20 * time.Second, zookeeper.HeartbeatPing: 40 * time.Second} {
		b, err := zookeeper.New(zookeeper.Config{Servers: []string{server.Addr()}, Heartbeat: heartbeat, Margin: margin, SessionTimeout: 2 * time.Minute})
		require.NoError(t, err)
		_, err = b.Open(t.Context(), backend.OpenOptions{})
		require.ErrorContains(t, err, "granted")
		require.ErrorContains(t, err, margin.String())
	}
}
