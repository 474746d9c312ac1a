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
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/services"
)

type consulService struct {
	site
	traffic
}

func newConsul(cfg config) service { return &consulService{site: site{cfg: cfg}} }

func (s *consulService) facts() facts {
	return facts{
		title:    "Consul",
		plain:    "api.Lock",
		together: "api.Lock",
		n:        []int{3, 50, 500},
		seats:    []int{100, 1000},
		limits:   "The server has its own limit of 200 connections, which all processes here share.",
		files:    3,
		minTTL:   10 * time.Second,
		raw:      "one client of Consul's api package deletes a key (no session), another's blocking query for it returns",
		clients:  "an api client with connections of its own each: one for each of its blocking queries, and one more",
		messages: "Requests are HTTP requests other than blocking queries, which are the watch requests; messages are both and their answers, where the candidates' clients send and receive them. Renewals of sessions and updates of checks are left out.",
		sync:     "The server syncs its log before it answers, against which Consul has no switch: that is part of both sides of every ratio, unless -dir leads into memory.",
		ends:     "which is Session().Destroy of a client that is connected",
		crashes:  []crashKind{{"session timeout 10s", "?timeout=10s"}, {"and a check of 2s", "?timeout=10s&check=2s"}},
		expiry:   "The server ends a session that has not been renewed for once to twice its timeout, or whose check has not been updated for the check's; the last time was up to a third of either before the cut.",
	}
}

// start starts the server with room for the connections of all candidates, which come from one address.
func (s *consulService) start() (err error) {
	const others, most = 500, 15_000 // the server refuses a limit above its number of files
	room := min(s.facts().files*slices.Max(s.cfg.numbers(s.facts()))+others, most)
	cfg := servertest.ConsulConfig{Dir: s.cfg.dir}
	if !s.cfg.stock {
		cfg.Config = fmt.Sprintf("limits { http_max_conns_per_client = %d }", room)
	}
	s.Cluster, err = services.StartConsul(s.cfg.servers, cfg)
	return err
}

func (s *consulService) open(ttl time.Duration) (seat, error) {
	client, release, err := s.client(s.counted())
	if err != nil {
		return seat{}, err
	}
	b, err := consul.New(client, consul.Config{SessionTimeout: ttl})
	return seat{b, release}, err
}

// counted returns what counts the messages of clients, or nil.
func (s *consulService) counted() *traffic {
	if s.cfg.uncounted {
		return nil
	}
	return &s.traffic
}

// counted passes on requests and counts them.
type counted struct {
	http.RoundTripper
	to *traffic
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
	c.to.all.Add(1)
	answer, err := c.RoundTripper.RoundTrip(r)
	if err == nil {
		c.to.all.Add(1)
	}
	return answer, err
}

// isLook reports whether a request accompanies a renewal, and only asks whether the awaited entries are
// unchanged, or reads an empty slot of a session. It returns the request to send.
func isLook(r *http.Request) (*http.Request, bool, error) {
	if query := r.URL.Query(); query.Has("keys") {
		return r, !query.Has("separator"), nil // otherwise it is a survey
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

// client returns a client with separate connections, and a function that closes them. to may be nil.
func (s *consulService) client(to *traffic) (client *api.Client, release func(), err error) {
	cfg := api.DefaultConfig()
	cfg.Address = s.addr()
	release = cfg.Transport.CloseIdleConnections
	if to != nil {
		cfg.HttpClient = &http.Client{Transport: counted{cfg.Transport, to}}
	}
	client, err = api.NewClient(cfg)
	return client, release, err
}

func (s *consulService) lock(path string, ttl time.Duration) (*lock, error) {
	client, release, err := s.client(nil)
	if err != nil {
		return nil, err
	}
	l, err := client.LockOpts(&api.LockOptions{Key: named(path), SessionName: path, SessionTTL: ttl.String()})
	return &lock{
		take: func(ctx context.Context) error {
			lost, err := l.Lock(ctx.Done())
			if err == nil && lost == nil {
				err = errors.New("stopped while it waited for the lock")
			}
			return err
		},
		give:  func(context.Context) error { return l.Unlock() },
		close: release,
	}, err
}

// together gives the seats up one by one: those of a session that ends are nobody's for the lock delay.
func (s *consulService) together(_ context.Context, ttl time.Duration) (t together, err error) {
	client, _, err := s.client(s.counted())
	if err != nil {
		return t, err
	}
	id, _, err := client.Session().CreateNoChecks(&api.SessionEntry{TTL: ttl.String()}, nil)
	if err != nil {
		return t, err
	}
	done := make(chan struct{})
	go func() { _ = client.Session().RenewPeriodic(ttl.String(), id, nil, done) }() // the locks tell
	var mu sync.Mutex
	var held []*api.Lock
	return together{
		take: func(ctx context.Context, path string) error {
			l, err := client.LockOpts(&api.LockOptions{Key: named(path), Session: id})
			if err != nil {
				return err
			}
			lost, err := l.Lock(ctx.Done())
			if err == nil && lost == nil {
				err = context.Cause(ctx)
			}
			mu.Lock()
			defer mu.Unlock()
			held = append(held, l)
			return err
		},
		end: func() {
			var all sync.WaitGroup
			for _, l := range held {
				all.Go(func() { _ = l.Unlock() }) // those who wait tell whether it was
			}
			all.Wait()
			close(done)
		},
	}, nil
}

type bareConsul struct {
	client  *api.Client
	release func()
	ctx     context.Context // of the watches
	stop    context.CancelFunc
}

func (s *consulService) connect(ctx context.Context) (bare, error) {
	client, release, err := s.client(nil)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	return bareConsul{client, release, ctx, stop}, nil
}

func (c bareConsul) close() {
	c.stop()
	c.release()
}

// named returns Consul's form of a key.
func named(key string) string { return strings.TrimPrefix(key, "/") }

func (c bareConsul) create(ctx context.Context, key string) error {
	_, err := c.client.KV().Put(&api.KVPair{Key: named(key), Value: []byte("raw")}, new(api.WriteOptions).WithContext(ctx))
	return err
}

func (c bareConsul) remove(ctx context.Context, key string) error {
	_, err := c.client.KV().Delete(named(key), new(api.WriteOptions).WithContext(ctx))
	return err
}

// watch sends the query from another goroutine; nothing tells when the server has it.
func (c bareConsul) watch(ctx context.Context, key string) (<-chan time.Time, error) {
	pair, meta, err := c.client.KV().Get(named(key), new(api.QueryOptions).WithContext(ctx))
	if err == nil && pair == nil {
		err = errors.New("no such key")
	}
	if err != nil {
		return nil, err
	}
	return fires(func() bool { // ends with the deletion or with close
		for err == nil && pair != nil {
			o := &api.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: maxTTL}
			pair, meta, err = c.client.KV().Get(named(key), o.WithContext(c.ctx))
		}
		return err == nil
	}), nil
}

// standing counts sessions: each user has one, as soon as it is in Lock.
func (c bareConsul) standing(ctx context.Context, path string) (n int, err error) {
	all, _, err := c.client.Session().List(new(api.QueryOptions).WithContext(ctx))
	for _, one := range all {
		if one.Name == path {
			n++
		}
	}
	return n, err
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
