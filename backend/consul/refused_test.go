package consul_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
	match func(*http.Request, []byte) bool
	done  bool // the servers get the requests all the same

	mu   sync.Mutex
	next []int
}

func (r *refusals) handle(request *http.Request, body []byte, send consultest.Send) (*http.Response, error) {
	r.mu.Lock()
	if len(r.next) == 0 || !r.match(request, body) {
		r.mu.Unlock()
		return send()
	}
	status := r.next[0]
	r.next = r.next[1:]
	r.mu.Unlock()
	if r.done {
		response, err := send()
		if err != nil {
			return nil, err
		}
		_ = response.Body.Close()
	}
	return consultest.Answer(status, ""), nil
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

// verbs tells whether a transaction has operations of these kinds.
func verbs(of ...api.KVOp) func(*http.Request, []byte) bool {
	return func(request *http.Request, body []byte) bool {
		return slices.ContainsFunc(consultest.Txn(request, body), func(op *api.TxnOp) bool {
			return op.KV != nil && slices.Contains(of, op.KV.Verb)
		})
	}
}

func query(parameter string, present bool) func(*http.Request, []byte) bool {
	return func(request *http.Request, _ []byte) bool {
		return request.Method == http.MethodGet && path(request, "kv/") && request.URL.Query().Has(parameter) == present
	}
}

// links break under what waits when cut is called: the client's own transport would send
// queries again without a word.
type links struct {
	mu      sync.Mutex
	broken  chan struct{}
	waiting int       // queries
	last    time.Time // when a query was sent
}

// cuttable makes the links of a process such ones.
func cuttable(f *fixture) *links {
	l := &links{broken: make(chan struct{})}
	f.Intercept(l.handle)
	return l
}

func (l *links) handle(request *http.Request, _ []byte, send consultest.Send) (*http.Response, error) {
	if !request.URL.Query().Has("index") {
		return send()
	}
	l.mu.Lock()
	broken := l.broken
	l.waiting, l.last = l.waiting+1, time.Now()
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.waiting--
	}()
	type answer struct {
		response *http.Response
		err      error
	}
	answered := make(chan answer, 1)
	go func() {
		response, err := send()
		answered <- answer{response, err}
	}()
	select {
	case a := <-answered:
		return a.response, a.err
	case <-broken:
		go func() {
			if a := <-answered; a.err == nil { // its context ends with this call
				_ = a.response.Body.Close()
			}
		}()
		return nil, errors.New("link broken")
	}
}

func (l *links) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.broken)
	l.broken = make(chan struct{})
}

// hang waits until there are queries, and none has come for a while.
func (l *links) hang(t *testing.T) {
	t.Helper()
	const longer = 700 * time.Millisecond
	wait.For(t, "queries that hang", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.waiting > 0 && time.Since(l.last) > longer
	})
}

// Answers that do not say that a request is bad are ridden out, on each kind of request,
// whether it was done or not: sessions go on, the leader leads, and who waits keeps its
// place.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	writes := verbs(api.KVLock, api.KVCAS, api.KVSet, api.KVDelete, api.KVDeleteCAS)
	for name, kind := range map[string]struct {
		match func(*http.Request, []byte) bool
		done  bool
		slow  bool // it comes with heartbeats
	}{
		"renewal":       {match: func(r *http.Request, _ []byte) bool { return renews(r) }, slow: true},
		"renewal, done": {match: func(r *http.Request, _ []byte) bool { return renews(r) }, slow: true, done: true},
		"look": {match: func(r *http.Request, body []byte) bool {
			return verbs(api.KVCheckIndex, api.KVCheckNotExists)(r, body) && !writes(r, body)
		}, slow: true},
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
				removeFirst, removeSecond := first.Intercept(r.handle), second.Intercept(r.handle)
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
				state, err := first.client(t).Get(f.ctx, election+"-state")
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

// client is a session beside that of the candidates.
func (f *fixture) client(t *testing.T) *backend.Session {
	t.Helper()
	if f.s == nil {
		f.s = processOn(t, consultest.Options{}, f.Servers[0]).open()
	}
	return f.s
}

// A session is ended at the servers although they refuse at first.
func TestRefusedClose(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	witness := f.open()
	for _, status := range []int{408, 418, 429, 500, 502, 503, 504} {
		s := f.open()
		e := f.enqueue(s)
		r := &refusals{match: func(r *http.Request, _ []byte) bool { return path(r, "session/destroy") }}
		r.give(status, status)
		remove := f.Intercept(r.handle)
		require.NoError(t, s.Close(f.ctx), "%d", status)
		remove()
		require.True(t, r.given())
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
	remove := f.answering(func(r *http.Request) bool { return path(r, "kv/") }, http.StatusTooManyRequests,
		"Your IP is issuing too many concurrent connections, please rate limit your calls\n")
	links.cut()
	// One that has something to read, and shares the heartbeats' connections, is told.
	_, err := receive(f, later(func() ([]backend.Entry, error) { return f.s.Await(f.ctx, backend.Unknown(f.dir)) }))
	require.ErrorIs(t, err, backend.ErrUnavailable)
	require.ErrorContains(t, err, "http_max_conns_per_client")
	_, err = f.s.Get(f.ctx, e.Key)
	require.ErrorIs(t, err, backend.ErrUnavailable)
	// One that has nothing to read goes on for as long as there is nothing.
	f.renewed()
	select {
	case a := <-waiting:
		t.Fatalf("%+v", a)
	default:
	}
	_, err = f.operator().KV().Delete(e.Key[1:], nil)
	require.NoError(t, err)
	_, err = receive(f, waiting)
	require.ErrorIs(t, err, backend.ErrUnavailable)
	remove()
	_, err = f.s.Get(f.ctx, e.Key)
	require.ErrorIs(t, err, backend.ErrNoEntry)
	f.renewed()
}
