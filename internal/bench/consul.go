package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/services"
)

type consulService struct {
	*services.Cluster
	cfg   config
	https exchanges
	last  int64 // of https.messages
}

func newConsul(cfg config) service { return &consulService{cfg: cfg} }

func (s *consulService) facts() facts {
	return facts{
		title:    "Consul",
		n:        []int{3, 50, 500},
		files:    3,
		minTTL:   10 * time.Second,
		raw:      "one client of Consul's api package deletes a key (no session), another's blocking query for it returns",
		clients:  "an api client with connections of its own each: one for each of its blocking queries, and one more",
		messages: "Requests are HTTP requests other than blocking queries, which are the watch requests; messages are both and their answers, where the candidates' clients send and receive them. Renewals of sessions and updates of checks are left out.",
		sync:     "The server syncs its log before it answers, against which Consul has no switch: that is part of both sides of every ratio, unless -dir leads into memory.",
		ends:     "which is Session().Destroy of a client that is connected",
		expiry:   "The server ends a session that has not been renewed for once to twice its timeout, or whose check has not been updated for the check's; the last time was up to a third of either before the cut.",
	}
}

// start starts the server with room for the connections of all candidates, who come
// from one address.
func (s *consulService) start() (err error) {
	const others, most = 500, 15_000 // the server refuses more than it may have files
	room := min(s.facts().files*max(slices.Max(s.cfg.numbers(s.facts())), s.cfg.elections)+others, most)
	s.Cluster, err = services.StartConsul(s.cfg.servers, servertest.ConsulConfig{
		Dir:    s.cfg.dir,
		Config: fmt.Sprintf("limits { http_max_conns_per_client = %d }", room),
	})
	return err
}

// Addr is a server's: the agent beside a cluster has room for few connections.
func (s *consulService) Addr() string { return s.Servers[0].Addr() }

func (s *consulService) open(addr string, ttl time.Duration) (seat, error) {
	return s.openWith(addr, consul.Config{SessionTimeout: ttl})
}

func (s *consulService) openWith(addr string, cfg consul.Config) (seat, error) {
	var to *exchanges
	if !s.cfg.uncounted {
		to = &s.https
	}
	client, transport, err := newConsulClient(addr, to)
	if err != nil {
		return seat{}, err
	}
	b, err := consul.New(client, cfg)
	return seat{b, transport.CloseIdleConnections}, err
}

func (s *consulService) crashes() []crashKind {
	const ttl, check = 10 * time.Second, 2 * time.Second
	kind := func(name string, cfg consul.Config) crashKind {
		return crashKind{name, func(addr string) (seat, error) { return s.openWith(addr, cfg) }}
	}
	return []crashKind{
		kind(fmt.Sprintf("session timeout %v", ttl), consul.Config{SessionTimeout: ttl}),
		kind(fmt.Sprintf("and a check of %v", check), consul.Config{SessionTimeout: ttl, Check: check}),
	}
}

func (s *consulService) sent() sent {
	return sent{
		requests: int(s.https.requests.Load()), watches: int(s.https.watches.Load()), heartbeats: int(s.https.heartbeats.Load()),
	}
}

func (s *consulService) messages() (int, error) {
	now := s.https.messages.Load()
	n := now - s.last
	s.last = now
	return int(n), nil
}

// exchanges counts HTTP requests and answers. Heartbeats are no messages.
type exchanges struct{ requests, watches, heartbeats, messages atomic.Int64 }

// counted passes requests on and counts them.
type counted struct {
	http.RoundTripper
	to *exchanges
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	r, looks, err := isLook(r)
	if err != nil {
		return nil, err
	}
	if p := r.URL.Path; looks || strings.HasPrefix(p, "/v1/session/renew/") || strings.HasPrefix(p, "/v1/agent/check/") {
		c.to.heartbeats.Add(1)
		return c.RoundTripper.RoundTrip(r)
	}
	if r.URL.Query().Has("index") {
		c.to.watches.Add(1)
	} else {
		c.to.requests.Add(1)
	}
	c.to.messages.Add(1)
	answer, err := c.RoundTripper.RoundTrip(r)
	if err == nil {
		c.to.messages.Add(1)
	}
	return answer, err
}

// isLook tells whether a request comes with a renewal, and only asks whether what is awaited
// is as it was, or reads a session's slot where nothing is. It returns the request to send.
func isLook(r *http.Request) (*http.Request, bool, error) {
	if query := r.URL.Query(); query.Has("keys") {
		return r, !query.Has("separator"), nil // else it is a survey
	}
	if r.URL.Path != "/v1/txn" || !r.URL.Query().Has("consistent") {
		return r, false, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return r, false, err
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r, !bytes.Contains(body, []byte(`"get`)) || bytes.Contains(body, []byte(`".elector/`)), nil
}

// newConsulClient makes a client with connections of its own. to may be nil.
func newConsulClient(addr string, to *exchanges) (*api.Client, *http.Transport, error) {
	cfg := api.DefaultConfig()
	cfg.Address = addr
	transport := cfg.Transport
	if to != nil {
		cfg.HttpClient = &http.Client{Transport: counted{transport, to}}
	}
	client, err := api.NewClient(cfg)
	return client, transport, err
}

func (s *consulService) plain() string { return "api.Lock" }

// A consulLock is that of the package api.
type consulLock struct {
	lock      *api.Lock
	transport *http.Transport
}

func (s *consulService) contend(addr, path string, ttl time.Duration) (contender, error) {
	client, transport, err := newConsulClient(addr, nil)
	if err != nil {
		return nil, err
	}
	lock, err := client.LockOpts(&api.LockOptions{Key: named(path), SessionName: path, SessionTTL: ttl.String()})
	return consulLock{lock, transport}, err
}

func (l consulLock) take(ctx context.Context) error {
	lost, err := l.lock.Lock(ctx.Done())
	if err == nil && lost == nil {
		err = errors.New("stopped while it waited for the lock")
	}
	return err
}

func (l consulLock) give(context.Context) error { return l.lock.Unlock() }
func (l consulLock) close(context.Context)      { l.transport.CloseIdleConnections() }

// standing counts sessions: each has one, as soon as it is in Lock.
func (s *consulService) standing(ctx context.Context, addr, path string) (n int, err error) {
	client, transport, err := newConsulClient(addr, nil)
	if err != nil {
		return 0, err
	}
	defer transport.CloseIdleConnections()
	all, _, err := client.Session().List(new(api.QueryOptions).WithContext(ctx))
	for _, one := range all {
		if one.Name == path {
			n++
		}
	}
	return n, err
}

type bareConsul struct {
	client    *api.Client
	transport *http.Transport
	ctx       context.Context // of the watches
	stop      context.CancelFunc
}

func (s *consulService) connect(ctx context.Context, addr string, _ time.Duration) (bare, error) {
	client, transport, err := newConsulClient(addr, nil)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	return bareConsul{client, transport, ctx, stop}, nil
}

func (c bareConsul) close() {
	c.stop()
	c.transport.CloseIdleConnections()
}

// named is Consul's form of a key.
func named(key string) string { return strings.TrimPrefix(key, "/") }

func (c bareConsul) found(ctx context.Context) error { return c.create(ctx, rawEpoch) }

func (c bareConsul) create(ctx context.Context, key string) error {
	_, err := c.client.KV().Put(&api.KVPair{Key: named(key), Value: []byte("raw")}, new(api.WriteOptions).WithContext(ctx))
	return err
}

func (c bareConsul) remove(ctx context.Context, key string) error {
	_, err := c.client.KV().Delete(named(key), new(api.WriteOptions).WithContext(ctx))
	return err
}

// watch sends the query from a goroutine of its own; nothing tells when the server
// has it.
func (c bareConsul) watch(ctx context.Context, key string) (<-chan time.Time, error) {
	pair, meta, err := c.client.KV().Get(named(key), new(api.QueryOptions).WithContext(ctx))
	if err == nil && pair == nil {
		err = errors.New("no such key")
	}
	if err != nil {
		return nil, err
	}
	fired := make(chan time.Time, 1)
	go func() { // ends with the deletion or with close
		defer close(fired)
		for index := meta.LastIndex; ; {
			o := &api.QueryOptions{WaitIndex: index, WaitTime: maxTTL}
			pair, meta, err := c.client.KV().Get(named(key), o.WithContext(c.ctx))
			now := time.Now()
			if err != nil {
				return
			}
			if pair == nil {
				fired <- now
				return
			}
			index = meta.LastIndex
		}
	}()
	return fired, nil
}

func (c bareConsul) end(ctx context.Context, w backend.Will) error {
	_, err := c.client.Session().Destroy(w.Session, new(api.WriteOptions).WithContext(ctx))
	return err
}

func (c bareConsul) claim(ctx context.Context) error {
	return c.commit(ctx,
		&api.KVTxnOp{Verb: api.KVSet, Key: named(rawEpoch), Value: []byte("1")},
		&api.KVTxnOp{Verb: api.KVCheckNotExists, Key: named(rawSeat)},
		&api.KVTxnOp{Verb: api.KVSet, Key: named(rawSeat), Value: []byte("raw")})
}

func (c bareConsul) write(ctx context.Context) error {
	return c.commit(ctx,
		&api.KVTxnOp{Verb: api.KVGet, Key: named(rawEpoch)}, // fails if there is none
		&api.KVTxnOp{Verb: api.KVSet, Key: named(rawEpoch), Value: []byte("2")})
}

func (c bareConsul) commit(ctx context.Context, ops ...*api.KVTxnOp) error {
	var txn api.TxnOps
	for _, op := range ops {
		txn = append(txn, &api.TxnOp{KV: op})
	}
	ok, answer, _, err := c.client.Txn().Txn(txn, new(api.QueryOptions).WithContext(ctx))
	if err == nil && !ok {
		err = fmt.Errorf("the bare transaction was refused: %s", answer.Errors[0].What)
	}
	return err
}
