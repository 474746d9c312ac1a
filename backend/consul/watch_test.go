package consul_test

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// If a server freezes that has the blocking queries, while heartbeats get through, as they started
// before or go elsewhere, a change is noticed within a session timeout.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	cluster := servertest.ConsulClusterForTest(t, 3, servertest.ConsulConfig{NoSync: true})
	agent := servertest.ConsulAgentForTest(t, cluster.Members, servertest.ConsulConfig{NoSync: true})
	// Long enough for the servers to elect another leader between two heartbeats.
	const timeout = 20 * time.Second
	for _, query := range []struct {
		hangs  string
		leads  bool // the server that freezes
		direct bool // the process was connected to it
		agent  bool // it is connected to an agent
	}{
		{hangs: "at the leader, by way of another", leads: true},
		{hangs: "at the leader, by way of an agent", leads: true, agent: true},
		{hangs: "at the leader, which heartbeats have left", leads: true, direct: true},
		{hangs: "at another, which heartbeats have left", direct: true},
		{hangs: "at another, if the agent has chosen it", agent: true},
	} {
		t.Run(query.hangs, func(t *testing.T) {
			leads := must.Get(cluster.WaitLeader(wait.Patience))(t)
			leader := slices.Index(cluster.Members, leads)
			freezes, stays := leader, (leader+2)%3
			if !query.leads {
				freezes = (leader + 1) % 3
			}
			options := consultest.Options{Config: consul.Config{SessionTimeout: timeout}}
			o := processOn(t, options, cluster.Members...)
			o.Only(stays)
			o.S = o.open()
			o.Enter(newRoot())
			before, seat := o.Enqueue(o.S), newRoot()
			f := processOn(t, options, cluster.Members...)
			f.Only(stays)
			switch {
			case query.agent:
				f = processOn(t, options, agent)
			case query.direct:
				f.Only(freezes)
			}
			f.Dir, f.S = o.Dir, f.open()
			term := f.Campaign(f.Stand(elector.Config{Backend: f.Backend, Election: newRoot()}))
			own := term.Guard().Conditions[0].Entry.Key
			me := f.Enqueue(f.S)
			listing := must.Get(f.S.List(f.Ctx, f.Dir))(t)
			gone := f.await(before, me)
			made := f.await(backend.Entry{Key: seat})
			listed := f.awaitList(listing)
			kept := wait.Later(func() ([]backend.Entry, error) { return f.S.Await(f.Ctx, me) })
			states := f.recordStates()
			if query.direct {
				f.Only(stays)
				f.Close() // the connections without a query
			}

			require.NoError(t, cluster.Members[freezes].Pause())
			resume := sync.OnceValue(cluster.Members[freezes].Resume)
			defer func() { require.NoError(t, resume()) }()
			must.Get(cluster.WaitLeader(wait.Patience))(t)
			began := time.Now()
			require.NoError(t, o.S.Discard(o.Ctx, before))
			taken := o.Commit(o.S, backend.CreateEphemeral(seat, nil))[0]
			require.NoError(t, consultest.DeleteAll(cluster.Members[stays:stays+1], own))

			inTime := func(what string) {
				t.Helper()
				late := time.Since(began)
				assert.Less(t, late, timeout, "until %s is noticed", what)
				t.Logf("%s is noticed after %v", what, late)
			}
			f.Told(gone, nothing, me)
			inTime("what is gone")
			f.Told(made, taken)
			inTime("what was made")
			after, err := wait.Returned(f.T, listed)
			inTime("a listing")
			require.NoError(t, err)
			assert.Equal(t, []string{me.Key}, after.Keys)
			f.Ends(term, elector.ErrDeposed)
			inTime("the end of a term")
			t.Log(states())

			// If the watches asked for what has not changed, the reply comes now, and is old.
			require.NoError(t, resume())
			require.NoError(t, consultest.DeleteAll(cluster.Members, me.Key))
			began = time.Now()
			f.Told(kept, nothing)
			inTime("what is gone when it is back")
		})
	}
}

// A look is one request per heartbeat, for any number of awaited entries, also for none; while nothing
// changes it makes nothing be read again.
func TestLookCosts(t *testing.T) {
	t.Parallel()
	f := setUpBrief(t)
	o := f.another()
	var idle, waits struct{ looks, reads, renewals atomic.Int64 }
	count := &idle
	var mu sync.Mutex
	f.Intercept(func(r *consultest.Request) (*http.Response, error) {
		mu.Lock()
		c := count
		mu.Unlock()
		switch {
		case looks(r):
			c.looks.Add(1)
		case renews(r):
			c.renewals.Add(1)
		case r.Blocking(): // for what does not exist, when anything is written
		default:
			c.reads.Add(1)
		}
		return r.Send()
	})
	f.renewedByItself()
	assert.InDelta(t, idle.renewals.Load(), idle.looks.Load(), 1)
	assert.Zero(t, idle.reads.Load())
	me, before, flag := f.Enqueue(f.S), f.Enqueue(o.S), f.Commit(o.S, backend.CompareAndSet(f.Dir+"/flag", []byte("v"), 0))[0]
	f.await(me, before)
	f.await(flag)
	f.awaitList(backend.Listing{Dir: newRoot()})
	mu.Lock()
	count = &waits
	mu.Unlock()
	f.renewedByItself()
	f.Commit(o.S, backend.CompareAndSet(newRoot(), nil, 0)) // nobody waits for it
	f.renewedByItself()
	assert.InDelta(t, 2*waits.renewals.Load(), waits.looks.Load(), 2, "one for the entries, and one for the directory")
	assert.Zero(t, waits.reads.Load())
}

// A service that does not let the session look at what it waits for does not end the session. If no
// leader can confirm its replies, the session is suspended, and ends with the window: the leader that
// renews it may have been deposed.
func TestLookRefused(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		what   string
		status int
		text   string
		state  backend.State
	}{
		{"too many", http.StatusTooManyRequests, "Your IP is issuing too many concurrent connections", backend.Live},
		{"denied", http.StatusForbidden, "Permission denied", backend.Live},
		{"no leader", http.StatusInternalServerError, "No cluster leader", backend.Suspended},
	} {
		t.Run(row.what, func(t *testing.T) {
			t.Parallel()
			f := setUpBrief(t)
			o := f.another()
			before := f.Enqueue(o.S)
			waiting := f.await(before)
			remove := f.handle(looks, answer(row.status, row.text))
			refused, _ := f.count(looks)
			states := f.recordStates()
			began, first := time.Now(), f.S.Deadline()
			if row.state == backend.Suspended {
				f.AwaitState(f.S, backend.Suspended)
				first = f.S.Deadline()
			}
			wait.For(t, "the window passes", func() bool { return time.Now().After(first) })
			// Less than one in 125 ms, which is where pauses end.
			assert.Less(t, refused.Load(), 10+int64(time.Since(began)/(200*time.Millisecond)))
			if row.state == backend.Suspended {
				f.AwaitState(f.S, backend.Lost)
				assert.Equal(t, first, f.S.Deadline(), "it moved without a look")
				return
			}
			f.AwaitState(f.S, backend.Live)
			assert.NotContains(t, states(), backend.Lost)
			require.NoError(t, o.S.Discard(o.Ctx, before))
			f.Told(waiting, nothing)
			remove()
			f.AwaitState(f.S, backend.Live)
		})
	}
}

// A reply to a look that is so late that the session was suspended meanwhile, and that shows a time
// before what the watches have shown since, does no harm.
func TestLateLook(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	o := f.another()
	flag := f.Commit(o.S, backend.CompareAndSet(f.Dir+"/flag", []byte("0"), 0))[0]
	waiting := f.await(flag)
	held, release := f.holdAnswers(looks)
	go f.hasten(f.S)
	<-held
	for i := range 3 {
		changed := f.Commit(o.S, backend.Update(flag, []byte{byte('1' + i)}))[0]
		f.Told(waiting, changed)
		flag = changed
		waiting = f.await(flag)
	}
	f.AwaitState(f.S, backend.Suspended)
	release()
	f.AwaitState(f.S, backend.Live)
	changed := f.Commit(o.S, backend.Update(flag, []byte("9")))[0]
	f.Told(waiting, changed)
}

// Await always asks the leader to confirm that it leads: a new or deposed leader may not have applied
// the creation of a candidate's own entry, and say that it is gone.
func TestAwaitReadsConsistently(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	o := f.another()
	before, me := f.Enqueue(o.S), f.Enqueue(f.S)
	waiting := f.await(me, before)
	var reads atomic.Int64
	f.handle(not(blocking), func(r *consultest.Request) (*http.Response, error) {
		if r.For("kv") || onlyReads(r) {
			reads.Add(1)
			assert.True(t, r.Asks("consistent"), r.URL)
		}
		return r.Send()
	})
	require.NoError(t, o.S.Discard(o.Ctx, before))
	f.Told(waiting, me, nothing)
	assert.EqualValues(t, 1, reads.Load())
}

// If a late reply says that nothing is there, an entry that was made since is still shown, and at once.
func TestAwaitBesideALateAnswer(t *testing.T) {
	t.Parallel()
	// No look comes with a heartbeat while the test lasts.
	f := setUpOn(t, consultest.Options{Config: consul.Config{SessionTimeout: time.Hour}}, sharedServer(t))
	o := f.another()
	key := f.Dir + "/seat"
	held, release := make(chan struct{}), make(chan struct{})
	_, remove := f.first(1, both(under("kv"+key), not(blocking)), func(r *consultest.Request) (*http.Response, error) {
		response, err := r.Send()
		close(held)
		<-release
		return response, err
	})
	reading := wait.Later(func() (backend.Entry, error) { return f.S.Get(f.Ctx, key) })
	<-held
	remove()
	seat := f.Commit(o.S, backend.CreateEphemeral(key, nil))[0]
	f.await(seat) // keeps the watch
	wait.For(t, "the watch shows it", func() bool {
		now, err := f.S.Await(f.Ctx, backend.Unknown(key))
		return err == nil && now[0].Same(seat)
	})
	close(release)
	wait.Fails(f.T, reading, backend.ErrNoEntry)
	began := time.Now()
	now := must.Get(f.S.Await(f.Ctx, backend.Unknown(key)))(t)
	assert.True(t, now[0].Same(seat))
	assert.Less(t, time.Since(began), time.Minute, "then a query is sent again")
}

// Two waits of one session that each show that one of the predecessors is gone do not show that the
// entry existed when both were.
func TestPredecessorOfTwoWaits(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	o := f.another()
	first, second := f.Enqueue(o.S), f.Enqueue(o.S)
	me := f.Enqueue(f.S)
	f.Follows(f.S, me, second)
	waiting := f.await(me, second)
	held, release := f.holdAnswers(both(under("kv"+me.Key), not(blocking)))
	require.NoError(t, o.S.Discard(o.Ctx, second))
	<-held // the read of what is left is pending
	pass := f.HoldWakeups()
	must.Get(f.operator().KV().Delete(me.Key[1:], nil))(t)
	require.NoError(t, o.S.Discard(o.Ctx, first))
	_, err := f.S.Get(f.Ctx, first.Key)
	require.ErrorIs(t, err, backend.ErrNoEntry)
	release()
	f.Told(waiting, me, nothing) // as it was then
	_, err = f.S.Predecessor(f.Ctx, me)
	require.ErrorIs(t, err, backend.ErrNoEntry, "it never was the oldest")
	pass()
}

// A wait continues if an operator undoes what its watch has shown, by restoring a snapshot, before the
// rest is read.
func TestAwaitOverARestore(t *testing.T) {
	t.Parallel()
	server := servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true})
	f := setUpOn(t, consultest.Options{}, server)
	o := f.another()
	flag := f.Commit(o.S, backend.CompareAndSet(f.Dir+"/flag", []byte("0"), 0))[0]
	me := f.Enqueue(f.S)
	restore := snapshot(t, f.operator())
	waiting := f.await(me, flag)
	held, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	f.handle(onlyReads, func(r *consultest.Request) (*http.Response, error) {
		once.Do(func() { close(held); <-release })
		return r.Send()
	})
	f.Commit(o.S, backend.Update(flag, []byte("1")))
	<-held
	restore()
	close(release)
	o = f.another() // the other one had written since
	wait.For(t, "a wait for what was restored", func() bool {
		must.Get(o.S.Commit(f.Ctx, nil, backend.Update(flag, []byte("2"))))(t)
		select {
		case r := <-waiting:
			require.NoError(t, r.Err)
			assert.Equal(t, "2", string(r.V[1].Value))
			return true
		case <-time.After(100 * time.Millisecond):
			return false
		}
	})
}
