package consul_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/wait"
)

// A match selects requests.
type match = func(*consultest.Request) bool

func every(*consultest.Request) bool      { return true }
func blocking(r *consultest.Request) bool { return r.Blocking() }
func renews(r *consultest.Request) bool   { return r.For("session/renew") }
func informs(r *consultest.Request) bool  { return r.For("session/info") }
func destroys(r *consultest.Request) bool { return r.For("session/destroy") }
func txns(r *consultest.Request) bool     { return r.Txn != nil }

func not(m match) match     { return func(r *consultest.Request) bool { return !m(r) } }
func both(a, b match) match { return func(r *consultest.Request) bool { return a(r) && b(r) } }

// under matches requests for a part of the API.
func under(part string) match { return func(r *consultest.Request) bool { return r.For(part) } }

// asks matches requests with a parameter.
func asks(parameter string) match {
	return func(r *consultest.Request) bool { return r.Asks(parameter) }
}

// query matches reads of keys, with or without a parameter.
func query(parameter string, present bool) match {
	return func(r *consultest.Request) bool {
		return r.Method == http.MethodGet && r.For("kv/") && r.Asks(parameter) == present
	}
}

// verbs matches transactions that have operations of these kinds.
func verbs(of ...api.KVOp) match {
	return func(r *consultest.Request) bool {
		return slices.ContainsFunc(r.Txn, func(op *api.TxnOp) bool { return op.KV != nil && slices.Contains(of, op.KV.Verb) })
	}
}

// commits matches transactions with an op of a kind.
func commits(kind backend.OpKind) match {
	return func(r *consultest.Request) bool { return consultest.MatchKind(kind)(r.Txn) }
}

// looks matches looks at what is awaited.
func looks(r *consultest.Request) bool {
	return r.Asks("keys") || len(r.Txn) > 0 && !slices.ContainsFunc(r.Txn, func(op *api.TxnOp) bool {
		return op.KV.Verb != api.KVCheckIndex && op.KV.Verb != api.KVCheckNotExists && op.KV.Verb != api.KVCheckSession && !looksAtNothing(op)
	})
}

// looksAtNothing reports whether an operation is the look of a session that has nothing to compare.
func looksAtNothing(op *api.TxnOp) bool {
	return op.KV.Verb == api.KVGetOrEmpty && strings.HasPrefix(op.KV.Key, ".elector/")
}

func onlyReads(r *consultest.Request) bool {
	return len(r.Txn) > 0 && !slices.ContainsFunc(r.Txn, func(op *api.TxnOp) bool {
		return op.KV == nil || looksAtNothing(op) || op.KV.Verb != api.KVGet && op.KV.Verb != api.KVGetOrEmpty && op.KV.Verb != api.KVGetTree
	})
}

// A request is sent, or handled by one of these.

// hang does not answer.
func hang(r *consultest.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// answer gives a reply that no server gave.
func answer(status int, text string) consultest.Handler {
	return func(*consultest.Request) (*http.Response, error) { return consultest.Answer(status, text), nil }
}

// crowded gives the reply of an agent that accepts no more connections.
var crowded = answer(http.StatusTooManyRequests, "Your IP is issuing too many concurrent connections, please rate limit your calls\n")

// done makes the servers do the request, and then h answer.
func done(h consultest.Handler) consultest.Handler {
	return func(r *consultest.Request) (*http.Response, error) {
		response, err := r.Send()
		if err != nil {
			return nil, err
		}
		_ = response.Body.Close()
		return h(r)
	}
}

// handle makes h handle the requests that match.
func (f *fixture) handle(m match, h consultest.Handler) (remove func()) {
	return f.Intercept(func(r *consultest.Request) (*http.Response, error) {
		if m(r) {
			return h(r)
		}
		return r.Send()
	})
}

// first makes h handle the first n requests that match, and counts all.
func (f *fixture) first(n int64, m match, h consultest.Handler) (met *atomic.Int64, remove func()) {
	met = new(atomic.Int64)
	return met, f.handle(m, func(r *consultest.Request) (*http.Response, error) {
		if met.Add(1) <= n {
			return h(r)
		}
		return r.Send()
	})
}

// count counts the requests that match.
func (f *fixture) count(m match) (met *atomic.Int64, remove func()) { return f.first(0, m, nil) }

// countAnswers counts the replies with this status to requests that match.
func (f *fixture) countAnswers(m match, status int) *atomic.Int64 {
	var answers atomic.Int64
	f.handle(m, func(r *consultest.Request) (*http.Response, error) {
		response, err := r.Send()
		if err == nil && response.StatusCode == status {
			answers.Add(1)
		}
		return response, err
	})
	return &answers
}

// holdAnswers holds the replies to requests that match, as they are then, until release is called.
func (f *fixture) holdAnswers(m match) (held <-chan struct{}, release func()) {
	there, pass := make(chan struct{}), make(chan struct{})
	var once sync.Once
	f.handle(m, func(r *consultest.Request) (*http.Response, error) {
		response, err := r.Send()
		once.Do(func() { close(there); <-pass })
		return response, err
	})
	return there, func() { close(pass) }
}

// links break under waiting queries when cut is called: the client's own transport would silently send
// the queries again.
type links struct {
	mu      sync.Mutex
	broken  chan struct{}
	waiting int       // queries
	last    time.Time // when a query was sent
}

// cuttable makes the links of a process breakable by cut.
func cuttable(f *fixture) *links {
	l := &links{broken: make(chan struct{})}
	f.handle(asks("index"), l.handle)
	return l
}

func (l *links) handle(r *consultest.Request) (*http.Response, error) {
	l.mu.Lock()
	broken := l.broken
	l.waiting, l.last = l.waiting+1, time.Now()
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.waiting--
	}()
	answered := wait.Later(r.Send)
	select {
	case a := <-answered:
		return a.V, a.Err
	case <-broken:
		go func() {
			if a := <-answered; a.Err == nil { // its context ends with this call
				_ = a.V.Body.Close()
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
