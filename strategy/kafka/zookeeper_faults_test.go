package kafka_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
	"github.com/elector-go/elector/strategy/kafka"
)

// A realCluster is a number of brokers on a real server.
type realCluster struct {
	t      *testing.T
	ctx    context.Context
	server *servertest.ZooKeeper
	root   string
}

func newRealCluster(t *testing.T, root string) *realCluster {
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	t.Cleanup(cancel)
	return &realCluster{t, ctx, servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true}), root}
}

func (c *realCluster) broker(id int, b backend.Backend) elector.Elector {
	e := must.Get(elector.New(elector.Config{Backend: b, Strategy: kafka.Strategy{}, Election: c.root, ID: strconv.Itoa(id)}))(c.t)
	c.t.Cleanup(func() { assert.NoError(c.t, e.Close(context.Background())) })
	return e
}

func (c *realCluster) connect(chroot string) backend.Backend {
	return must.Get(zookeeper.New(zookeeper.Config{Servers: []string{c.server.Addr()}, SessionTimeout: 30 * time.Second, Chroot: chroot}))(c.t)
}

// campaign starts a broker's campaign.
func (c *realCluster) campaign(e elector.Elector) <-chan *elector.Term {
	won := make(chan *elector.Term, 1)
	ctx, cancel := context.WithCancel(c.ctx)
	c.t.Cleanup(cancel)
	go func() {
		if term, err := e.Campaign(ctx); err == nil {
			won <- term
		}
	}()
	return won
}

// Two brokers that share a session claim the same vacancy with the same epoch, and both replies are lost. One
// of them has won.
func TestRepliesToTwoClaimsOfOneSessionAreLost(t *testing.T) {
	for _, root := range []string{"/", "/k"} {
		t.Run(root, func(t *testing.T) {
			c := newRealCluster(t, root)
			process := zktest.NewProcess(t, []string{c.server.Addr()}, nil)
			shared := backend.Share(process.Backend, 30*time.Second)
			held, release := process.Proxies[0].HoldReply(zktest.MatchKind(backend.OpCreateEphemeral))
			one, two := c.campaign(c.broker(1, shared)), c.campaign(c.broker(2, shared))
			<-held
			// The other claim may be held as well, or wait behind the first one's reply.
			select {
			case <-held:
			case <-time.After(500 * time.Millisecond):
			}
			process.Cut()
			release()
			var winner *elector.Term
			select {
			case winner = <-one:
			case winner = <-two:
			case <-c.ctx.Done():
				t.Fatal("nobody won")
			}
			require.EqualValues(t, 1, winner.Token())
			select {
			case <-one:
				t.Fatal("both won")
			case <-two:
				t.Fatal("both won")
			case <-time.After(time.Second):
			}
			assert.True(t, winner.Valid())
		})
	}
}

// Somebody deletes the chroot under brokers that wait.
func TestChrootDeleted(t *testing.T) {
	c := newRealCluster(t, "/")
	operator := zktest.Operator(t, c.server.Addr())
	one, two := c.broker(1, c.connect("/prod/kafka")), c.broker(2, c.connect("/prod/kafka"))
	term := <-c.campaign(one)
	require.NotNil(t, term)
	next := c.campaign(two)
	require.Eventually(t, func() bool { // it waits: it has looked
		watches, err := c.server.Metrics()
		return err == nil && watches["watch_count"] >= 3
	}, wait.Patience, 10*time.Millisecond)
	// At once: else the one that waits may win in between, and lose its entry, too.
	var all []any
	for _, path := range []string{"/prod/kafka/controller", "/prod/kafka/controller_epoch", "/prod/kafka", "/prod"} {
		all = append(all, &zk.DeleteRequest{Path: path, Version: -1})
	}
	must.Get(operator.Multi(all...))(t)
	<-term.Context().Done()
	select {
	case term = <-next:
		assert.True(t, term.Valid())
	case <-c.ctx.Done():
		t.Fatal("the one that waited is stuck")
	}
}

// A leader that may not delete its own entry gives up its session, so that the entry goes and the cluster is
// not left without a leader.
func TestNoRightToDelete(t *testing.T) {
	c := newRealCluster(t, "/k")
	operator := zktest.Operator(t, c.server.Addr())
	must.Get(operator.Create("/k", nil, 0, zk.WorldACL(zk.PermCreate|zk.PermRead|zk.PermWrite)))(t)
	terms := 0
	err := elector.Run(c.ctx, c.broker(1, c.connect("")), func(context.Context, *elector.Term) error {
		if terms++; terms < 3 {
			return errors.New("cannot work")
		}
		return nil
	})
	require.NoError(t, err)
}

// Two goroutines of a leader raise the same counter from the same version, and the replies are lost: one of
// them has raised it.
func TestRepliesToTwoEqualWritesAreLost(t *testing.T) {
	c := newRealCluster(t, "/k")
	process := zktest.NewProcess(t, []string{c.server.Addr()}, nil)
	term := <-c.campaign(c.broker(1, process.Backend))
	require.NotNil(t, term)
	made := must.Get(term.Commit(c.ctx, elector.Create("/counter", []byte("5"))))(t)
	held, release := process.Proxies[0].HoldReply(zktest.MatchKind(backend.OpCompareAndSet))
	results := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := term.Commit(c.ctx, elector.CompareAndSet("/counter", []byte("6"), made[0].Version))
			results <- err
		}()
	}
	<-held
	select {
	case <-held:
	case <-time.After(500 * time.Millisecond):
	}
	process.Cut()
	release()
	first, second := <-results, <-results
	assert.False(t, first == nil && second == nil, "both succeeded")
	assert.False(t, first != nil && second != nil, "neither succeeded: %v, %v", first, second)
}
