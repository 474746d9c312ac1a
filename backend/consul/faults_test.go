package consul_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
)

// An agent that is restarted within the window keeps the session.
func TestAgentRestart(t *testing.T) {
	t.Parallel()
	server := servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true})
	f := setUpOn(t, consultest.Options{}, server)
	states := f.recordStates()
	for name, end := range map[string]func(*servertest.Consul) error{
		"killed":  (*servertest.Consul).Kill,
		"stopped": (*servertest.Consul).Stop,
	} {
		t.Log(name)
		e, flag := f.enqueue(f.s), f.commit(f.s, backend.CompareAndSet(newChild(f.dir), nil, 0))[0]
		waiting := f.await(e, flag)
		require.NoError(t, end(server))
		reading := wait.Later(func() (backend.Entry, error) { return f.s.Get(f.ctx, e.Key) })
		f.awaitState(backend.Suspended)
		require.NoError(t, server.Start())
		f.awaitState(backend.Live)
		got := must.Get(wait.Returned(f.t, reading))(t)
		assert.True(t, got.Same(e))
		f.renewed()
		changed := f.commit(f.another().s, backend.Update(flag, []byte("x")))[0]
		f.told(waiting, e, changed)
		f.renewed()
	}
	assert.NotContains(t, states(), backend.Lost)
}

// Sessions live and waits wait while the servers elect another leader.
func TestServerLeaderChange(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		end, back func(*servertest.Consul) error
	}{
		"killed": {(*servertest.Consul).Kill, (*servertest.Consul).Start},
		"paused": {(*servertest.Consul).Pause, (*servertest.Consul).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := servertest.ConsulClusterForTest(t, 3, servertest.ConsulConfig{NoSync: true})
			old := must.Get(cluster.Leader())(t)
			leader := slices.Index(cluster.Members, old)
			follower := (leader + 1) % 3
			at := func(member int) *fixture {
				f := processOn(t, consultest.Options{}, cluster.Members...)
				f.Only(member)
				f.s = f.open()
				return f
			}
			f := at(follower)
			f.enter(newRoot())
			e, flag := f.enqueue(f.s), f.commit(f.s, backend.CompareAndSet(f.dir+"/flag", nil, 0))[0]
			waiting, states := f.await(e, flag), f.recordStates()
			// This one is connected to the leader, and goes elsewhere when that ends.
			g := at(leader)
			g.dir = f.dir
			g.Resume()
			theirs := g.enqueue(g.s)
			alsoWaiting, theirStates := g.await(flag, theirs), g.recordStates()

			require.NoError(t, end.end(old))
			if name == "paused" {
				g.Only(follower) // as a load balancer decides
				g.Cut()
			}
			must.Get(cluster.WaitLeader(wait.Patience))(t)
			f.renewed()
			g.renewed()
			third := (leader + 2) % 3
			other := at(third)
			changed := f.commit(other.s, backend.Update(flag, []byte("x")))[0]
			f.told(waiting, e, changed)
			g.told(alsoWaiting, changed, theirs)
			require.NoError(t, end.back(old))
			f.renewed()
			g.renewed()
			assert.NotContains(t, states(), backend.Lost)
			assert.NotContains(t, theirStates(), backend.Lost)
		})
	}
}

// A session that an operator has destroyed is lost at the next commit, which returns that it was not
// done.
func TestSessionDestroyed(t *testing.T) {
	t.Parallel()
	for name, op := range map[string]func(dir string) backend.Op{
		"an entry of its own": func(dir string) backend.Op { return backend.Enqueue(dir, nil) },
		"a key":               func(dir string) backend.Op { return backend.CompareAndSet(dir+"/x", nil, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setUp(t)
			require.NoError(t, consultest.Destroy(f.Servers, f.s.ID()))
			_, err := f.s.Commit(f.ctx, nil, op(f.dir))
			require.ErrorIs(t, err, backend.ErrSessionLost)
			require.NotErrorIs(t, err, backend.ErrIndeterminate, "the servers have refused it")
			assert.Equal(t, backend.Lost, f.s.State())
		})
	}
}

// Foreign locks and writes in an election's directory are left alone.
func TestForeignLocks(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	user := f.operator()
	id, _, err := user.Session().CreateNoChecks(&api.SessionEntry{Behavior: api.SessionBehaviorRelease, TTL: "60s"}, nil)
	require.NoError(t, err)
	own := f.enqueue(f.s)
	name := own.Key[len(f.dir):]
	lock := func(key string) {
		got := must.First(user.KV().Acquire(&api.KVPair{Key: key[1:], Session: id, Flags: api.LockFlagValue}, nil))(t)
		require.True(t, got)
	}
	lock(f.dir + "/.lock")
	lock(f.dir + "/0")
	lock(f.dir + name + "x")
	lock(f.dir + "/deep" + name)
	// The same pattern, by another session; one has the session's own name.
	if i := strings.Index(name, f.s.ID()); i >= 0 {
		lock(f.dir + name[:i] + id + name[i+len(f.s.ID()):] + "0")
	}
	next := f.enqueue(f.another().s)
	listing := must.Get(f.s.List(f.ctx, f.dir))(t)
	assert.Contains(t, listing.Keys, own.Key)
	assert.Contains(t, listing.Keys, next.Key)
	for _, key := range listing.Keys {
		assert.NotContains(t, key, "lock")
	}
	f.follows(nothing, own)
}

// A key that is unlocked by hand is no longer the session's, and conditions say so.
func TestReleasedByOperator(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	seat := f.commit(f.s, backend.CreateEphemeral(f.dir+"/seat", []byte("v")))[0]
	f.release(seat)
	got := must.Get(f.s.Get(f.ctx, seat.Key))(t)
	assert.Empty(t, got.Session)
	assert.False(t, got.Same(seat))
}

// Limits are reported before anything is sent.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	var many []backend.Op
	for i := range 129 {
		many = append(many, backend.CompareAndSet(fmt.Sprintf("%s/%d", f.dir, i), nil, 0))
	}
	sent, _ := f.count(both(txns, not(looks)))
	_, err := f.s.Commit(f.ctx, nil, many...)
	require.ErrorIs(t, err, backend.ErrTooLarge)
	_, err = f.s.Commit(f.ctx, nil, backend.CompareAndSet(f.dir+"/x", make([]byte, 512<<10), 0))
	require.ErrorIs(t, err, backend.ErrTooLarge)
	assert.Zero(t, sent.Load())
}

// The cause of one session's end does not end another, though net/http puts the cause of a cancelled
// request into the error of the next one on its connection.
func TestRequestsDoNotHaveTheCauseOfAnEnd(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	var requests sync.WaitGroup
	var mu sync.Mutex
	var odd []error
	f.Intercept(func(r *consultest.Request) (*http.Response, error) {
		requests.Add(1)
		context.AfterFunc(r.Context(), func() {
			defer requests.Done()
			mu.Lock()
			defer mu.Unlock()
			if cause := context.Cause(r.Context()); cause != context.Canceled {
				odd = append(odd, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, cause))
			}
		})
		return r.Send()
	})
	waiting := f.await(f.enqueue(f.s))
	require.NoError(t, f.s.Close(f.ctx))
	fails(f, waiting, backend.ErrSessionLost)
	requests.Wait()
	require.Empty(t, odd)
}

// release unlocks a key by hand: it stays, and nothing removes it any more.
func (f *fixture) release(e backend.Entry) {
	f.t.Helper()
	released, _, err := f.operator().KV().Release(&api.KVPair{Key: e.Key[1:], Session: e.Session, Value: e.Value}, nil)
	require.NoError(f.t, err)
	require.True(f.t, released)
}

// An entry in the queue that nobody holds any more is gone for every reader.
func TestReleasedFromTheQueue(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	o := f.another()
	before, me := f.enqueue(o.s), f.enqueue(f.s)
	waiting, theirs := f.await(me, before), o.await(before)
	f.follows(before, me)
	f.release(before)
	f.told(waiting, me, nothing)
	o.told(theirs, nothing)
	for _, p := range []*fixture{f, o, f.another()} {
		p.follows(nothing, me)
		_, err := p.s.Get(f.ctx, before.Key)
		require.ErrorIs(t, err, backend.ErrNoEntry)
		_, err = p.s.Commit(f.ctx, []backend.Condition{backend.IfExists(before)})
		require.ErrorIs(t, err, backend.ErrCondition)
	}
	require.NoError(t, o.s.Discard(o.ctx, before))
}

// A leader whose entry an operator releases leads no longer than one whose entry is deleted.
func TestReleasedLeader(t *testing.T) {
	t.Parallel()
	f := processOn(t, consultest.Options{}, sharedServer(t))
	election := newRoot()
	term := f.campaign(f.stand(f.Backend, fair.Strategy{}, election))
	f.release(term.Guard().Conditions[0].Entry)
	second := f.campaign(f.stand(f.Backend, fair.Strategy{}, election))
	assert.Greater(t, second.Token(), term.Token())
	f.ends(term, elector.ErrDeposed)
	require.True(t, second.Valid())
}

// The user's logger is not called under a lock.
func TestLoggerMayAskTheSession(t *testing.T) {
	t.Parallel()
	var logged atomic.Pointer[*backend.Session]
	logger := slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if s := logged.Load(); s != nil {
				(*s).State()
			}
			return a
		},
	}))
	f := setUpOn(t, consultest.Options{Config: consul.Config{Logger: logger}}, sharedServer(t))
	logged.Store(&f.s)
	must.Get(wait.Returned(f.t, wait.Later(func() (struct{}, error) { return struct{}{}, f.s.Close(f.ctx) })))(t)
}
