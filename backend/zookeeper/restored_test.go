package zookeeper_test

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/restoretest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/catalog"
	"github.com/elector-go/elector/strategy/unfair"
)

// A past is a server with a backup.
type past struct {
	t      *testing.T
	server *servertest.ZooKeeper
	dir    string
}

// startPast starts a server of the test's own.
func startPast(t *testing.T) *past {
	t.Helper()
	return &past{t: t, server: zktest.Single(t).Members[0], dir: filepath.Join(t.TempDir(), "backup")}
}

// down stops the server, backs it up or restores it, and starts it again.
func (p *past) down(do func(dir string) error) {
	p.t.Helper()
	require.NoError(p.t, p.server.Kill())
	require.NoError(p.t, do(p.dir))
	require.NoError(p.t, p.server.Start())
}

// others writes n transactions. A session may not come back to a server that is behind it.
func (p *past) others(n int) {
	p.t.Helper()
	conn := zktest.Operator(p.t, p.server.Addr())
	defer conn.Close()
	for range n {
		must.Get(conn.Create("/"+rand.Text(), nil, 0, zk.WorldACL(zk.PermAll)))(p.t)
	}
}

// reach writes until the newest transaction is zxid.
func (p *past) reach(zxid uint64) {
	p.t.Helper()
	conn := zktest.Operator(p.t, p.server.Addr()) // its session is a transaction, too, and so is its end
	for {
		at := must.Get(p.server.Zxid())(p.t)
		if uint64(at) >= zxid {
			return
		}
		must.Get(conn.Create("/"+rand.Text(), nil, 0, zk.WorldACL(zk.PermAll)))(p.t)
	}
}

// process returns a process with a session that no test waits for, and an elector.
func (p *past) process(strategy strategy.Strategy, id string) (*fixture, elector.Elector) {
	p.t.Helper()
	f := setUpOn(p.t, p.server, sessionTimeout(time.Minute))
	e, err := elector.New(elector.Config{Backend: f.Backend, Strategy: strategy, Election: "/restored", ID: id})
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = e.Close(context.Background()) }) // a session may not have its link back yet
	return f, e
}

// TestRestoredUnderALeader restores the service from a backup that has the leader's session, and not
// its entry, while the leader is cut off and writes. Another candidate leads when it is back. None of
// the old leader's writes is done, and its term ends.
func TestRestoredUnderALeader(t *testing.T) {
	t.Parallel()
	for _, item := range catalog.All() {
		t.Run(item.Strategy.Name(), func(t *testing.T) {
			if item.Strategy.Name() != "unfair" {
				servertest.Long(t, "a server for each strategy")
			}
			t.Parallel()
			deposes(t, item.Strategy, false)
		})
	}
	t.Run("of one zxid", func(t *testing.T) {
		t.Parallel()
		for range 5 { // a server may write for itself in between, such as a heartbeat's vote
			if deposes(t, unfair.Strategy{}, true) {
				return
			}
		}
		t.Fatal("no two seats had one zxid: the premise")
	})
}

// deposes runs the test once. With atOne it tries to make the next leader's entry at the zxid of the
// old one's, and returns whether that succeeded.
func deposes(t *testing.T, strategy strategy.Strategy, atOne bool) (same bool) {
	t.Helper()
	p := startPast(t)
	_, founder := p.process(strategy, "1")
	term := must.Get(founder.Campaign(t.Context()))(t)
	require.NoError(t, term.Resign(t.Context()))
	f, e := p.process(strategy, "2")
	_, err := e.Leader(t.Context()) // it has a session
	require.ErrorIs(t, err, elector.ErrNoLeader)
	p.down(p.server.Backup)
	p.others(60)
	old := must.Get(e.Campaign(t.Context()))(t)
	f.Suspend()
	key := f.dir + "-written"
	writing := wait.Later(func() ([]backend.Entry, error) { return old.Commit(f.ctx, elector.Put(key, []byte("old"))) })
	p.down(p.server.Restore)
	_, next := p.process(strategy, "3")
	_, err = next.Leader(t.Context()) // it has a session
	require.ErrorIs(t, err, elector.ErrNoLeader)
	if atOne {
		p.reach(old.Token() - 1)
	}
	led := must.Get(next.Campaign(t.Context()))(t)
	made := must.Get(led.Commit(t.Context(), elector.Put(key, []byte("new"))))(t)
	p.others(150)
	f.Resume()
	_, err = wait.Returned(f.t, writing)
	require.Error(t, err)
	wait.For(t, "the old term is over", func() bool { return !old.Valid() })
	assert.True(t, led.Valid())
	got := must.Get(led.Get(t.Context(), key))(t)
	assert.True(t, got.Same(made[0]), "%q", got.Value)
	return old.Token() == led.Token()
}

// TestRestoredBehindItself restores entries that were deleted.
func TestRestoredBehindItself(t *testing.T) {
	restoretest.BehindItself(t, func(t *testing.T) restoretest.Service {
		p := startPast(t)
		return restoretest.Service{
			Client: func(t *testing.T) backend.Backend { return setUpOn(t, p.server, sessionTimeout(time.Minute)).Backend },
			Delete: func(t *testing.T, e backend.Entry) {
				operator := zktest.Operator(t, p.server.Addr())
				defer operator.Close()
				require.NoError(t, operator.Delete(e.Key, -1))
			},
			BackUp:  func(*testing.T) { p.down(p.server.Backup) },
			Restore: func(*testing.T) { p.down(p.server.Restore); p.others(200) },
		}
	})
}
