package kafka_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/zktest"
)

// The strategy works on a real server, seen with any ZooKeeper client, as Kafka's tools would.
func TestOnZooKeeper(t *testing.T) {
	c := newRealCluster(t, "/")
	ctx, conn := c.ctx, zktest.Operator(t, c.server.Addr())
	lead := func(e elector.Elector) *elector.Term {
		return must.Get(e.Campaign(ctx))(t)
	}
	read := func(path string) (string, *zk.Stat) {
		data, stat, err := conn.Get(path)
		require.NoError(t, err)
		return string(data), stat
	}

	one, two := c.broker(1, c.connect("")), c.broker(2, c.connect(""))
	term := lead(one)
	data, controller := read("/controller")
	assert.Regexp(t, `^\{"version":1,"brokerid":1,"timestamp":"\d{13}"\}$`, data)
	assert.NotZero(t, controller.EphemeralOwner)
	text, epoch := read("/controller_epoch")
	assert.Equal(t, "1", text)
	assert.Zero(t, epoch.EphemeralOwner)
	assert.Equal(t, controller.Czxid, epoch.Mzxid, "one transaction made both")
	_, root := read("/")
	assert.Zero(t, root.Version, "nothing of ours is in the server's root")

	// By hand, as Kafka does it: the next controller is another broker's process.
	require.NoError(t, term.Resign(ctx))
	_, err := conn.Multi(
		&zk.SetDataRequest{Path: "/controller_epoch", Data: []byte("2"), Version: epoch.Version},
		&zk.CreateRequest{Path: "/controller", Data: []byte(`{"version":2,"brokerid":9,"timestamp":"1700000000123","kraftControllerEpoch":-1}`),
			Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral})
	require.NoError(t, err)
	leader := must.Get(one.Leader(ctx))(t)
	assert.Equal(t, elector.Leader{ID: "9", Token: 2, Seat: leader.Seat, Since: time.UnixMilli(1700000000123)}, leader)
	won := make(chan *elector.Term, 1)
	go func() {
		term, err := two.Campaign(ctx)
		assert.NoError(t, err)
		won <- term
	}()
	require.NoError(t, conn.Delete("/controller", -1))
	term = <-won
	require.NotNil(t, term)
	assert.EqualValues(t, 3, term.Token())

	// The guard protects a transaction of the user's own, on its own connection.
	must.Get(conn.Create("/topics", nil, 0, zk.WorldACL(zk.PermAll)))(t)
	write := func(value string) error {
		g := term.Guard()
		checks := must.Get(zookeeper.Checks(ctx, g.Session, g.Conditions...))(t)
		_, err = conn.Multi(append(checks, &zk.SetDataRequest{Path: "/topics", Data: []byte(value), Version: -1})...)
		return err
	}
	require.NoError(t, write("while it leads"))
	g := term.Guard()
	checks := must.Get(zookeeper.Checks(ctx, g.Session, g.Conditions...))(t)
	require.NoError(t, term.Resign(ctx))
	lead(one)
	_, err = conn.Multi(append(checks, &zk.SetDataRequest{Path: "/topics", Data: []byte("late"), Version: -1})...)
	require.Error(t, err, "a zombie's checks")
	data, _ = read("/topics")
	assert.Equal(t, "while it leads", data)
	text, _ = read("/controller_epoch")
	assert.Equal(t, "4", text)
}
