package zookeeper_test

import (
	"crypto/rand"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/restoretest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/zktest"
	"github.com/elector-go/elector/strategy/catalog"
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

// others writes until the newest transaction is as wanted.
func (p *past) others(t *testing.T, until func(newest uint64) bool) {
	t.Helper()
	conn := zktest.Operator(t, p.server.Addr())
	defer conn.Close() // which is a transaction, too
	for !until(uint64(must.Get(p.server.Zxid())(t)) + 1) {
		must.Get(conn.Create("/"+rand.Text(), nil, 0, zk.WorldACL(zk.PermAll)))(t)
	}
}

func (p *past) service() restoretest.Service {
	return restoretest.Service{
		Process: func(t *testing.T) (b backend.Backend, cut, mend func()) {
			f := setUpOn(t, p.server, sessionTimeout(time.Minute)) // no test waits for its end
			return f.Backend, f.Suspend, f.Resume
		},
		BackUp:  func(*testing.T) { p.down(p.server.Backup) },
		Restore: func(*testing.T) { p.down(p.server.Restore) },
		Others:  p.others,
		Between: 60,
	}
}

func TestRestoredUnderALeader(t *testing.T) {
	t.Parallel()
	for _, item := range catalog.All() {
		t.Run(item.Strategy.Name(), func(t *testing.T) {
			if item.Strategy.Name() != "unfair" {
				servertest.Long(t, "a server for each strategy")
			}
			t.Parallel()
			restoretest.UnderALeader(t, startPast(t).service(), item.Strategy)
		})
	}
	t.Run("of one zxid", func(t *testing.T) {
		t.Parallel()
		restoretest.UnderALeaderAtOne(t, func(t *testing.T) restoretest.Service { return startPast(t).service() })
	})
}

// TestRestoredBehindItself restores entries that were deleted.
func TestRestoredBehindItself(t *testing.T) {
	restoretest.BehindItself(t, func(t *testing.T) restoretest.Service {
		p := startPast(t)
		s := p.service()
		s.Client = func(t *testing.T) backend.Backend { b, _, _ := s.Process(t); return b }
		s.Delete = func(t *testing.T, e backend.Entry) {
			operator := zktest.Operator(t, p.server.Addr())
			defer operator.Close()
			require.NoError(t, operator.Delete(e.Key, -1))
		}
		s.Restore = func(t *testing.T) {
			n := 200
			p.down(p.server.Restore)
			p.others(t, func(uint64) bool { n--; return n < 0 })
		}
		return s
	})
}
