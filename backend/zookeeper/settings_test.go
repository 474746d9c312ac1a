package zookeeper_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
	"github.com/elector-go/elector/strategy/fair"
)

// works checks that a session at these servers does all that an election needs, and goes on after its link
// broke: two candidates, of which the first resigns; and a will.
func works(t *testing.T, servers []string, change func(*zookeeper.Config)) {
	t.Helper()
	p := process(t, servers, sessionTimeout(20*time.Second), change)
	election := newRoot()
	first := p.Stand(elector.Config{Backend: p.Backend, Election: election})
	term := must.Get(first.Campaign(p.Ctx))(t)
	second := p.Stand(elector.Config{Backend: p.Backend, Election: election})
	next := wait.Later(func() (*elector.Term, error) { return second.Campaign(p.Ctx) })
	wait.For(t, "both stand", func() bool {
		all, err := first.Candidates(p.Ctx)
		return err == nil && len(all) == 2
	})
	for range 3 {
		p.Cut()
		must.Get(term.Commit(p.Ctx, elector.Put(election+"/state", nil)))(t)
	}
	require.True(t, term.Valid(), "%v", context.Cause(term.Context()))
	require.NoError(t, term.Resign(p.Ctx))
	require.True(t, wait.Value(t, next).Valid())

	s := p.open()
	e := p.Commit(s, backend.CreateEphemeral(election+"/mine", nil))[0]
	will, err := s.Will()
	require.NoError(t, err)
	require.NoError(t, backend.Execute(p.Ctx, p.Backend, will))
	gone := p.open()
	wait.For(t, "the will is executed", func() bool {
		return errors.Is(must.Err(gone.Get(p.Ctx, e.Key)), backend.ErrNoEntry)
	})
}

// refusedAtOnce checks that a campaign ends, and what it says.
func refusedAtOnce(t *testing.T, servers []string, change func(*zookeeper.Config), want error, says string) {
	t.Helper()
	p := process(t, servers, sessionTimeout(20*time.Second), change)
	ctx, cancel := context.WithTimeout(p.Ctx, 15*time.Second)
	defer cancel()
	var retries []error
	e := p.Stand(elector.Config{Backend: p.Backend, Election: newRoot(), Hooks: elector.Hooks{Retry: func(r elector.RetryEvent) { retries = append(retries, r.Err) }}})
	_, err := e.Campaign(ctx)
	assert.ErrorIs(t, err, want, "retried for: %v", retries)
	assert.ErrorContains(t, err, says)
}

// Settings of servers that a company may have: elections work, or end with an error that says why they cannot.
func TestSettingsOfServers(t *testing.T) {
	t.Parallel()
	auth := func(cfg *zookeeper.Config) { cfg.Auth = []zookeeper.Auth{zookeeper.Digest("ann", "secret")} }
	server := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true,
		Extra:            []string{"enforce.auth.enabled=true", "enforce.auth.schemes=digest", "enforceQuota=true"},
		SystemProperties: map[string]string{"zookeeper.globalOutstandingLimit": "1"},
	})
	t.Run("enforceAuth", func(t *testing.T) {
		works(t, []string{server.Addr()}, auth)
		refusedAtOnce(t, []string{server.Addr()}, nil, backend.ErrDenied, "authenticate")
	})
	t.Run("quota", func(t *testing.T) {
		p := process(t, []string{server.Addr()}, auth)
		s := p.open()
		zktest.SetQuota(t, zookeeper.Conn(s), "/quota", 4)
		var err error
		for i := 0; i < 10 && err == nil; i++ {
			_, err = s.Commit(p.Ctx, nil, backend.CompareAndSet(fmt.Sprint("/quota/", i), nil, 0))
			t.Log(i, err)
		}
		assert.ErrorIs(t, err, backend.ErrUnavailable)
		assert.ErrorContains(t, err, "quota")
	})
}

// A server that throttles refuses what has waited for too long: it is asked again.
func TestSettingThrottle(t *testing.T) {
	servertest.Long(t, "a server")
	t.Parallel()
	server := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, SystemProperties: map[string]string{
		"zookeeper.request_throttle_max_requests": "1", "zookeeper.request_throttle_stall_time": "20", "zookeeper.throttled_op_wait_time": "5",
	}})
	p := process(t, []string{server.Addr()}, sessionTimeout(20*time.Second))
	election := newRoot()
	var done []<-chan wait.Result[int]
	for range 10 {
		e := p.Stand(elector.Config{Backend: p.Backend, Election: election})
		done = append(done, wait.Later(func() (int, error) {
			term, err := e.Campaign(p.Ctx)
			if err != nil {
				return 0, err
			}
			return 0, term.Resign(p.Ctx)
		}))
	}
	for _, d := range done {
		require.NoError(t, wait.Receive(t, "a campaign ends", d).Err)
	}
	metrics := must.Get(server.Metrics())(t)
	t.Log(metrics["stale_requests"], metrics["throttled_ops"], metrics["request_throttle_wait_count"])
}

// Sessions with a negative number, at members that give local sessions, which become global when they
// make an entry; and at an observer.
func TestObserverLocalSessionsNegativeNumbers(t *testing.T) {
	t.Parallel()
	c := servertest.EnsembleForTest(t, 4, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, FirstID: 200, Observers: 1,
		Extra: []string{"localSessionsEnabled=true", "localSessionsUpgradingEnabled=true"}})
	mode := must.Get(c.Members[3].Mode())(t)
	require.Equal(t, servertest.ModeObserver, mode)
	p := process(t, c.Addrs()[3:], nil)
	assert.Equal(t, byte('c'), p.open().ID()[0], "a negative number")
	works(t, c.Addrs()[3:], nil)
	works(t, c.Addrs(), nil)
}

// At an observer that follows another follower elections work, too.
func TestObserverOfAFollower(t *testing.T) {
	servertest.Long(t, "a network, and four servers")
	t.Parallel()
	const behind = 3
	c := servertest.EnsembleForTest(t, behind+1, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, Observers: 1,
		Network: networktest.ForTest(t, behind+1), Extra: []string{"observerMasterPort=2191"}})
	leader, metrics := must.Get(c.Leader())(t), must.Get(c.Members[behind].Metrics())(t)
	master := int(metrics["observer_master_id"])
	require.Contains(t, []int{1, 2, 3}, master)
	require.NotEqual(t, leader.ID(), master)
	works(t, c.Addrs()[behind:], nil)

	// It finds another one when that is gone.
	p := process(t, c.Addrs(), sessionTimeout(20*time.Second))
	p.Only(behind)
	term := must.Get(p.Stand(elector.Config{Backend: p.Backend, Election: newRoot()}).Campaign(p.Ctx))(t)
	p.Resume()
	require.NoError(t, c.Members[master-1].Kill())
	for range 3 {
		must.Get(term.Commit(p.Ctx, elector.Put("/behind", nil)))(t)
		p.Only(behind)
		p.Cut()
	}
	require.True(t, term.Valid(), "%v", context.Cause(term.Context()))
}

// Local sessions that do not become global can hold no entry. A member without a quorum in read-only mode
// serves no session of this package.
func TestLocalSessionsAndReadOnlyMode(t *testing.T) {
	t.Parallel()
	c := servertest.EnsembleForTest(t, 3, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true,
		Extra: []string{"localSessionsEnabled=true", "localSessionsUpgradingEnabled=false"}, SystemProperties: map[string]string{"readonlymode.enabled": "true"}})
	for _, addr := range c.Addrs() {
		refusedAtOnce(t, []string{addr}, nil, errors.ErrUnsupported, "localSessionsUpgradingEnabled")
	}
	require.NoError(t, c.Members[0].Kill())
	require.NoError(t, c.Members[1].Kill())
	last := c.Members[2]
	wait.For(t, "it serves reads", func() bool { mode, err := last.Mode(); return err == nil && mode == "read-only" })
	b := must.Get(zookeeper.New(zookeeper.Config{Servers: []string{last.Addr()}, SessionTimeout: 10 * time.Second}))(t)
	_, err := b.Open(t.Context(), backend.OpenOptions{})
	t.Log(err)
	require.ErrorIs(t, err, backend.ErrUnavailable)
	require.NoError(t, c.Start())
}

// When the numbers of transactions of an epoch are used up, the members elect a leader. Terms continue.
func TestZxidRollsOver(t *testing.T) {
	t.Parallel()
	c := servertest.EnsembleForTest(t, 3, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true,
		SystemProperties: map[string]string{"zookeeper.testingonly.initialZxid": fmt.Sprint(1<<32 - 200)}})
	p := process(t, c.Addrs(), sessionTimeout(20*time.Second))
	e := p.Stand(elector.Config{Backend: p.Backend, Election: newRoot(), Strategy: fair.Strategy{}})
	term := must.Get(e.Campaign(p.Ctx))(t)
	token := term.Token()
	assert.Greater(t, uint32(token), uint32(1<<32-300), "%x", token)
	for range 400 {
		_, err := term.Commit(p.Ctx, elector.Put("/rolling", nil))
		require.True(t, term.Valid(), "%v: %v", err, context.Cause(term.Context()))
	}
	zxid := must.Get(must.Get(c.WaitLeader(wait.Patience))(t).Zxid())(t)
	assert.Greater(t, uint64(zxid)>>32, token>>32, "no epoch began: %x, %x", token, zxid)
	require.NoError(t, term.Resign(p.Ctx))
	again := must.Get(e.Campaign(p.Ctx))(t)
	assert.Greater(t, again.Token(), token)
}

// An ensemble grows by reconfig, and loses the members that it began with but one: terms continue at that one.
func TestEnsembleGrows(t *testing.T) {
	t.Parallel()
	c := servertest.EnsembleForTest(t, 5, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, Joining: 2,
		Extra: []string{"reconfigEnabled=true"}, SystemProperties: map[string]string{"zookeeper.skipACL": "yes"}})
	p := process(t, c.Addrs()[:3], sessionTimeout(20*time.Second))
	e := p.Stand(elector.Config{Backend: p.Backend, Election: newRoot()})
	term := must.Get(e.Campaign(p.Ctx))(t)
	writes := func() {
		t.Helper()
		for range 3 {
			p.Cut()
			must.Get(term.Commit(p.Ctx, elector.Put("/growing", nil)))(t)
		}
		require.True(t, term.Valid(), "%v", context.Cause(term.Context()))
	}
	operator := zktest.Operator(t, c.Addrs()[3:]...)
	reconfig := func(joining, leaving []string) {
		t.Helper()
		wait.For(t, "the ensemble changes", func() bool {
			_, err := operator.IncrementalReconfig(joining, leaving, -1)
			if err != nil {
				t.Log(err) // the new members are still catching up
				time.Sleep(time.Second)
			}
			return err == nil
		})
	}
	for _, m := range c.Members[3:] {
		reconfig([]string{m.Line()}, nil)
		writes()
	}
	reconfig(nil, []string{"1"})
	require.NoError(t, c.Members[0].Kill())
	writes()
	reconfig(nil, []string{"2"})
	require.NoError(t, c.Members[1].Kill())
	writes()
}
