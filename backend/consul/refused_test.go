package consul_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
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

// Replies that do not say that a request is bad are ridden out, on each kind of request, whether it was
// done or not: sessions live, the leader leads, and waiting candidates keep their places.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	writes := verbs(api.KVLock, api.KVCAS, api.KVSet, api.KVDelete, api.KVDeleteCAS)
	for name, kind := range map[string]struct {
		match match
		done  bool
		slow  bool // it comes with heartbeats
	}{
		"renewal":       {match: renews, slow: true},
		"renewal, done": {match: renews, slow: true, done: true},
		"look":          {match: both(verbs(api.KVCheckIndex, api.KVCheckNotExists), not(writes)), slow: true},
		"query":         {match: query("index", false)},
		"re-sent query": {match: query("index", true)},
		"read":          {match: verbs(api.KVGetOrEmpty)},
		"write":         {match: writes},
		"write, done":   {match: writes, done: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := []int{404, 408, 418, 425, 429, 500, 502, 503, 504, 599}
			rounds := [][]int{{429}, {503}, all, slices.Repeat([]int{429}, 5), slices.Repeat([]int{404}, 3)}
			if !kind.slow {
				for _, status := range all {
					rounds = append(rounds, []int{status})
				}
			}
			election := newRoot()
			first, second := processOn(t, consultest.Options{}, sharedServer(t)), processOn(t, consultest.Options{}, sharedServer(t))
			ofFirst, ofSecond := cuttable(first), cuttable(second)
			leader, other := first.Stand(elector.Config{Backend: first.Backend, Election: election}), second.Stand(elector.Config{Backend: second.Backend, Election: election})
			beside := processOn(t, consultest.Options{}, sharedServer(t)).open()
			of := map[elector.Elector]*fixture{leader: first, other: second}
			f := first
			term := f.Campaign(leader)
			for _, statuses := range rounds {
				waiting := f.Campaigns(other)
				f.Queue(leader, 2)
				if !kind.slow {
					ofFirst.hang(t)
					ofSecond.hang(t)
				}
				sessions := fmt.Sprint(first.Sessions(), second.Sessions())
				next := make(chan int, len(statuses)) // replies, to any request
				for _, status := range statuses {
					next <- status
				}
				refuse := func(r *consultest.Request) (*http.Response, error) {
					select {
					case status := <-next:
						if kind.done {
							return done(answer(status, ""))(r)
						}
						return answer(status, "")(r)
					default:
						return r.Send()
					}
				}
				removeFirst, removeSecond := first.handle(kind.match, refuse), second.handle(kind.match, refuse)
				if !kind.slow { // the queries are sent again
					ofFirst.cut()
					ofSecond.cut()
				}
				must.Get(term.Commit(f.Ctx, elector.Put(election+"-state", []byte(fmt.Sprint(statuses)))))(t)
				if kind.slow || strings.Contains(name, "re-sent") {
					wait.For(t, "all answers are given", func() bool {
						of[leader].hasten(term.Guard().Session)
						return len(next) == 0
					})
				}
				require.True(t, term.Valid(), "%v", statuses)
				state := must.Get(beside.Get(f.Ctx, election+"-state"))(t)
				assert.Equal(t, fmt.Sprint(statuses), string(state.Value))
				require.NoError(t, term.Resign(f.Ctx))
				term = f.Succeeds(waiting, term)
				removeFirst()
				removeSecond()
				require.Equal(t, sessions, fmt.Sprint(first.Sessions(), second.Sessions()), "%v: sessions have ended", statuses)
				leader, other = other, leader
			}
		})
	}
}

// A session is ended at the servers although they refuse at first.
func TestRefusedClose(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	witness := f.open()
	for _, status := range []int{408, 418, 429, 500, 502, 503, 504} {
		s := f.open()
		e := f.Enqueue(s)
		given, remove := f.first(2, destroys, answer(status, ""))
		require.NoError(t, s.Close(f.Ctx), "%d", status)
		remove()
		require.Greater(t, given.Load(), int64(2))
		_, err := witness.Get(f.Ctx, e.Key)
		require.ErrorIs(t, err, backend.ErrNoEntry, "%d", status)
	}
}

// A request that is refused for long returns the error, while the session lives.
func TestRefusedForLong(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	e := f.Enqueue(f.S)
	links := cuttable(f)
	waiting := f.await(e)
	links.hang(t)
	remove := f.handle(both(not(renews), not(looks)), crowded)
	links.cut()
	for name, call := range map[string]func() error{
		"get":    func() error { _, err := f.S.Get(f.Ctx, e.Key); return err },
		"commit": func() error { _, err := f.S.Commit(f.Ctx, nil, backend.Enqueue(f.Dir, nil)); return err },
		"open":   func() error { _, err := f.Backend.Open(f.Ctx, backend.OpenOptions{}); return err },
		// It has something to read, and shares the heartbeats' connections.
		"await": func() error { _, err := f.S.Await(f.Ctx, backend.Unknown(f.Dir)); return err },
	} {
		err := call()
		require.ErrorContains(t, err, "http_max_conns_per_client", name)
		if name == "get" || name == "await" {
			require.ErrorIs(t, err, backend.ErrUnavailable, name)
		}
	}
	// A wait that has nothing to read continues for as long as that holds.
	f.renewed()
	wait.Pending(f.T, waiting)
	must.Get(f.operator().KV().Delete(e.Key[1:], nil))(t)
	wait.Fails(f.T, waiting, backend.ErrUnavailable)
	remove()
	_, err := f.S.Get(f.Ctx, e.Key)
	require.ErrorIs(t, err, backend.ErrNoEntry)
	f.renewed()
}
