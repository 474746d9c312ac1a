package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// The tests of this file are of real processes on real servers, and look at what is
// stored there.

func TestZooKeeper(t *testing.T) {
	servertest.Long(t, "three processes for each of the deaths")
	t.Parallel()
	server := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true})
	url := "zk://" + server.Addr()
	processes(t, &site{server: server, operator: newZKOperator, url: url + "?timeout=10s", long: url + "?timeout=1m"})
}

func TestEtcd(t *testing.T) {
	servertest.Long(t, "three processes for each of the deaths")
	t.Parallel()
	server := servertest.EtcdForTest(t, servertest.EtcdConfig{NoSync: true})
	url := "etcd://" + server.Addr()
	processes(t, &site{server: server, operator: newEtcdOperator, url: url + "?timeout=10s", long: url + "?timeout=1m"})
}

func TestConsul(t *testing.T) {
	servertest.Long(t, "three processes for each of the deaths")
	t.Parallel()
	server := servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true})
	url := "consul://" + server.Addr()
	processes(t, &site{server: server, operator: newConsulOperator, url: url + "?check=10s", long: url + "?timeout=1m"})
}

// processes takes a service through what can happen to processes. Each cluster has a
// root of its own. The server goes last of all.
func processes(t *testing.T, s *site) {
	t.Run("server there", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *site){
			"partition leader dies": partitionLeaderDies,
			"controller dies":       controllerDies,
			"zombie":                zombie,
			"seat given away":       seatGivenAway,
			"offline":               offlinePartition,
			"goodbye":               goodbye,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel() // most of it waits for sessions to time out
				test(t, s)
			})
		}
	})
	t.Run("server gone", func(t *testing.T) { serverGone(t, s) })
}

// partitionLeaderDies kills a leader that is not the controller. The cluster is at
// the root, where Kafka's own controller is.
func partitionLeaderDies(t *testing.T, s *site) {
	f := s.fleet(t, "/")
	_, two, three := f.three()
	f.create("orders:3:2")
	for n := range 3 {
		p := f.becomes("orders", n, 1+n, []([]int){{1, 2}, {2, 3}, {3, 1}}[n]...)
		assert.Zero(t, p.LeaderEpoch)
		assert.EqualValues(t, 1, p.ControllerEpoch)
	}
	two.says("leads orders-1, leader epoch 0 (controller epoch 1)")
	_, untouched := f.state("orders", 2)

	two.kill()
	p := f.becomes("orders", 1, 3, 3)
	assert.Equal(t, 1, p.LeaderEpoch)
	three.says("leads orders-1, leader epoch 1 (controller epoch 1)")
	p = f.becomes("orders", 0, 1, 1)
	assert.Equal(t, 1, p.LeaderEpoch)
	_, zero := f.state("orders", 0)
	_, one := f.state("orders", 1)
	assert.Equal(t, zero, one, "one death, one commit")
	_, two2 := f.state("orders", 2)
	assert.Equal(t, untouched, two2, "broker 2 has no part in orders-2")

	two = f.start(2) // it comes back
	p = f.becomes("orders", 1, 3, 2, 3)
	assert.Equal(t, 2, p.LeaderEpoch)
	f.becomes("orders", 0, 1, 1, 2)

	second := f.start(2) // a second process under its id takes its place only when it dies
	second.says("broker 2 is registered already")
	two.kill()
	second.says("registered")
	wait.For(f, "broker 2 was out of the ISR and is in again", func() bool {
		p, _ := f.state("orders", 0)
		return p.LeaderEpoch == 4 && len(p.ISR) == 2
	})
	_, epoch, _ := f.controller()
	assert.EqualValues(t, 1, epoch, "the controller has not changed")
}

// controllerDies kills the controller, which leads a partition.
func controllerDies(t *testing.T, s *site) {
	f := s.fleet(t, "/dies")
	f.recordHeartbeats()
	one, _, _ := f.three()
	f.create("orders:3:2")
	f.becomes("orders", 2, 3, 3, 1)

	one.kill()
	id, epoch := f.nextController(1)
	assert.NotEqual(t, 1, id)
	assert.EqualValues(t, 2, epoch, "one above the last one's")
	p := f.becomes("orders", 0, 2, 2)
	assert.EqualValues(t, 2, p.ControllerEpoch)
	assert.Equal(t, 1, p.LeaderEpoch)
	p = f.becomes("orders", 2, 3, 3)
	assert.EqualValues(t, 2, p.ControllerEpoch)
	p, _ = f.state("orders", 1)
	assert.EqualValues(t, 1, p.ControllerEpoch, "nothing to change there")
	f.noLateWrites("orders", 3)
}

// zombie stops the controller for longer than its session.
func zombie(t *testing.T, s *site) {
	f := s.fleet(t, "/zombie")
	f.recordHeartbeats()
	one, _, _ := f.three("-stubborn")
	f.create("orders:3:2")
	f.becomes("orders", 0, 1, 1, 2)

	one.signal(syscall.SIGSTOP)
	_, epoch := f.nextController(1)
	assert.EqualValues(t, 2, epoch)
	f.becomes("orders", 0, 2, 2)
	one.signal(syscall.SIGCONT)
	one.says("commit refused: deposed; controller epoch 1 is over")
	one.says("refused by the service: ")
	one.says("registered")
	one.says("stands for controller, and waits")
	f.becomes("orders", 0, 2, 1, 2)
	f.noLateWrites("orders", 3)
}

// seatGivenAway has an operator who deletes the controller's entry while the
// controller is stopped for less than its session.
func seatGivenAway(t *testing.T, s *site) {
	f := s.fleet(t, "/given")
	f.url = s.long
	f.recordHeartbeats()
	one, _, _ := f.three("-stubborn")
	f.create("orders:3:2")
	f.becomes("orders", 0, 1, 1, 2)
	registered := f.registrations()

	one.signal(syscall.SIGSTOP)
	require.NoError(t, f.delete(f.layout.key("controller")))
	_, epoch := f.nextController(1)
	assert.EqualValues(t, 2, epoch)
	one.signal(syscall.SIGCONT)
	one.says("commit refused: deposed; controller epoch 1 is over: deposed")
	assert.Contains(t, one.says("refused by the service: "), "condition does not hold")
	one.says("stands for controller, and waits")
	assert.ElementsMatch(t, registered, f.registrations(), "its session has lived on")
	f.noLateWrites("orders", 3)
	p, _ := f.state("orders", 0)
	assert.Equal(t, 1, p.Leader, "it has been a broker all the time")
	assert.Zero(t, p.LeaderEpoch)
}

// offlinePartition has the last in-sync replica die, with and without unclean elections.
// The topics are asked for while there is no broker.
func offlinePartition(t *testing.T, s *site) {
	f := s.fleet(t, "/offline")
	f.create("safe:1:2")
	f.create("fast:1:2", "-unclean")
	f.create("safe:1:2") // again, and there is one
	one := f.start(1)
	one.says("topic safe waits for 2 live brokers")
	two := f.start(2)
	f.becomes("safe", 0, 1, 1, 2)
	f.becomes("fast", 0, 1, 1, 2)
	three := f.start(3)
	three.says("stands for controller, and waits")

	two.kill()
	f.becomes("safe", 0, 1, 1)
	f.becomes("fast", 0, 1, 1)
	one.kill() // the last in-sync replica, and the controller
	p := f.becomes("safe", 0, offline, 1)
	assert.Equal(t, partition{Leader: offline, LeaderEpoch: 2, ISR: []int{1}, Replicas: []int{1, 2}, ControllerEpoch: 2}, p)
	f.becomes("fast", 0, offline, 1)

	two = f.start(2)
	p = f.becomes("fast", 0, 2, 2)
	assert.Equal(t, 3, p.LeaderEpoch)
	two.says("leads fast-0, leader epoch 3 (controller epoch 2)")
	p, _ = f.state("safe", 0)
	assert.Equal(t, offline, p.Leader, "broker 2 lives, but was not in sync")

	f.start(1)
	p = f.becomes("safe", 0, 1, 1, 2)
	assert.Equal(t, 4, p.LeaderEpoch, "elected, and then joined by broker 2")
	f.becomes("fast", 0, 2, 1, 2)
}

// goodbye tells the controller to end.
func goodbye(t *testing.T, s *site) {
	f := s.fleet(t, "/goodbye")
	f.url = s.long
	one, _, _ := f.three()
	f.create("orders:3:2")
	f.becomes("orders", 0, 1, 1, 2)
	one.signal(syscall.SIGTERM)
	told := time.Now()
	_, epoch := f.nextController(1)
	assert.EqualValues(t, 2, epoch)
	f.becomes("orders", 0, 2, 2)
	assert.Less(t, time.Since(told), 40*time.Second, "nobody had to wait for a session to time out")
	<-one.ended
	assert.NoError(t, one.cmd.Wait(), "it ends with 0")
}

// serverGone has the server go away for longer than all sessions.
func serverGone(t *testing.T, s *site) {
	f := s.fleet(t, "/gone")
	one, two, three := f.three()
	f.create("orders:3:2")
	f.becomes("orders", 0, 1, 1, 2)
	require.NoError(t, s.server.Kill())
	for _, p := range []*process{one, two, three} {
		p.says("begins anew: ")
	}
	require.NoError(t, s.server.Start())
	// An old connection may have been accepted too early, and never be answered.
	f.operator = s.operator(t, s.server.Addr())
	_, epoch := f.nextController(1)
	assert.Greater(t, epoch, uint64(1))
	wait.For(f, "all partitions have a leader and all their replicas", func() bool {
		for n := range 3 {
			if p, _ := f.state("orders", n); p.Leader == offline || len(p.ISR) != 2 {
				return false
			}
		}
		return len(f.registrations()) == 3
	})
	f.noLateWrites("orders", 3)
}
