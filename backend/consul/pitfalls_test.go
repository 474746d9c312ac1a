package consul_test

import (
	"bytes"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// The tests named TestPitfallNN cover what Consul and its client leave to the user.

// rewriteIndex changes the index of all replies to blocking queries, and counts them.
func (f *fixture) rewriteIndex(to func(n int64, index string) string) *atomic.Int64 {
	answers := new(atomic.Int64)
	f.handle(asks("index"), func(r *consultest.Request) (*http.Response, error) {
		response, err := r.Send()
		if err == nil {
			response.Header.Set("X-Consul-Index", to(answers.Add(1), response.Header.Get("X-Consul-Index")))
		}
		return response, err
	})
	return answers
}

// shorten makes blocking queries return without a change after a moment.
func (f *fixture) shorten() {
	f.handle(blocking, func(r *consultest.Request) (*http.Response, error) {
		query := r.URL.Query()
		query.Set("wait", "10ms")
		r.URL.RawQuery = query.Encode()
		return r.Send()
	})
}

// An index that goes backwards or is 0 neither blocks for ever nor makes it spin.
func TestPitfall30IndexGoesBackwards(t *testing.T) {
	t.Parallel()
	for name, to := range map[string]func(int64, string) string{
		"backwards": func(n int64, index string) string { return strconv.FormatInt(max(1, 1000-n), 10) },
		"zero":      func(int64, string) string { return "0" },
		"missing":   func(int64, string) string { return "" },
		"far ahead": func(n int64, index string) string {
			if n > 3 {
				return index
			}
			return strconv.FormatInt(1<<40+n, 10)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setUp(t)
			o := f.another()
			f.shorten()
			flag := f.Commit(o.S, backend.CompareAndSet(f.Dir+"/flag", []byte("0"), 0))[0]
			wait.For(t, "it is seen", func() bool { e, err := f.S.Get(f.Ctx, flag.Key); return err == nil && e.Same(flag) })
			reads, _ := f.count(func(r *consultest.Request) bool { return r.Method == http.MethodGet })
			answers := f.rewriteIndex(to)
			waiting := f.await(flag)
			began := time.Now()
			wait.For(t, "some answers", func() bool { return answers.Load() > 5 || time.Since(began) > 2*time.Second })
			changed := f.Commit(o.S, backend.Update(flag, []byte("1")))[0]
			f.Told(waiting, changed)
			// Each query takes 10 ms at least if it blocks at all.
			assert.Less(t, float64(reads.Load()), 10+time.Since(began).Seconds()*250, "it spins")
			f.AwaitState(f.S, backend.Live)
		})
	}
}

// Waits continue when the index really goes backwards, as an operator restores a snapshot.
func TestPitfall30Restore(t *testing.T) {
	t.Parallel()
	server := servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true})
	f := setUpOn(t, consultest.Options{}, server)
	o := f.another()
	flag := f.Commit(o.S, backend.CompareAndSet(f.Dir+"/flag", []byte("0"), 0))[0]
	kept := f.Enqueue(f.S)
	restore := snapshot(t, f.operator())

	// This is undone.
	flag = f.Commit(o.S, backend.Update(flag, []byte("1")))[0]
	after := f.Enqueue(o.S)
	for range 50 {
		f.Commit(o.S, backend.CompareAndSet(newChild(f.Dir), nil, 0))
	}
	waiting, undone := f.await(flag, kept), f.await(after)
	restore()
	now := wait.Value(f.T, waiting)
	assert.Equal(t, "0", string(now[0].Value))
	assert.True(t, now[1].Same(kept))
	gone := wait.Value(f.T, undone)
	assert.False(t, gone[0].Exists())
	// Later changes are seen. (The query for what was kept may still be the old one.)
	waiting = wait.Later(func() ([]backend.Entry, error) { return f.S.Await(f.Ctx, now...) })
	changed := f.Commit(f.another().S, backend.Update(now[0], []byte("2")))[0]
	f.Told(waiting, changed)
	f.renewed()
	// A session that has written since is lost.
	wait.For(t, "a session whose writes are gone is lost", func() bool { return o.S.State() == backend.Lost })
}

// A wait does not return if a blocking query returns without a change.
func TestPitfall30ReturnWithoutChange(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	o := f.another()
	e := f.Enqueue(f.S)
	f.shorten()
	answers := f.rewriteIndex(func(_ int64, index string) string { return index })
	waiting := f.await(e, backend.Entry{Key: f.Dir + "/seat"})
	wait.For(t, "20 answers", func() bool { return answers.Load() > 20 })
	for range 5 {
		f.Enqueue(o.S)
		f.Commit(o.S, backend.CompareAndSet(newRoot(), nil, 0))
	}
	wait.Pending(f.T, waiting)
	seat := f.Commit(o.S, backend.CreateEphemeral(f.Dir+"/seat", nil))[0]
	f.Told(waiting, e, seat)
}

// The seat of a session that was ended can be taken at once.
func TestPitfall32LockDelay(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	o := f.another()
	seat := f.Commit(f.S, backend.CreateEphemeral(f.Dir+"/seat", nil))[0]
	session := must.First(f.operator().Session().Info(f.S.ID(), nil))(t)
	assert.LessOrEqual(t, session.LockDelay, time.Millisecond)
	waiting := o.await(seat)
	f.Expire()
	wait.Value(o.T, waiting)
	sent, _ := o.count(both(txns, not(looks)))
	f.Commit(o.S, backend.CreateEphemeral(seat.Key, nil))
	assert.EqualValues(t, 1, sent.Load(), "a lock delay has it refused, and tried again")
}

// A read is never older than what the session was shown before, even if a server that does not lead any
// more answers it.
func TestPitfall33StaleAnswers(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	o := f.another()
	flag := f.Commit(o.S, backend.CompareAndSet(f.Dir+"/flag", []byte("0"), 0))[0]
	read := func() string {
		e := must.Get(f.S.Get(f.Ctx, flag.Key))(t)
		return string(e.Value)
	}
	// A reply of now is given again later, except to requests for the newest.
	var mu sync.Mutex
	replay := false
	recorded := make(map[string]func() *http.Response)
	reads := func(r *consultest.Request) bool {
		return !r.Asks("consistent") && !r.Blocking() && (onlyReads(r) || r.For("kv/") && r.Method == http.MethodGet)
	}
	f.handle(reads, func(r *consultest.Request) (*http.Response, error) {
		name := r.URL.String() + string(r.Content)
		mu.Lock()
		defer mu.Unlock()
		if again := recorded[name]; replay && again != nil {
			return again(), nil
		}
		response, err := r.Send()
		if err == nil {
			var text bytes.Buffer
			_, err = text.ReadFrom(response.Body)
			recorded[name] = func() *http.Response {
				old := consultest.Answer(response.StatusCode, text.String())
				old.Header = response.Header.Clone()
				return old
			}
			response = recorded[name]()
		}
		return response, err
	})
	require.Equal(t, "0", read())
	changed := f.Commit(f.S, backend.Update(flag, []byte("1")))[0]
	mu.Lock()
	replay = true
	mu.Unlock()
	assert.Equal(t, "1", read(), "older than what it wrote itself")
	now := must.Get(f.S.Await(f.Ctx, backend.Unknown(flag.Key)))(t)
	assert.True(t, now[0].Same(changed))
}

// The window's end holds however often a request is tried again, whether renewals fail fast, slowly, or
// not at all.
func TestPitfall35RetriesHeedTheDeadline(t *testing.T) {
	t.Parallel()
	f := setUpBrief(t)
	var asked atomic.Int64
	f.handle(renews, func(r *consultest.Request) (*http.Response, error) {
		if n := asked.Add(1); n%2 == 0 {
			return hang(r)
		}
		return consultest.Answer(http.StatusInternalServerError, "rpc error: lead thread didn't get connection"), nil
	})
	f.LostAtDeadline()
	assert.Greater(t, asked.Load(), int64(1), "it gave up at the first failure")
	assert.Less(t, asked.Load(), int64(100), "it asked too often")
}
