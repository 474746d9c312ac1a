package consul_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

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
			require.NoError(t, consultest.Destroy(f.Servers, f.S.ID()))
			_, err := f.S.Commit(f.Ctx, nil, op(f.Dir))
			require.ErrorIs(t, err, backend.ErrSessionLost)
			require.NotErrorIs(t, err, backend.ErrIndeterminate, "the servers have refused it")
			assert.Equal(t, backend.Lost, f.S.State())
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
	own := f.Enqueue(f.S)
	name := own.Key[len(f.Dir):]
	lock := func(key string) {
		got := must.First(user.KV().Acquire(&api.KVPair{Key: key[1:], Session: id, Flags: api.LockFlagValue}, nil))(t)
		require.True(t, got)
	}
	lock(f.Dir + "/.lock")
	lock(f.Dir + "/0")
	lock(f.Dir + name + "x")
	lock(f.Dir + "/deep" + name)
	// The same pattern, by another session; one has the session's own name.
	if i := strings.Index(name, f.S.ID()); i >= 0 {
		lock(f.Dir + name[:i] + id + name[i+len(f.S.ID()):] + "0")
	}
	next := f.Enqueue(f.another().S)
	listing := must.Get(f.S.List(f.Ctx, f.Dir))(t)
	assert.Contains(t, listing.Keys, own.Key)
	assert.Contains(t, listing.Keys, next.Key)
	for _, key := range listing.Keys {
		assert.NotContains(t, key, "lock")
	}
	f.Follows(f.S, own, nothing)
}

// A key that is unlocked by hand is no longer the session's, and conditions say so.
func TestReleasedByOperator(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	seat := f.Commit(f.S, backend.CreateEphemeral(f.Dir+"/seat", []byte("v")))[0]
	f.release(seat)
	got := must.Get(f.S.Get(f.Ctx, seat.Key))(t)
	assert.Empty(t, got.Session)
	assert.False(t, got.Same(seat))
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
	waiting := f.await(f.Enqueue(f.S))
	require.NoError(t, f.S.Close(f.Ctx))
	wait.Fails(f.T, waiting, backend.ErrSessionLost)
	requests.Wait()
	require.Empty(t, odd)
}

// release unlocks a key by hand: it stays, and nothing removes it any more.
func (f *fixture) release(e backend.Entry) {
	f.T.Helper()
	released, _, err := f.operator().KV().Release(&api.KVPair{Key: e.Key[1:], Session: e.Session, Value: e.Value}, nil)
	require.NoError(f.T, err)
	require.True(f.T, released)
}

// An entry in the queue that nobody holds any more is gone for every reader.
func TestReleasedFromTheQueue(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	o := f.another()
	before, me := f.Enqueue(o.S), f.Enqueue(f.S)
	waiting, theirs := f.await(me, before), o.await(before)
	f.Follows(f.S, me, before)
	f.release(before)
	f.Told(waiting, me, nothing)
	o.Told(theirs, nothing)
	for _, p := range []*fixture{f, o, f.another()} {
		p.Follows(p.S, me, nothing)
		_, err := p.S.Get(f.Ctx, before.Key)
		require.ErrorIs(t, err, backend.ErrNoEntry)
		_, err = p.S.Commit(f.Ctx, []backend.Condition{backend.IfExists(before)})
		require.ErrorIs(t, err, backend.ErrCondition)
	}
	require.NoError(t, o.S.Discard(o.Ctx, before))
}

// A leader whose entry an operator releases leads no longer than one whose entry is deleted.
func TestReleasedLeader(t *testing.T) {
	t.Parallel()
	f := processOn(t, consultest.Options{}, sharedServer(t))
	election := newRoot()
	term := f.Campaign(f.Stand(elector.Config{Backend: f.Backend, Election: election}))
	f.release(term.Guard().Conditions[0].Entry)
	second := f.Campaign(f.Stand(elector.Config{Backend: f.Backend, Election: election}))
	assert.Greater(t, second.Token(), term.Token())
	f.Ends(term, elector.ErrDeposed)
	require.True(t, second.Valid())
}
