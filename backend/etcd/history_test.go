package etcd_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/etcd"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/restoretest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/catalog"
)

// A past is a session of its own server, of which there is a backup.
type past struct {
	*fixture
	servers *etcdtest.Servers
	backup  string // its directory
}

func newPast(t *testing.T) *past {
	t.Helper()
	servers := etcdtest.Single(t)
	return &past{fixture: setUpOn(t, time.Minute, nil, servers.Addrs()...), servers: servers}
}

// backUp makes the backup, with the server stopped.
func (p *past) backUp() {
	p.t.Helper()
	p.backup = filepath.Join(p.t.TempDir(), "backup")
	require.NoError(p.t, p.servers.Stop())
	require.NoError(p.t, p.servers.Members[0].Backup(p.backup))
	require.NoError(p.t, p.servers.Start())
	p.get(p.s, p.dir)
}

// restore restores the backup, and calls before, before the process is in touch with the server again.
func (p *past) restore(before func(*clientv3.Client)) {
	p.t.Helper()
	p.Suspend()
	require.NoError(p.t, p.servers.Stop())
	require.NoError(p.t, p.servers.Members[0].Restore(p.backup))
	require.NoError(p.t, p.servers.Start())
	before(etcdtest.Operator(p.t, p.servers.Addrs()...))
	p.Resume()
}

// others writes until the service has more revisions than before it was restored.
func (p *past) others(operator *clientv3.Client) {
	p.t.Helper()
	for range 60 {
		must.Get(operator.Put(p.ctx, "others", ""))(p.t)
	}
}

func (p *past) lost() {
	p.t.Helper()
	p.state(backend.Lost)
	_, err := p.s.Get(p.ctx, p.dir)
	require.ErrorIs(p.t, err, backend.ErrSessionLost)
	require.ErrorContains(p.t, err, "backup")
}

// A session whose writes are gone from the history, or that has seen more of it than there is, is lost,
// and what it had deleted does not come back for good.
func TestRestored(t *testing.T) {
	t.Parallel()
	nothing := func(*past) {}
	for name, c := range map[string]struct {
		before, after func(*past)
	}{
		"an entry is gone": {nothing, func(p *past) { p.seat(p.s) }},
		"a place is gone":  {nothing, func(p *past) { p.enqueue(p.s) }},
		"a second place is gone": {nothing, func(p *past) {
			p.enqueue(p.another(60 * time.Second).s)
			p.enqueue(p.s)
		}},
		"a value is gone": {nothing, func(p *past) { p.put(p.s, newRoot(), "") }},
		"an entry is back": {
			func(p *past) { p.enqueued = p.seat(p.s).Key },
			func(p *past) { p.discard(p.s, p.get(p.s, p.enqueued)) },
		},
		"a change is gone": {
			func(p *past) { p.enqueued = p.seat(p.s).Key },
			func(p *past) { p.commit(p.s, backend.Update(p.get(p.s, p.enqueued), []byte("more"))) },
		},
		"nothing of its own": {nothing, func(p *past) {
			p.others(p.operator())
			p.get(p.s, p.dir)
		}},
	} {
		for how, then := range map[string]func(*past, *clientv3.Client){
			"":               func(*past, *clientv3.Client) {},
			", others write": (*past).others,
			", others write, and all is compacted": func(p *past, operator *clientv3.Client) {
				p.others(operator)
				p.compact(operator)
			},
		} {
			hidden := how != "" && name == "nothing of its own" // only waits and lists show it: see TestRestoredUnderAWait
			// As if somebody had deleted it, which its waits report.
			untold := strings.HasSuffix(how, "compacted") && strings.HasSuffix(name, " is gone") && name != "a change is gone"
			// The others differ in the kind of write, or in how it is checked.
			again := how != ", others write" && name != "nothing of its own" && name != "an entry is back"
			if hidden || untold || again && testing.Short() {
				continue
			}
			t.Run(name+how, func(t *testing.T) {
				t.Parallel()
				p := newPast(t)
				c.before(p)
				p.backUp()
				c.after(p)
				p.restore(func(operator *clientv3.Client) { then(p, operator) })
				p.lost()
				// It may have ended as it was lost, or with Close.
				require.NoError(t, p.s.Close(p.ctx))
				left := must.Get(p.operator().Leases(p.ctx))(t)
				for _, lease := range left.Leases {
					assert.NotContains(t, p.Leases(), lease.ID)
				}
			})
		}
	}
}

// A session is lost if another cluster has taken over the address, with a lease of the same ID.
func TestAnotherClusterAtTheAddress(t *testing.T) {
	t.Parallel()
	p, others := newPast(t), etcdtest.Single(t)
	p.s = p.open(60 * time.Second) // it has written nothing
	operator := etcdtest.Operator(t, others.Addrs()...)
	_, err := pb.NewLeaseClient(operator.ActiveConnection()).LeaseGrant(p.ctx, &pb.LeaseGrantRequest{ID: int64(p.Leases()[1]), TTL: 60})
	require.NoError(t, err)
	p.others(operator)
	require.NoError(t, others.Stop())
	p.backup = filepath.Join(t.TempDir(), "other")
	require.NoError(t, others.Members[0].Backup(p.backup))
	p.restore(func(*clientv3.Client) {})
	p.lost()
}

// A wait for what is not there any more, or for a list, returns, though nothing of its session is gone.
func TestRestoredUnderAWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		beats bool // before it waits
		until bool // others write until the service has as many revisions as before, and else more
	}{
		"": {true, false}, "before the first heartbeat": {false, false}, "as many revisions": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPast(t)
			p.enqueue(p.s)
			if c.beats {
				p.backUp()
				p.beats()
			}
			other := p.another(60 * time.Second)
			if !c.beats {
				p.backUp()
			}
			e, place := other.seat(other.s), other.enqueue(other.s)
			waiting, apart := p.armed(e), p.awaits(p.s, e, place)
			all := p.list(p.s)
			require.Len(t, all.Keys, 2)
			listing := p.awaitsList(p.s, all)
			now := must.Get(p.operator().Get(p.ctx, "others"))(t)
			p.restore(func(operator *clientv3.Client) {
				if !c.until {
					p.others(operator)
				}
				for c.until {
					made := must.Get(operator.Put(p.ctx, "others", ""))(t)
					c.until = made.Header.Revision < now.Header.Revision
				}
			})
			for _, waits := range []<-chan wait.Result[[]backend.Entry]{waiting, apart} {
				seesGone(p.fixture, waits)
			}
			assert.Len(t, returned(p.fixture, listing).Keys, 1)
			p.state(backend.Live)
		})
	}
}

// Two terms are valid at most until the first heartbeat after the service was restored.
func TestTermAfterARestore(t *testing.T) {
	t.Parallel()
	for _, item := range catalog.All() {
		t.Run(item.Strategy.Name(), func(t *testing.T) {
			t.Parallel()
			p := newPast(t)
			old := newElector(p.fixture, p.Backend, item.Strategy, p.dir+"/election", "1")
			_, err := old.Leader(p.ctx) // it has a session now
			require.ErrorIs(t, err, elector.ErrNoLeader)
			p.backUp()
			term := must.Get(old.Campaign(p.ctx))(t)
			_, err = term.Commit(p.ctx, elector.Put(p.dir+"/state", nil)) // as the next leader does
			require.NoError(t, err)
			guard := term.Guard()
			cmps := must.Get(etcd.Cmps(p.ctx, guard.Session, guard.Conditions...))(t)
			var other *elector.Term
			p.restore(func(operator *clientv3.Client) {
				o := p.another(60 * time.Second)
				other, err = newElector(o, o.Backend, item.Strategy, p.dir+"/election", "2").Campaign(p.ctx)
				require.NoError(t, err)
				t.Logf("tokens %d and %d", term.Token(), other.Token())
				_, err = other.Commit(p.ctx, elector.Put(p.dir+"/state", nil))
				require.NoError(t, err)
				late := must.Get(operator.Txn(p.ctx).If(cmps...).Then(clientv3.OpPut(newRoot(), "")).Commit())(t)
				assert.False(t, late.Succeeded, "the old term writes where another leads")
			})
			select {
			case <-term.Context().Done():
			case <-p.ctx.Done():
				t.Fatal("the old term goes on")
			}
			assert.True(t, other.Valid())
			_, err = term.Commit(p.ctx, elector.Put(newRoot(), nil))
			assert.Error(t, err)
		})
	}
}

// Entries that were deleted do not come back with a backup.
func TestRestoredBehindItself(t *testing.T) {
	restoretest.BehindItself(t, func(t *testing.T) restoretest.Service {
		p := newPast(t)
		return restoretest.Service{
			Client: func(*testing.T) backend.Backend { return p.another(time.Minute).Backend },
			Delete: func(t *testing.T, e backend.Entry) {
				must.Get(p.operator().Delete(p.ctx, e.Key))(t)
			},
			BackUp: func(*testing.T) { p.backUp() },
			Restore: func(*testing.T) {
				p.restore(func(operator *clientv3.Client) {
					p.others(operator)
					p.compact(operator) // as etcdutl's --mark-compacted does
				})
			},
		}
	})
}

// A session's last write, of any kind, is found in the history, or known not to be shown by what a
// compaction has left. A broken link, a restart, and a compaction, are no other history.
func TestLastWriteIsFound(t *testing.T) {
	t.Parallel()
	servers := etcdtest.Single(t)
	for name, write := range map[string]func(f, other *fixture){
		"nothing":               func(*fixture, *fixture) {},
		"an entry":              func(f, _ *fixture) { f.seat(f.s) },
		"an entry, and its end": func(f, _ *fixture) { f.discard(f.s, f.seat(f.s)) },
		"a value":               func(f, _ *fixture) { f.put(f.s, newRoot(), "") },
		"a place":               func(f, _ *fixture) { f.enqueue(f.s) },
		"a place, and its end":  func(f, _ *fixture) { f.discard(f.s, f.enqueue(f.s)) },
		"a place that another has brought into order": func(f, other *fixture) {
			f.enqueue(other.s)
			f.beforeSecondStep(func() {
				_, err := other.s.List(other.ctx, other.dir)
				assert.NoError(f.t, err)
			})
			f.enqueue(f.s)
		},
		"a second step, its reply lost": func(f, other *fixture) {
			f.enqueue(other.s)
			f.LoseReply(secondStep)
			f.enqueue(f.s)
		},
		"a place, its reply lost": func(f, _ *fixture) {
			f.LoseReply(etcdtest.MatchKind(backend.OpEnqueue))
			f.enqueue(f.s)
		},
		"a second place, its reply lost": func(f, other *fixture) {
			f.enqueue(other.s)
			f.LoseReply(etcdtest.MatchKind(backend.OpEnqueue))
			f.enqueue(f.s)
		},
		"an entry, its reply lost": func(f, _ *fixture) {
			f.LoseReply(etcdtest.MatchKind(backend.OpCreateEphemeral))
			f.seat(f.s)
		},
		"a change, its reply lost": func(f, _ *fixture) {
			f.LoseReply(etcdtest.MatchKind(backend.OpUpdate))
			f.commit(f.s, backend.Update(f.seat(f.s), []byte("more")))
		},
		"a deletion, its reply lost": func(f, _ *fixture) {
			f.LoseReply(etcdtest.MatchKind(backend.OpDelete))
			f.commit(f.s, backend.Delete(f.seat(f.s)))
		},
		"an entry that another writes over": func(f, other *fixture) {
			other.commit(other.s, backend.Update(f.seat(f.s), []byte("more")))
		},
		"an entry that an operator has deleted": func(f, _ *fixture) {
			f.remove(f.seat(f.s).Key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := setUpOn(t, 20*time.Second, nil, servers.Addrs()...)
			write(f, f.another(20*time.Second))
			for _, broken := range []func(){f.Cut, func() {
				f.compact(f.operator())
				require.NoError(t, servers.Stop())
				require.NoError(t, servers.Start())
			}} {
				broken()
				f.beats()
				require.NotEqual(t, backend.Lost, f.s.State())
			}
		})
	}
}
