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
	p.T.Helper()
	p.backup = filepath.Join(p.T.TempDir(), "backup")
	require.NoError(p.T, p.servers.Stop())
	require.NoError(p.T, p.servers.Members[0].Backup(p.backup))
	require.NoError(p.T, p.servers.Start())
	p.Get(p.S, p.Dir)
}

// restore restores the backup, and calls before, before the process is in touch with the server again.
func (p *past) restore(before func(*clientv3.Client)) {
	p.T.Helper()
	p.Suspend()
	require.NoError(p.T, p.servers.Stop())
	require.NoError(p.T, p.servers.Members[0].Restore(p.backup))
	require.NoError(p.T, p.servers.Start())
	before(etcdtest.Operator(p.T, p.servers.Addrs()...))
	p.Resume()
}

// others writes until the service has more revisions than before it was restored.
func (p *past) others(operator *clientv3.Client) {
	p.T.Helper()
	for range 60 {
		must.Get(operator.Put(p.Ctx, "others", ""))(p.T)
	}
}

func (p *past) lost() {
	p.T.Helper()
	p.AwaitState(p.S, backend.Lost)
	_, err := p.S.Get(p.Ctx, p.Dir)
	require.ErrorIs(p.T, err, backend.ErrSessionLost)
	require.ErrorContains(p.T, err, "backup")
}

// A session whose writes are gone from the history, or that has seen more of it than there is, is lost,
// and what it had deleted does not come back for good.
func TestRestored(t *testing.T) {
	t.Parallel()
	nothing := func(*past) {}
	for name, c := range map[string]struct {
		before, after func(*past)
	}{
		"an entry is gone": {nothing, func(p *past) { p.seat(p.S) }},
		"a place is gone":  {nothing, func(p *past) { p.Enqueue(p.S) }},
		"a second place is gone": {nothing, func(p *past) {
			p.Enqueue(p.another(60 * time.Second).S)
			p.Enqueue(p.S)
		}},
		"a value is gone": {nothing, func(p *past) { p.put(p.S, newRoot(), "") }},
		"an entry is back": {
			func(p *past) { p.enqueued = p.seat(p.S).Key },
			func(p *past) { p.Discard(p.S, p.Get(p.S, p.enqueued)) },
		},
		"a change is gone": {
			func(p *past) { p.enqueued = p.seat(p.S).Key },
			func(p *past) { p.Commit(p.S, backend.Update(p.Get(p.S, p.enqueued), []byte("more"))) },
		},
		"nothing of its own": {nothing, func(p *past) {
			p.others(p.operator())
			p.Get(p.S, p.Dir)
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
				require.NoError(t, p.S.Close(p.Ctx))
				left := must.Get(p.operator().Leases(p.Ctx))(t)
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
	p.S = p.open(60 * time.Second) // it has written nothing
	operator := etcdtest.Operator(t, others.Addrs()...)
	_, err := pb.NewLeaseClient(operator.ActiveConnection()).LeaseGrant(p.Ctx, &pb.LeaseGrantRequest{ID: int64(p.Leases()[1]), TTL: 60})
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
			p.Enqueue(p.S)
			if c.beats {
				p.backUp()
				p.beats()
			}
			other := p.another(60 * time.Second)
			if !c.beats {
				p.backUp()
			}
			e, place := other.seat(other.S), other.Enqueue(other.S)
			waiting, apart := p.armed(e), p.Awaits(p.S, e, place)
			all := p.List(p.S)
			require.Len(t, all.Keys, 2)
			listing := p.AwaitsList(p.S, all)
			now := must.Get(p.operator().Get(p.Ctx, "others"))(t)
			p.restore(func(operator *clientv3.Client) {
				if !c.until {
					p.others(operator)
				}
				for c.until {
					made := must.Get(operator.Put(p.Ctx, "others", ""))(t)
					c.until = made.Header.Revision < now.Header.Revision
				}
			})
			for _, waits := range []<-chan wait.Result[[]backend.Entry]{waiting, apart} {
				p.Told(waits, backend.Entry{})
			}
			assert.Len(t, wait.Value(p.T, listing).Keys, 1)
			p.AwaitState(p.S, backend.Live)
		})
	}
}

// So do waits in many elections, which have one watch.
func TestRestoredUnderManyWaits(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.Enqueue(p.S)
	other := p.another(60 * time.Second)
	first := p.elections(manySeats, other.S)
	p.backUp()
	p.beats()
	var all []<-chan wait.Result[[]backend.Entry]
	for _, e := range first {
		second := p.Commit(other.S, backend.Enqueue(backend.Parent(e.Key), nil))[0]
		all = append(all, p.Awaits(p.S, second))
	}
	wait.Pending(t, all[manySeats-1])
	p.restore(p.others)
	for _, waits := range all {
		p.Told(waits, backend.Entry{})
	}
}

// When a feed has ended, its watches read again, also if too few are left for another feed: the service may have been
// restored meanwhile, with as many revisions as before.
func TestRestoredUnderAFormerFeed(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.Enqueue(p.S)
	p.backUp()
	p.beats()
	const seats, gone = 12, 9
	other := p.another(60 * time.Second)
	first := p.elections(seats, other.S)
	var second []backend.Entry
	var all []<-chan wait.Result[[]backend.Entry]
	for i, e := range first {
		second = append(second, p.Commit(other.S, backend.Enqueue(backend.Parent(e.Key), nil))[0])
		all = append(all, p.Awaits(p.S, e, second[i]))
	}
	for _, waiting := range all {
		wait.Pending(t, waiting)
	}
	operator := p.operator()
	for i := range gone {
		must.Get(operator.Delete(p.Ctx, first[i].Key))(t)
		p.Told(all[i], backend.Entry{}, second[i])
	}
	time.Sleep(200 * time.Millisecond) // the calls have left
	var now *clientv3.DeleteResponse
	for i := range gone { // nobody awaits these any more
		now = must.Get(operator.Delete(p.Ctx, second[i].Key))(t)
	}
	time.Sleep(200 * time.Millisecond)
	p.restore(func(operator *clientv3.Client) {
		for until := true; until; {
			made := must.Get(operator.Put(p.Ctx, "others", ""))(t)
			until = made.Header.Revision < now.Header.Revision
		}
	})
	for _, waiting := range all[gone:] {
		p.Told(waiting, backend.Entry{}, backend.Entry{})
	}
}

// Two terms are valid at most until the first heartbeat after the service was restored.
func TestTermAfterARestore(t *testing.T) {
	t.Parallel()
	for _, item := range catalog.All() {
		t.Run(item.Strategy.Name(), func(t *testing.T) {
			t.Parallel()
			p := newPast(t)
			old := p.Stand(elector.Config{Backend: p.Backend, Strategy: item.Strategy, Election: p.Dir + "/election", TTL: 30 * time.Second})
			_, err := old.Leader(p.Ctx) // it has a session now
			require.ErrorIs(t, err, elector.ErrNoLeader)
			p.backUp()
			term := must.Get(old.Campaign(p.Ctx))(t)
			_, err = term.Commit(p.Ctx, elector.Put(p.Dir+"/state", nil)) // as the next leader does
			require.NoError(t, err)
			guard := term.Guard()
			cmps := must.Get(etcd.Cmps(p.Ctx, guard.Session, guard.Conditions...))(t)
			var other *elector.Term
			p.restore(func(operator *clientv3.Client) {
				o := p.another(60 * time.Second)
				other, err = o.Stand(elector.Config{Backend: o.Backend, Strategy: item.Strategy, Election: p.Dir + "/election", TTL: 30 * time.Second}).Campaign(p.Ctx)
				require.NoError(t, err)
				t.Logf("tokens %d and %d", term.Token(), other.Token())
				_, err = other.Commit(p.Ctx, elector.Put(p.Dir+"/state", nil))
				require.NoError(t, err)
				late := must.Get(operator.Txn(p.Ctx).If(cmps...).Then(clientv3.OpPut(newRoot(), "")).Commit())(t)
				assert.False(t, late.Succeeded, "the old term writes where another leads")
			})
			select {
			case <-term.Context().Done():
			case <-p.Ctx.Done():
				t.Fatal("the old term goes on")
			}
			assert.True(t, other.Valid())
			_, err = term.Commit(p.Ctx, elector.Put(newRoot(), nil))
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
				must.Get(p.operator().Delete(p.Ctx, e.Key))(t)
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
		"an entry":              func(f, _ *fixture) { f.seat(f.S) },
		"an entry, and its end": func(f, _ *fixture) { f.Discard(f.S, f.seat(f.S)) },
		"a value":               func(f, _ *fixture) { f.put(f.S, newRoot(), "") },
		"a place":               func(f, _ *fixture) { f.Enqueue(f.S) },
		"a place, and its end":  func(f, _ *fixture) { f.Discard(f.S, f.Enqueue(f.S)) },
		"a place that another has brought into order": func(f, other *fixture) {
			f.Enqueue(other.S)
			f.beforeSecondStep(func() {
				_, err := other.S.List(other.Ctx, other.Dir)
				assert.NoError(f.T, err)
			})
			f.Enqueue(f.S)
		},
		"a second step, its reply lost": func(f, other *fixture) {
			f.Enqueue(other.S)
			f.LoseReply(secondStep)
			f.Enqueue(f.S)
		},
		"a place, its reply lost": func(f, _ *fixture) {
			f.LoseReply(etcdtest.MatchKind(backend.OpEnqueue))
			f.Enqueue(f.S)
		},
		"a second place, its reply lost": func(f, other *fixture) {
			f.Enqueue(other.S)
			f.LoseReply(etcdtest.MatchKind(backend.OpEnqueue))
			f.Enqueue(f.S)
		},
		"an entry, its reply lost": func(f, _ *fixture) {
			f.LoseReply(etcdtest.MatchKind(backend.OpCreateEphemeral))
			f.seat(f.S)
		},
		"a change, its reply lost": func(f, _ *fixture) {
			f.LoseReply(etcdtest.MatchKind(backend.OpUpdate))
			f.Commit(f.S, backend.Update(f.seat(f.S), []byte("more")))
		},
		"a deletion, its reply lost": func(f, _ *fixture) {
			f.LoseReply(etcdtest.MatchKind(backend.OpDelete))
			f.Commit(f.S, backend.Delete(f.seat(f.S)))
		},
		"an entry that another writes over": func(f, other *fixture) {
			other.Commit(other.S, backend.Update(f.seat(f.S), []byte("more")))
		},
		"an entry that an operator has deleted": func(f, _ *fixture) {
			f.remove(f.seat(f.S).Key)
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
				require.NotEqual(t, backend.Lost, f.S.State())
			}
		})
	}
}
