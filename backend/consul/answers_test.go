package consul_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// The replies of a server that cannot serve are ridden out until the window ends.
func TestServerErrors(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		what   string
		status int
		text   string
	}{
		{"no leader", http.StatusInternalServerError, "No cluster leader"},
		{"no leader, over RPC", http.StatusInternalServerError, "rpc error making call: No cluster leader"},
		{"proxy", http.StatusServiceUnavailable, "upstream connect error"},
		{"proxy without an upstream", http.StatusBadGateway, ""},
	} {
		t.Run(row.what, func(t *testing.T) {
			t.Parallel()
			f := setUp(t)
			e := f.Enqueue(f.S)
			unable := answer(row.status, row.text)
			remove := f.Intercept(unable)
			read := wait.Later(func() (backend.Entry, error) { return f.S.Get(f.Ctx, e.Key) })
			f.AwaitState(f.S, backend.Suspended)
			remove()
			f.AwaitState(f.S, backend.Live)
			got := wait.Value(f.T, read)
			assert.True(t, got.Same(e))

			f = setUpBrief(t)
			f.Intercept(unable)
			read = wait.Later(func() (backend.Entry, error) { return f.S.Get(f.Ctx, f.Dir) })
			f.LostAtDeadline()
			wait.Fails(f.T, read, backend.ErrSessionLost)
		})
	}
}

// Open distinguishes a server that cannot answer from one that refuses.
func TestOpenErrors(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		status int
		text   string
		want   error
	}{
		{http.StatusInternalServerError, "No cluster leader", backend.ErrUnavailable},
		{http.StatusServiceUnavailable, "", backend.ErrUnavailable},
		{http.StatusTooManyRequests, "", backend.ErrUnavailable},
		{http.StatusNotFound, "404 page not found", backend.ErrUnavailable},
		{http.StatusRequestTimeout, "", backend.ErrUnavailable},
		{http.StatusTeapot, "an unknown status", backend.ErrUnavailable},
		{http.StatusForbidden, "Permission denied", backend.ErrDenied},
		{http.StatusForbidden, "ACL not found", backend.ErrDenied},
	} {
		t.Run(fmt.Sprintf("%d %s", row.status, row.text), func(t *testing.T) {
			t.Parallel()
			f := processOn(t, consultest.Options{}, sharedServer(t))
			f.Intercept(answer(row.status, row.text))
			_, err := f.Backend.Open(f.Ctx, backend.OpenOptions{})
			require.ErrorIs(t, err, row.want)
			var status api.StatusError
			require.ErrorAs(t, err, &status)
			assert.Equal(t, row.status, status.Code)
		})
	}
}

// If followers' disks stall, so that heartbeats are answered, and no write, that is reported after a
// session timeout.
func TestSilence(t *testing.T) {
	t.Parallel()
	f := setUpBrief(t)
	f.handle(both(txns, not(looks)), hang)
	f.Refused(f.S, backend.CompareAndSet(f.Dir+"/x", nil, 0), backend.ErrIndeterminate)
	require.NoError(t, f.Ctx.Err())
	assert.NotEqual(t, backend.Lost, f.S.State())
}

// The renewals of a leader whose own disk stalls, and that answers nothing else, keep no session,
// whether it waits for nothing or for what it has not read yet, and waits return.
func TestRenewalsAlone(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]bool{"waits for nothing": false, "waits": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setUpBrief(t)
			f.renewed()
			f.handle(not(renews), hang)
			began := time.Now()
			waiting := make(<-chan wait.Result[[]backend.Entry])
			if waits {
				waiting = wait.Later(func() ([]backend.Entry, error) { return f.S.Await(f.Ctx, backend.Unknown(f.Dir)) })
			}
			f.AwaitState(f.S, backend.Suspended)
			before := f.S.Deadline()
			assert.True(t, before.Before(began.Add(ttl)), "a renewal alone has moved it")
			f.LostAtDeadline()
			assert.Equal(t, before, f.S.Deadline())
			if waits {
				wait.Fails(f.T, waiting, backend.ErrSessionLost)
			}
		})
	}
	t.Run("only queries hang", func(t *testing.T) {
		t.Parallel()
		f := setUpBrief(t)
		f.handle(under("kv/"), hang)
		_, err := f.S.Await(f.Ctx, backend.Unknown(f.Dir))
		require.ErrorIs(t, err, backend.ErrUnavailable)
		assert.NotEqual(t, backend.Lost, f.S.State())
	})
}

// If an agent accepts no more connections and answers 429, the waits of a session use all that it has:
// those that get none rely on the looks, and heartbeats continue.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	const most = 6
	f := setUpOn(t, consultest.Options{Apart: true}, servertest.ConsulForTest(t, // counts the connections of a host
		servertest.ConsulConfig{NoSync: true, Config: fmt.Sprintf(`limits { http_max_conns_per_client = %d }`, most)}))
	refused := f.countAnswers(every, http.StatusTooManyRequests)
	// Each of them needs a connection for as long as it waits.
	const waits = 10
	var made []backend.Op
	told := make(chan error, waits)
	for range waits {
		key := f.Dir + "/" + strconv.Itoa(len(made))
		made = append(made, backend.CreateEphemeral(key, nil))
		go func() {
			now, err := f.S.Await(f.Ctx, backend.Entry{Key: key})
			if err == nil && !now[0].Exists() {
				err = errors.New("it is told of nothing")
			}
			told <- err
		}()
	}
	wait.For(t, "waits without a connection", func() bool { return refused.Load() >= waits-most })
	_, _, err := f.S.Survey(f.Ctx, f.Dir, nil)
	require.NoError(t, err)
	for range 3 {
		f.renewed()
	}
	f.Commit(f.S, made...)
	for range waits {
		go f.hasten(f.S)
		require.NoError(t, <-told)
	}
	f.renewed()
}

// If waits have connections of their own, a candidate that surveys and then waits for two entries has three in all: the
// survey leaves its second one to a wait.
func TestSurveyLeavesItsConnection(t *testing.T) {
	t.Parallel()
	f := setUpOn(t, consultest.Options{Apart: true}, sharedServer(t))
	o := f.another()
	before, me := o.Enqueue(o.S), f.Enqueue(f.S)
	_, _, err := f.S.Survey(f.Ctx, f.Dir, nil)
	require.NoError(t, err)
	waiting := f.await(me, before)
	o.Discard(o.S, before)
	f.Told(waiting, me, backend.Entry{Key: before.Key})
	wait.For(t, "the queries have theirs", func() bool { return f.Proxies[0].Accepted() >= 3 }) // one that tells nothing may be late
	assert.Equal(t, 3, f.Proxies[0].Accepted())
}

// A client for waits whose transport has no more connections, as all of them wait, does not keep a Survey from its answer.
func TestSurveyBesideFullWaits(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	cfg := api.DefaultConfig()
	cfg.Address, cfg.Transport.MaxConnsPerHost = server.Addr(), 1
	t.Cleanup(cfg.Transport.CloseIdleConnections)
	waits := must.Get(api.NewClient(cfg))(t)
	f := setUpOn(t, consultest.Options{Config: consul.Config{Watches: waits, SessionTimeout: consul.MinSessionTimeout}}, server)
	e := f.Enqueue(f.S)
	waiting := f.Awaits(f.S, e)
	wait.For(t, "a wait that holds the connection", func() bool {
		ctx, cancel := context.WithTimeout(f.Ctx, 100*time.Millisecond)
		defer cancel()
		_, _, err := waits.KV().Get("none", new(api.QueryOptions).WithContext(ctx))
		return err != nil
	})
	ctx, cancel := context.WithTimeout(f.Ctx, consul.MinSessionTimeout)
	defer cancel()
	_, _, err := f.S.Survey(ctx, f.Dir, nil)
	require.NoError(t, err)
	f.Discard(f.S, e)
	f.Told(waiting, backend.Entry{Key: e.Key})
}

// A wait without a connection returns by the heartbeats' looks, and asks for one again if waits have
// their own connections.
func TestWaitingWithoutAConnection(t *testing.T) {
	t.Parallel()
	for name, apart := range map[string]bool{"of its own": true, "shared with heartbeats": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setUpOn(t, consultest.Options{Apart: apart}, sharedServer(t))
			o := f.another()
			e := o.Enqueue(o.S)
			var refused, sent atomic.Int64
			var room atomic.Bool
			f.handle(blocking, func(r *consultest.Request) (*http.Response, error) {
				if room.Load() {
					sent.Add(1)
					return r.Send()
				}
				refused.Add(1)
				return crowded(r)
			})
			waits := func() <-chan wait.Result[[]backend.Entry] {
				return wait.Later(func() ([]backend.Entry, error) { return f.S.Await(f.Ctx, e) })
			}
			waiting := waits()
			wait.For(t, "it is refused", func() bool { return refused.Load() > 0 })
			e = o.Commit(o.S, backend.Update(e, []byte("new")))[0]
			f.renewed()
			f.Told(waiting, e)
			if !apart {
				require.EqualValues(t, 1, refused.Load(), "it asks again, and may be given the heartbeats' connection")
			}

			room.Store(true)
			waiting = waits()
			wait.For(t, "it asks again", func() bool { return sent.Load() > 0 })
			o.Commit(o.S, backend.Delete(e))
			f.Told(waiting, nothing)
			require.Equal(t, backend.Live, f.S.State())
		})
	}
}

// If a server accepts connections and does not answer, a session is suspended, and lost when its window ends.
func TestPausedServer(t *testing.T) {
	t.Parallel()
	server := servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true})
	f := setUpOn(t, consultest.Options{Apart: true}, server)
	e := f.Enqueue(f.S)
	require.NoError(t, server.Pause())
	go f.hasten(f.S)
	f.AwaitState(f.S, backend.Suspended)
	require.NoError(t, server.Resume())
	f.AwaitState(f.S, backend.Live)
	f.Stands(f.S, e)

	f = setUpOn(t, consultest.Options{Apart: true, Config: brief.Config}, server)
	e = f.Enqueue(f.S)
	waiting := f.await(e)
	require.NoError(t, server.Pause())
	reading := wait.Later(func() (backend.Entry, error) { return f.S.Get(f.Ctx, e.Key) })
	listing := wait.Later(func() (backend.Listing, error) { return f.S.List(f.Ctx, f.Dir) })
	writing := wait.Later(func() ([]backend.Entry, error) { return f.S.Commit(f.Ctx, nil, backend.Update(e, nil)) })
	short, cancel := context.WithTimeout(f.Ctx, 200*time.Millisecond)
	_, err := f.S.Get(short, e.Key)
	cancel()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	f.LostAtDeadline()
	wait.Fails(f.T, reading, backend.ErrSessionLost)
	wait.Fails(f.T, listing, backend.ErrSessionLost)
	wait.Fails(f.T, waiting, backend.ErrSessionLost)
	wait.Fails(f.T, writing, backend.ErrSessionLost, backend.ErrIndeterminate)
	short, cancel = context.WithTimeout(f.Ctx, 200*time.Millisecond)
	defer cancel()
	require.Error(t, f.S.Close(short), "nobody has confirmed it")
	_, err = f.Backend.Open(short, backend.OpenOptions{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, server.Resume())
}

// If the servers accept only longer TTLs, Open fails at once: trying again would be of no use.
func TestOpenWithATTLThatServersRefuse(t *testing.T) {
	t.Parallel()
	server := withACL.ForTest(t)
	f := processOn(t, consultest.Options{Token: server.Token(), Config: brief.Config}, server)
	_, err := f.Backend.Open(f.Ctx, backend.OpenOptions{})
	require.Error(t, err)
	require.NotErrorIs(t, err, backend.ErrUnavailable)
	require.ErrorContains(t, err, "SessionTimeout")
}
