package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
)

// A cluster is brokers in this process, in fake time.
type cluster struct {
	*testing.T
	service *memory.Service

	mu    sync.Mutex
	lines []string
}

// inCluster runs a test on a cluster whose service takes so many guards and ops in
// one commit (0: any number).
func inCluster(t *testing.T, maxOps int, test func(*cluster)) {
	synctest.Test(t, func(t *testing.T) {
		test(&cluster{T: t, service: memory.New(memory.Options{DefaultTTL: 2 * time.Second, MaxOps: maxOps})})
	})
}

func (c *cluster) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	c.Log(line)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line)
}

func (c *cluster) said(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.lines, func(line string) bool { return strings.Contains(line, text) })
}

// start starts a broker, and returns when it has nothing to do for now.
func (c *cluster) start(id int) *memory.Client {
	process := c.service.Client(fmt.Sprint("broker ", id))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(c, newBroker(id, process, "/demo", c.say).run(ctx)) })
	c.Cleanup(func() { cancel(); running.Wait() })
	synctest.Wait()
	return process
}

func (c *cluster) create(spec string) {
	name, topic, err := parseTopic(spec)
	require.NoError(c, err)
	s, err := c.service.Open(c.Context(), backend.OpenOptions{})
	require.NoError(c, err)
	defer s.Close(context.Background())
	require.NoError(c, createTopic(c.Context(), s, "/demo", name, topic))
	synctest.Wait()
}

// expire lets so much time pass that the service drops whoever is out of touch.
func (c *cluster) expire() {
	time.Sleep(3 * time.Second)
	synctest.Wait()
}

// stored returns the states of a topic's partitions in the service.
func (c *cluster) stored(topic string, partitions int) []partition {
	c.Helper()
	all := make([]partition, partitions)
	for n := range all {
		p, ok := decodePartition(c.service.Entry(layout("/demo").partition(topic, n)))
		require.True(c, ok, "%s-%d has no state", topic, n)
		all[n] = p
	}
	return all
}

// TestManyPartitions has a service that takes three writes at once.
func TestManyPartitions(t *testing.T) {
	inCluster(t, 5, func(c *cluster) {
		c.start(1)
		two := c.start(2)
		c.start(3)
		c.create("orders:20:2")
		for n, p := range c.stored("orders", 20) {
			assert.Equal(t, 1+n%3, p.Leader)
			assert.Zero(t, p.LeaderEpoch)
		}
		two.Suspend()
		c.expire()
		for n, p := range c.stored("orders", 20) {
			assert.NotContains(t, p.ISR, 2)
			assert.NotEqual(t, 2, p.Leader)
			epoch := 1
			if n%3 == 2 { // on brokers 3 and 1
				epoch = 0
			}
			assert.Equal(t, epoch, p.LeaderEpoch)
		}
	})
}

// TestFewCommits holds that one change is one commit where the service takes it.
func TestFewCommits(t *testing.T) {
	inCluster(t, 0, func(c *cluster) {
		c.start(1)
		two := c.start(2)
		c.create("orders:50:2")
		rev := c.service.Entry("/demo/topics/orders/0").Rev
		for n := range 50 {
			assert.Equal(t, rev, c.service.Entry(layout("/demo").partition("orders", n)).Rev, "made in one commit")
		}
		two.Suspend()
		c.expire()
		for _, p := range c.stored("orders", 50) {
			assert.Equal(t, []int{1}, p.ISR)
		}
	})
}

// TestUnfinishedTopic has a controller that died between the assignment of a topic and
// its states.
func TestUnfinishedTopic(t *testing.T) {
	inCluster(t, 0, func(c *cluster) {
		require.NoError(t, c.service.Put("/demo/topics", []byte(`{"orders":{"partitions":2,"replicas":1}}`)))
		require.NoError(t, c.service.Put("/demo/topics/orders", []byte(`{"replicas":[[7],[1]]}`)))
		c.start(1)
		assert.False(t, c.service.Entry("/demo/topics/orders/0").Exists(), "nobody can lead it yet")
		assert.True(t, c.service.Entry("/demo/topics/orders/1").Exists())
		c.start(7)
		assert.Equal(t, []int{7, 1}, []int{c.stored("orders", 2)[0].Leader, c.stored("orders", 2)[1].Leader})
	})
}

// TestTopicWaits asks for a topic that there are too few brokers for.
func TestTopicWaits(t *testing.T) {
	inCluster(t, 0, func(c *cluster) {
		c.create("orders:1:2") // there is no broker at all
		c.start(1)
		assert.True(t, c.said("topic orders waits for 2 live brokers"))
		c.start(2)
		assert.Equal(t, []int{1, 2}, c.stored("orders", 1)[0].ISR)
	})
}

// TestSecondProcess starts a broker again before the service has noticed that it died.
func TestSecondProcess(t *testing.T) {
	inCluster(t, 0, func(c *cluster) {
		c.start(1)
		first := c.start(2)
		c.create("orders:1:2")
		c.create("logs:2:1") // logs-1 is on broker 2 alone
		first.Suspend()
		c.start(2)
		assert.True(t, c.said("broker 2 is registered already"))
		assert.Equal(t, []int{1, 2}, c.stored("orders", 1)[0].ISR)
		c.expire()
		orders, logs := c.stored("orders", 1)[0], c.stored("logs", 2)[1]
		assert.Equal(t, []int{1, 2}, orders.ISR)
		assert.Equal(t, 2, orders.LeaderEpoch, "out of the ISR and in again, though its id was always there")
		assert.Equal(t, 2, logs.Leader)
		assert.Equal(t, 2, logs.LeaderEpoch, "offline and back")
	})
}

// TestOperatorWrites has an operator who writes states by hand.
func TestOperatorWrites(t *testing.T) {
	inCluster(t, 0, func(c *cluster) {
		c.start(1)
		two := c.start(2)
		c.create("orders:3:2")
		byHand := partition{Leader: 1, LeaderEpoch: 70, ISR: []int{1, 2}, Replicas: []int{1, 2}, ControllerEpoch: 1}
		require.NoError(t, c.service.Put("/demo/topics/orders/0", encode(byHand)))
		require.NoError(t, c.service.Put("/demo/topics/orders/1", []byte("?")))
		two.Suspend()
		c.expire()
		assert.True(t, c.said("reads everything again"))
		assert.True(t, c.said("/demo/topics/orders/1 is unreadable"))
		p, _ := decodePartition(c.service.Entry("/demo/topics/orders/0"))
		assert.Equal(t, 71, p.LeaderEpoch, "the next decision goes on from what stands there")
		p, _ = decodePartition(c.service.Entry("/demo/topics/orders/2"))
		assert.Equal(t, []int{1}, p.ISR, "what is unreadable does not keep the others")
	})
}

// TestForeignData puts junk under all keys of the cluster.
func TestForeignData(t *testing.T) {
	inCluster(t, 0, func(c *cluster) {
		require.NoError(t, c.service.Put("/demo/topics", []byte(`{"../x":{"partitions":1000000000},"old":{"partitions":1,"replicas":1}}`)))
		require.NoError(t, c.service.Put("/demo/brokers", []byte("junk")))
		require.NoError(t, c.service.Put("/demo/brokers/somebody", []byte("else")))
		require.NoError(t, c.service.Put("/demo/controller_heartbeat", []byte("junk")))
		c.start(1)
		assert.True(t, c.said("/demo/topics holds what is no topic"))
		assert.Equal(t, 1, c.stored("old", 1)[0].Leader, "the others are served")
		require.NoError(t, c.service.Put("/demo/topics", []byte("junk")))
		synctest.Wait()
		require.NoError(t, c.service.Put("/demo/topics", nil))
		c.create("orders:1:1")
		assert.Equal(t, 1, c.stored("orders", 1)[0].Leader)
		beat, ok := decode[heartbeat](c.service.Entry("/demo/controller_heartbeat").Value)
		assert.True(t, ok)
		assert.EqualValues(t, 1, beat.ControllerEpoch)
	})
}

// TestRegistrationDeleted has an operator who deletes a broker's registration.
func TestRegistrationDeleted(t *testing.T) {
	inCluster(t, 0, func(c *cluster) {
		c.start(1)
		c.start(2)
		c.create("orders:1:2")
		c.service.Delete(c.service.Entries("/demo/brokers")[1].Key)
		c.expire()
		assert.Len(t, c.service.Entries("/demo/brokers"), 2, "it has registered again")
		assert.Equal(t, []int{1, 2}, c.stored("orders", 1)[0].ISR)
		assert.Equal(t, 2, c.stored("orders", 1)[0].LeaderEpoch)
	})
}

// TestOutdatedState shows a broker the state of an earlier controller.
func TestOutdatedState(t *testing.T) {
	b := newBroker(2, memory.New(memory.Options{}), "/", func(format string, args ...any) { t.Logf(format, args...) })
	show := func(leader, epoch int, controller uint64) {
		b.learn("orders-0", backend.Entry{Value: encode(partition{
			Leader: leader, LeaderEpoch: epoch, ISR: []int{1, 2}, Replicas: []int{1, 2}, ControllerEpoch: controller,
		})})
	}
	show(2, 5, 3)
	assert.True(t, b.leads["orders-0"])
	show(1, 6, 2)
	assert.True(t, b.leads["orders-0"], "the controller of epoch 2 is over")
	show(1, 4, 3)
	assert.True(t, b.leads["orders-0"], "leader epoch 4 is over")
	b.stepDown() // and into the next session, which begins at a server that lags behind
	show(2, 4, 2)
	assert.False(t, b.leads["orders-0"], "leader epoch 4 is over in the next session, too")
	show(1, 6, 3)
	assert.Equal(t, 6, b.seen["orders-0"].LeaderEpoch)
}
