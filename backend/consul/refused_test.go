package consul_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
)

// refusals gives these answers to the next requests that match, of several processes.
type refusals struct {
	match match
	done  bool // the servers get the requests all the same

	mu   sync.Mutex
	next []int
}

func (r *refusals) handle(request *consultest.Request) (*http.Response, error) {
	r.mu.Lock()
	if len(r.next) == 0 {
		r.mu.Unlock()
		return request.Send()
	}
	h := answer(r.next[0], "")
	r.next = r.next[1:]
	r.mu.Unlock()
	if r.done {
		h = done(h)
	}
	return h(request)
}

func (r *refusals) give(statuses ...int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = statuses
}

func (r *refusals) given() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.next) == 0
}

// Answers that do not say that a request is bad are ridden out, on each kind of request,
// whether it was done or not: sessions go on, the leader leads, and who waits keeps its
// place.
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
			r := &refusals{match: kind.match, done: kind.done}
			election := newRoot()
			first, second := processOn(t, consultest.Options{}, sharedServer(t)), processOn(t, consultest.Options{}, sharedServer(t))
			ofFirst, ofSecond := cuttable(first), cuttable(second)
			leader, other := first.stand(first.Backend, fair.New(), election), second.stand(second.Backend, fair.New(), election)
			beside := processOn(t, consultest.Options{}, sharedServer(t)).open()
			of := map[elector.Elector]*fixture{leader: first, other: second}
			f := first
			term, err := leader.Campaign(f.ctx)
			require.NoError(t, err)
			for _, statuses := range rounds {
				waiting := later(func() (*elector.Term, error) { return other.Campaign(f.ctx) })
				var before []elector.Candidate
				wait.For(t, "both stand", func() bool {
					before, err = leader.Candidates(f.ctx)
					return err == nil && len(before) == 2
				})
				if !kind.slow {
					ofFirst.hang(t)
					ofSecond.hang(t)
				}
				sessions := fmt.Sprint(first.Sessions(), second.Sessions())
				r.give(statuses...)
				removeFirst, removeSecond := first.handle(r.match, r.handle), second.handle(r.match, r.handle)
				if !kind.slow { // the queries are sent again
					ofFirst.cut()
					ofSecond.cut()
				}
				_, err = term.Commit(f.ctx, elector.Put(election+"-state", []byte(fmt.Sprint(statuses))))
				require.NoError(t, err)
				if kind.slow || strings.Contains(name, "re-sent") {
					wait.For(t, "all answers are given", func() bool {
						of[leader].hasten(term.Guard().Session)
						return r.given()
					})
				}
				require.True(t, term.Valid(), "%v", statuses)
				state, err := beside.Get(f.ctx, election+"-state")
				require.NoError(t, err)
				assert.Equal(t, fmt.Sprint(statuses), string(state.Value))
				require.NoError(t, term.Resign(f.ctx))
				next, err := receive(f, waiting)
				require.NoError(t, err)
				require.Greater(t, next.Token(), term.Token())
				removeFirst()
				removeSecond()
				require.Equal(t, sessions, fmt.Sprint(first.Sessions(), second.Sessions()), "%v: sessions have ended", statuses)
				leader, other, term = other, leader, next
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
		e := f.enqueue(s)
		given, remove := f.first(2, destroys, answer(status, ""))
		require.NoError(t, s.Close(f.ctx), "%d", status)
		remove()
		require.Greater(t, given.Load(), int64(2))
		_, err := witness.Get(f.ctx, e.Key)
		require.ErrorIs(t, err, backend.ErrNoEntry, "%d", status)
	}
}

// What is refused for long is told, while the session goes on.
func TestRefusedForLong(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	e := f.enqueue(f.s)
	links := cuttable(f)
	waiting := f.await(e)
	links.hang(t)
	remove := f.handle(both(not(renews), not(looks)), answer(http.StatusTooManyRequests,
		"Your IP is issuing too many concurrent connections, please rate limit your calls\n"))
	links.cut()
	for name, call := range map[string]func() error{
		"get":    func() error { _, err := f.s.Get(f.ctx, e.Key); return err },
		"commit": func() error { _, err := f.s.Commit(f.ctx, nil, backend.Enqueue(f.dir, nil)); return err },
		"open":   func() error { _, err := f.Backend.Open(f.ctx, backend.OpenOptions{}); return err },
		// It has something to read, and shares the heartbeats' connections.
		"await": func() error { _, err := f.s.Await(f.ctx, backend.Unknown(f.dir)); return err },
	} {
		err := call()
		require.ErrorContains(t, err, "http_max_conns_per_client", name)
		if name == "get" || name == "await" {
			require.ErrorIs(t, err, backend.ErrUnavailable, name)
		}
	}
	// One that has nothing to read goes on for as long as there is nothing.
	f.renewed()
	pending(f, waiting)
	_, err := f.operator().KV().Delete(e.Key[1:], nil)
	require.NoError(t, err)
	_, err = receive(f, waiting)
	require.ErrorIs(t, err, backend.ErrUnavailable)
	remove()
	_, err = f.s.Get(f.ctx, e.Key)
	require.ErrorIs(t, err, backend.ErrNoEntry)
	f.renewed()
}
