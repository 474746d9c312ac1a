package health_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/health"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/fair"
)

// candidate makes an elector that is closed at the end of the test.
func candidate(t *testing.T, b backend.Backend, id, value string) elector.Elector {
	t.Helper()
	e := must.Get(elector.New(elector.Config{Backend: b, Strategy: fair.Strategy{}, Election: "/e", ID: id, Value: []byte(value)}))(t)
	t.Cleanup(func() { _ = e.Close(context.Background()) })
	return e
}

// runs makes an elector lead with a function until the test ends.
func runs(t *testing.T, e elector.Elector, lead func(ctx context.Context, t *elector.Term) error) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = elector.Run(ctx, e, lead) })
	t.Cleanup(func() { cancel(); running.Wait() })
	synctest.Wait()
}

func untilTold(ctx context.Context, _ *elector.Term) error {
	<-ctx.Done()
	return nil
}

// ask sends a request to a handler, without delay.
func ask(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// said returns the answer at a path, and checks the age in its header.
func said(t *testing.T, h http.Handler, path string) (a health.Answer) {
	t.Helper()
	w := ask(h, "GET", path)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &a), "%s: %s", path, w.Body)
	assert.Equal(t, map[bool]int{true: http.StatusOK, false: http.StatusServiceUnavailable}[a.OK], w.Code)
	header := ""
	if a.LeaderAge != nil {
		header = fmt.Sprint(int(*a.LeaderAge))
	}
	assert.Equal(t, header, w.Header().Get("Age"))
	assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
	return a
}

// answers fails unless the answers to /leader, /replica and /healthz are 200 or not as wanted. Each is
// JSON with the same result, and a reason if it is not 200.
func answers(t *testing.T, h http.Handler, leader, replica, well bool) {
	t.Helper()
	for path, want := range map[string]bool{"/leader": leader, "/replica": replica, "/healthz": well, "/status": true} {
		a := said(t, h, path)
		assert.True(t, a.OK == want && (a.Why == "") == want && a.Status.Role != 0, "%s: want %v: %+v", path, want, a)
	}
}

// unavailable fails unless the answer is 503, redirects nobody, and contains says.
func unavailable(t *testing.T, w *httptest.ResponseRecorder, says string) {
	t.Helper()
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Empty(t, w.Header().Get("Location"))
	assert.Contains(t, w.Body.String(), says)
}

// redirected fails unless the answer sends the client to to.
func redirected(t *testing.T, w *httptest.ResponseRecorder, to string) {
	t.Helper()
	assert.Equal(t, http.StatusTemporaryRedirect, w.Code)
	assert.Equal(t, to, w.Header().Get("Location"))
}

// The answers of a leader and the candidate behind it are true while in touch, out of touch, and back.
func TestLeaderAndReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		clients := []*memory.Client{service.Client("a"), service.Client("b")}
		var handlers []http.Handler
		for _, c := range clients {
			e := candidate(t, c, c.Name(), "")
			handlers = append(handlers, health.New(e, health.Options{}))
			answers(t, handlers[len(handlers)-1], false, false, true)
			runs(t, e, untilTold)
		}
		time.Sleep(time.Hour)
		answers(t, handlers[0], true, false, true)
		answers(t, handlers[1], false, true, true)

		clients[1].Suspend()
		synctest.Wait()
		answers(t, handlers[1], false, false, true)
		time.Sleep(24 * time.Hour) // a long outage makes nobody unhealthy
		answers(t, handlers[1], false, false, true)
		clients[1].Resume()
		time.Sleep(time.Minute)
		answers(t, handlers[1], false, true, true)

		clients[0].Suspend()
		synctest.Wait()
		answers(t, handlers[0], true, false, true) // its window has not ended
		time.Sleep(time.Minute)
		answers(t, handlers[0], false, false, true)
		answers(t, handlers[1], true, false, true)
	})
}

// An outage is a fault if Options.Outage is set.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		service.Stop()
		e := candidate(t, service.Client("a"), "a", "")
		h := health.New(e, health.Options{Outage: time.Hour})
		runs(t, e, untilTold)
		time.Sleep(time.Hour - time.Second)
		answers(t, h, false, false, true)
		time.Sleep(2 * time.Second)
		answers(t, h, false, false, false)
		service.Start()
		time.Sleep(time.Minute)
		answers(t, h, true, false, true)
	})
}

// A lead function that ignores its ctx is a fault once its term has been over for Bound.
func TestLeadThatGoesOn(t *testing.T) {
	for _, bound := range []time.Duration{0, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			client := memory.New(memory.Options{}).Client("a")
			e := candidate(t, client, "a", "")
			h := health.New(e, health.Options{Bound: bound})
			release := make(chan struct{})
			runs(t, e, func(context.Context, *elector.Term) error { <-release; return nil })
			time.Sleep(time.Hour)
			answers(t, h, true, false, true)
			client.Expire()
			synctest.Wait()
			if bound == 0 {
				bound = health.DefaultBound
			}
			time.Sleep(bound)
			answers(t, h, false, false, true)
			time.Sleep(time.Millisecond)
			answers(t, h, false, false, false)
			close(release)
			synctest.Wait()
			assert.Equal(t, http.StatusOK, ask(h, "GET", "/healthz").Code, "it has returned")
		})
	}
}

// A process whose Run has returned is a fault, unless Options.Idle is set.
func TestNoCampaign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := candidate(t, memory.New(memory.Options{}), "a", "")
		h, observer := health.New(e, health.Options{}), health.New(e, health.Options{Idle: true})
		require.NoError(t, elector.Run(t.Context(), e, func(context.Context, *elector.Term) error { return nil }))
		answers(t, h, false, false, true)
		time.Sleep(health.DefaultBound + time.Second)
		answers(t, h, false, false, false)
		answers(t, observer, false, false, true)
		require.NoError(t, e.Close(t.Context()))
		time.Sleep(health.DefaultBound + time.Second)
		answers(t, h, false, false, false)
		answers(t, observer, false, false, true)
	})
}

// A pause after a failed term is no fault, because its end is known.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := candidate(t, memory.New(memory.Options{}), "a", "")
		h := health.New(e, health.Options{Bound: time.Millisecond})
		runs(t, e, func(context.Context, *elector.Term) error { return errors.New("disk full") })
		for range 1000 {
			w := ask(h, "GET", "/healthz")
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			time.Sleep(300 * time.Millisecond)
			synctest.Wait()
		}
	})
}

// A stuck is an elector with a given status.
type stuck struct {
	elector.Elector
	status elector.Status
}

func (s stuck) Status() elector.Status { return s.status }

func (s stuck) Observe(context.Context) iter.Seq2[elector.Leader, error] {
	return func(yield func(elector.Leader, error) bool) { yield(elector.Leader{}, elector.ErrClosed) }
}

// The answers report even states that no elector should get into.
func TestStuck(t *testing.T) {
	long := time.Now().Add(-time.Hour)
	for want, s := range map[string]elector.Status{
		"the next try is overdue":              {Role: elector.RoleEntering, Since: long, NextTry: long},
		"it stands in a session that has been": {Role: elector.RoleStanding, Since: long, State: backend.Lost, Deadline: long},
	} {
		unavailable(t, ask(health.New(stuck{status: s}, health.Options{}), "GET", "/healthz"), want)
	}
}

func TestMethods(t *testing.T) {
	h := health.New(candidate(t, memory.New(memory.Options{}), "a", ""), health.Options{})
	for _, c := range []struct {
		method, path string
		code         int
	}{
		{"HEAD", "/status", 200}, {"POST", "/leader", 405}, {"DELETE", "/status", 405}, {"GET", "/", 404}, {"GET", "/leader/x", 404},
	} {
		assert.Equal(t, c.code, ask(h, c.method, c.path).Code, "%s %s", c.method, c.path)
	}
	assert.Contains(t, ask(h, "GET", "/").Body.String(), "/leader, /replica, /healthz and /status")
}

// A follower sends its clients to the leader, and says how old its knowledge is, even while the service is
// down.
func TestRedirect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) })
		a, b := candidate(t, service.Client("a"), "a", "http://a.example:8080/app/"), candidate(t, service.Client("b"), "b", "http://b.example")
		one, two := health.Redirect(a, app), health.Redirect(b, app)
		w := ask(two, "GET", "/x")
		unavailable(t, w, "no leader is known")
		assert.NotEmpty(t, w.Header().Get("Retry-After"))
		runs(t, a, untilTold)
		runs(t, b, untilTold)
		assert.Equal(t, http.StatusTeapot, ask(one, "GET", "/").Code, "at the leader")
		redirects := func(age string) {
			t.Helper()
			w := ask(two, "POST", "/jobs/a%2Fb//%2e?of=%3Cme%3E&n=1")
			redirected(t, w, "http://a.example:8080/app/jobs/a%2Fb//%2e?of=%3Cme%3E&n=1")
			assert.Equal(t, age, w.Header().Get("Age"))
			assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		}
		redirects("0")
		service.Stop()
		asOf := b.Status().LeaderAsOf
		time.Sleep(time.Until(asOf.Add(time.Minute)))
		redirects("60")
		time.Sleep(time.Second)
		unavailable(t, ask(two, "GET", "/x"), "last known to lead 1m1s ago")
	})
}

// A candidate far behind the leader, and a process that does not campaign, send clients to the current
// leader.
func TestRedirectFollowsTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		ids := []string{"a", "b", "c", "d", "observer"}
		var all []elector.Elector
		for _, id := range ids {
			all = append(all, candidate(t, service.Client(id), id, "http://"+id+".example"))
		}
		var doors []http.Handler
		for i, e := range all {
			doors = append(doors, health.Redirect(e, http.NotFoundHandler()))
			if ids[i] != "observer" {
				runs(t, e, untilTold)
			}
		}
		for leads := range 3 {
			time.Sleep(time.Hour)
			for i := leads + 1; i < len(doors); i++ {
				redirected(t, ask(doors[i], "GET", "/"), "http://"+ids[leads]+".example/")
			}
			assert.NoError(t, all[leads].Close(t.Context()))
		}
	})
}

// Follow continues after a hook of the elector has ended the goroutine that observes, and ends when the
// elector is closed, even while it waits for its next try.
func TestFollowUntilClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		client := service.Client("a")
		tries := 0
		e := must.Get(elector.New(elector.Config{
			Backend: client, Strategy: fair.Strategy{}, Election: "/e", ID: "a",
			Hooks: elector.Hooks{Retry: func(elector.RetryEvent) {
				if tries++; tries == 1 {
					runtime.Goexit()
				}
			}},
		}))(t)
		service.Stop()
		time.AfterFunc(time.Minute, service.Start)
		ended := make(chan struct{})
		go func() { defer close(ended); health.Follow(t.Context(), e) }()
		time.Sleep(time.Hour)
		runs(t, candidate(t, service.Client("b"), "b", ""), untilTold)
		require.Equal(t, "b", e.Status().Leader.ID)

		client.Deny()
		client.Expire()
		time.Sleep(time.Hour)
		require.NoError(t, e.Close(t.Context()))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		select {
		case <-ended:
		default:
			t.Error("Follow goes on")
		}
	})
}

// Follow tries again while it is refused, and ends with its ctx.
func TestFollowWhatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		client := service.Client("a")
		e := candidate(t, client, "a", "")
		runs(t, candidate(t, service.Client("b"), "b", ""), untilTold)
		release := client.Deny()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); health.Follow(ctx, e) }()
		time.Sleep(time.Hour)
		assert.Error(t, e.Status().Err)
		assert.Zero(t, e.Status().Leader)
		release()
		time.Sleep(time.Minute)
		assert.Equal(t, "b", e.Status().Leader.ID)
		cancel()
		<-ended
	})
}

// If a leader's value is hostile, or no URL, nobody is redirected.
func TestRedirectToNobody(t *testing.T) {
	for _, value := range []string{
		"", "a.example:8080", "//a.example", "javascript:alert(1)", "http://", "http:///x", "http://:8080", "ftp://a.example", "http://me:secret@a.example",
		"http://a.example/?q", "http://a.example/#x", "http://a.example\r\nSet-Cookie: x=1", "\x00", "http://[::1", "http://a.example:port",
	} {
		s := elector.Status{Role: elector.RoleStanding, Leader: elector.Leader{ID: "a", Token: 1, Value: []byte(value)}, LeaderAsOf: time.Now()}
		unavailable(t, ask(health.Redirect(stuck{status: s}, http.NotFoundHandler()), "GET", "/"), "the leader's value")
	}
	for value, want := range map[string]string{
		"http://a.example": "http://a.example//evil.example/x", "HTTPS://[::1]:8443/": "https://[::1]:8443//evil.example/x",
	} {
		s := elector.Status{Role: elector.RoleStanding, Leader: elector.Leader{ID: "a", Token: 1, Value: []byte(value)}, LeaderAsOf: time.Now()}
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.Path = "//evil.example/x"
		w := httptest.NewRecorder()
		health.Redirect(stuck{status: s}, http.NotFoundHandler()).ServeHTTP(w, r)
		assert.Equal(t, want, w.Header().Get("Location"), value)
	}
}
