package health_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/health"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// While the server is frozen, the leader leads until its window ends, and then nobody leads; the last
// known leader is reported with a growing age, and no process counts as unhealthy.
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
	ok := func(h http.Handler, path string) bool { return ask(h, "GET", path).Code == http.StatusOK }
	eventually := func(what string, holds func() bool) {
		t.Helper()
		for deadline := time.Now().Add(wait.Patience); !holds(); time.Sleep(20 * time.Millisecond) {
			require.False(t, ok(a, "/leader") && ok(b, "/leader") && ok(a, "/leader"), "%s: two lead", what)
			require.True(t, ok(a, "/healthz") && ok(b, "/healthz"), "%s: not well", what)
			if time.Now().After(deadline) {
				t.Fatalf("never: %s: %+v, %+v", what, said(t, a, "/status"), said(t, b, "/status"))
			}
		}
	}
	settled := func() bool { return ok(a, "/leader") && ok(b, "/replica") || ok(b, "/leader") && ok(a, "/replica") }
	// A standing candidate may learn of the leader's announcement a little later.
	known := func() bool { return said(t, a, "/status").LeaderAge != nil && said(t, b, "/status").LeaderAge != nil }
	eventually("one leads, and the other stands behind it and knows it", func() bool { return settled() && known() })
	leader, follower, outage := a, b, handlers[3]
	if ok(b, "/leader") {
		leader, follower, outage = b, a, handlers[1]
	}
	id := said(t, leader, "/leader").Status.Leader.ID

	require.NoError(t, server.Pause())
	defer func() { _ = server.Resume() }() // otherwise nothing can be closed
	eventually("nobody leads", func() bool { return !ok(leader, "/leader") && !ok(follower, "/replica") })
	s := said(t, leader, "/status")
	assert.True(t, s.OK && s.LeaderAge == nil && s.Status.Leader.ID == "", "after its term it knows of no leader: %+v", s)
	old := func(a health.Answer) bool { return a.LeaderAge != nil && *a.LeaderAge >= 5 }
	eventually("the follower's knowledge is 5 s old", func() bool { return old(said(t, follower, "/status")) })
	s = said(t, follower, "/replica")
	assert.True(t, s.Why != "" && s.Status.Leader.ID == id && old(s), "leader %q of old: %+v", id, s)
	eventually("an outage is a fault if it is said to be one", func() bool { return !ok(outage, "/healthz") })
	assert.False(t, ok(leader, "/leader") || ok(follower, "/leader"), "one leads, and its server is frozen")

	require.NoError(t, server.Resume())
	eventually("one leads again", settled)
	eventually("both know it, as of now", func() bool {
		one, two := said(t, a, "/status"), said(t, b, "/status")
		return settled() && one.LeaderAge != nil && two.LeaderAge != nil && *one.LeaderAge < 4 && *two.LeaderAge < 4 && one.Status.Leader.ID == two.Status.Leader.ID
	})
}
