package health_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/health"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// said is what a handler says at a path.
type said struct {
	code   int
	age    string   // the header
	Why    string   `json:"why"`
	Age    *float64 `json:"leaderAgeSeconds"`
	Status struct {
		Leader  *struct{ ID string } `json:"leader"`
		Session *struct{ State string }
	}
}

func says(t *testing.T, h http.Handler, path string) (s said) {
	t.Helper()
	w := ask(h, "GET", path)
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		t.Fatalf("%s: %v in %s", path, err, w.Body)
	}
	s.code, s.age = w.Code, w.Header().Get("Age")
	return s
}

// A server is frozen, and goes on: the leader leads until its window ends, and nobody while it is frozen.
// The leader last seen is told meanwhile, with an age that grows. That restarts nobody.
func TestFrozenEtcd(t *testing.T) {
	t.Parallel()
	server := servertest.EtcdForTest(t, servertest.EtcdConfig{NoSync: true})
	var handlers []http.Handler
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, id := range []string{"a", "b"} {
		b := must.Get(dial.Open(ctx, fmt.Sprintf("etcd://%s?timeout=10s", server.Addr())))(t)
		t.Cleanup(func() { _ = b.Close() })
		e := candidate(t, b, id, "")
		running.Go(func() { _ = elector.Run(ctx, e, untilTold) })
		handlers = append(handlers, health.New(e, health.Options{Bound: time.Hour}), health.New(e, health.Options{Outage: time.Nanosecond}))
	}
	t.Cleanup(func() { cancel(); running.Wait() })
	a, b := handlers[0], handlers[2]
	ok := func(h http.Handler, path string) bool { return says(t, h, path).code == http.StatusOK }
	eventually := func(what string, holds func() bool) {
		t.Helper()
		for deadline := time.Now().Add(wait.Patience); !holds(); time.Sleep(20 * time.Millisecond) {
			if ok(a, "/leader") && ok(b, "/leader") && ok(a, "/leader") {
				t.Fatalf("%s: two lead", what)
			}
			if !ok(a, "/healthz") || !ok(b, "/healthz") {
				t.Fatalf("%s: not well", what)
			}
			if time.Now().After(deadline) {
				t.Fatalf("never: %s: %+v, %+v", what, says(t, a, "/status"), says(t, b, "/status"))
			}
		}
	}
	settled := func() bool {
		return ok(a, "/leader") && ok(b, "/replica") || ok(b, "/leader") && ok(a, "/replica")
	}
	// A candidate that stands may hear of the leader's announcement some moments later.
	known := func() bool { return says(t, a, "/status").Age != nil && says(t, b, "/status").Age != nil }
	eventually("one leads, and the other stands behind it and knows it", func() bool { return settled() && known() })
	leader, follower, outage := a, b, handlers[3]
	if ok(b, "/leader") {
		leader, follower, outage = b, a, handlers[1]
	}
	id := says(t, leader, "/leader").Status.Leader.ID

	require.NoError(t, server.Pause())
	defer func() { _ = server.Resume() }() // or nothing can be closed
	eventually("nobody leads", func() bool { return !ok(leader, "/leader") && !ok(follower, "/replica") })
	if s := says(t, leader, "/status"); s.code != http.StatusOK || s.Age != nil || s.age != "" || s.Status.Leader != nil {
		t.Errorf("after its term it knows of no leader: %+v", s)
	}
	eventually("the follower's knowledge is 5 s old", func() bool {
		s := says(t, follower, "/status")
		return s.Age != nil && *s.Age >= 5
	})
	s := says(t, follower, "/replica")
	if age, err := strconv.Atoi(s.age); s.Why == "" || s.Status.Leader == nil || s.Status.Leader.ID != id || err != nil || age < 5 || age > int(*s.Age) {
		t.Errorf("leader %q of old: %+v", id, s)
	}
	eventually("an outage is a fault if it is said to be one", func() bool { return !ok(outage, "/healthz") })
	if says(t, leader, "/leader").code == http.StatusOK || says(t, follower, "/leader").code == http.StatusOK {
		t.Error("one leads, and its server is frozen")
	}

	require.NoError(t, server.Resume())
	eventually("one leads again", settled)
	eventually("both know it, as of now", func() bool {
		one, two := says(t, a, "/status"), says(t, b, "/status")
		return settled() && one.Age != nil && two.Age != nil && *one.Age < 4 && *two.Age < 4 && one.Status.Leader.ID == two.Status.Leader.ID
	})
}
