package consul_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// A leader that is new, or was deposed, may not have applied yet what made a candidate's
// own entry, and says that it is gone: so it is always asked to make sure that it leads.
func TestAwaitReadsConsistently(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	o := f.another()
	before, me := f.enqueue(o.s), f.enqueue(f.s)
	waiting := f.await(me, before)
	var reads atomic.Int64
	f.handle(not(blocking), func(r *consultest.Request) (*http.Response, error) {
		if r.For("kv") || onlyReads(r) {
			reads.Add(1)
			assert.True(t, r.Asks("consistent"), r.URL)
		}
		return r.Send()
	})
	require.NoError(t, o.s.Discard(o.ctx, before))
	f.told(waiting, me, nothing)
	assert.EqualValues(t, 1, reads.Load())
}

// An answer that was on its way for long says that nothing is there. What was made since
// is shown all the same, and at once.
func TestAwaitBesideALateAnswer(t *testing.T) {
	t.Parallel()
	// No look comes with a heartbeat while it lasts.
	f := setUpOn(t, consultest.Options{Config: consul.Config{SessionTimeout: time.Hour}}, sharedServer(t))
	o := f.another()
	key := f.dir + "/seat"
	held, release := make(chan struct{}), make(chan struct{})
	_, remove := f.first(1, both(under("kv"+key), not(blocking)), func(r *consultest.Request) (*http.Response, error) {
		response, err := r.Send()
		close(held)
		<-release
		return response, err
	})
	reading := later(func() (backend.Entry, error) { return f.s.Get(f.ctx, key) })
	<-held
	remove()
	seat := f.commit(o.s, backend.CreateEphemeral(key, nil))[0]
	f.await(seat) // keeps the watch
	wait.For(t, "the watch shows it", func() bool {
		now, err := f.s.Await(f.ctx, backend.Unknown(key))
		return err == nil && now[0].Same(seat)
	})
	close(release)
	fails(f, reading, backend.ErrNoEntry)
	began := time.Now()
	now, err := f.s.Await(f.ctx, backend.Unknown(key))
	require.NoError(t, err)
	assert.True(t, now[0].Same(seat))
	assert.Less(t, time.Since(began), time.Minute, "then a query is sent again")
}

// Two waits of one session each show that one of the predecessors is gone. That the
// entry stood when the one was gone does not mean that it did when both were.
func TestPredecessorOfTwoWaits(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	o := f.another()
	first, second := f.enqueue(o.s), f.enqueue(o.s)
	me := f.enqueue(f.s)
	p, err := f.s.Predecessor(f.ctx, me)
	require.NoError(t, err)
	require.True(t, p.Same(second))
	waiting := f.await(me, second)
	held, release := f.holdAnswers(both(under("kv"+me.Key), not(blocking)))
	require.NoError(t, o.s.Discard(o.ctx, second))
	<-held // the read of what is left is on its way
	pass := f.HoldWakeups()
	_, err = f.operator().KV().Delete(me.Key[1:], nil)
	require.NoError(t, err)
	require.NoError(t, o.s.Discard(o.ctx, first))
	_, err = f.s.Get(f.ctx, first.Key)
	require.ErrorIs(t, err, backend.ErrNoEntry)
	release()
	f.told(waiting, me, nothing) // as it was then
	_, err = f.s.Predecessor(f.ctx, me)
	require.ErrorIs(t, err, backend.ErrNoEntry, "it never was the oldest")
	pass()
}

// What a watch has shown is undone, as an operator restores a snapshot, before the rest
// is read. The wait goes on.
func TestAwaitOverARestore(t *testing.T) {
	t.Parallel()
	server := servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true})
	f := setUpOn(t, consultest.Options{}, server)
	o := f.another()
	flag := f.commit(o.s, backend.CompareAndSet(f.dir+"/flag", []byte("0"), 0))[0]
	me := f.enqueue(f.s)
	restore := snapshot(t, f.operator())
	waiting := f.await(me, flag)
	held, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	f.handle(onlyReads, func(r *consultest.Request) (*http.Response, error) {
		once.Do(func() { close(held); <-release })
		return r.Send()
	})
	f.commit(o.s, backend.Update(flag, []byte("1")))
	<-held
	restore()
	close(release)
	o = f.another() // the other one had written since
	wait.For(t, "a wait for what was restored", func() bool {
		_, err := o.s.Commit(f.ctx, nil, backend.Update(flag, []byte("2")))
		require.NoError(t, err)
		select {
		case r := <-waiting:
			require.NoError(t, r.err)
			assert.Equal(t, "2", string(r.v[1].Value))
			return true
		case <-time.After(100 * time.Millisecond):
			return false
		}
	})
}
