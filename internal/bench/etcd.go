package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/etcd"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/services"
)

type etcdService struct {
	*services.Cluster
	cfg  config
	rpcs rpcs
	last int64 // of rpcs.messages
}

func newEtcd(cfg config) service { return &etcdService{cfg: cfg} }

func (s *etcdService) facts() facts {
	f := facts{
		title:    "etcd",
		n:        []int{3, 50, 500},
		files:    1,
		minTTL:   2 * time.Second,
		raw:      "one client of clientv3 deletes a key (no lease), another's Watch of it gets the event",
		clients:  "a clientv3 client, and so a connection, each",
		messages: "Requests are unary calls. Messages are those that the candidates' gRPC clients have sent and received, unary and on the watch streams, heartbeats (lease keep-alives and member lists) left out. Watch requests are those to create or cancel a watch.",
		sync:     "The server does not sync its log (--unsafe-no-fsync): a sync would add its time to both sides of every ratio and hide the difference.",
		ends:     "which is Lease.Revoke of a client that is connected",
		expiry:   "The lease counts from the last keep-alive, which was up to a third of the timeout before the cut, and the server looks for expired ones every 500 ms.",
	}
	if s.cfg.fsync {
		f.sync = "The server syncs its log to disk before it answers."
	}
	return f
}

func (s *etcdService) start() (err error) {
	s.Cluster, err = services.StartEtcd(s.cfg.servers, servertest.EtcdConfig{NoSync: !s.cfg.fsync, Dir: s.cfg.dir})
	return err
}

func (s *etcdService) open(addr string, ttl time.Duration) (seat, error) {
	var to *rpcs
	if !s.cfg.uncounted {
		to = &s.rpcs
	}
	client, err := newEtcdClient(addr, to)
	if err != nil {
		return seat{}, err
	}
	b, err := etcd.New(client, etcd.Config{SessionTimeout: ttl})
	if err != nil {
		return seat{}, errors.Join(err, client.Close())
	}
	return seat{b, func() { _ = client.Close() }}, nil // reports its own context's end
}

func (s *etcdService) crashes() []crashKind {
	const ttl = 2 * time.Second
	return []crashKind{{
		name: fmt.Sprintf("session timeout %v", ttl),
		open: func(addr string) (seat, error) { return s.open(addr, ttl) },
	}}
}

func (s *etcdService) sent() sent {
	return sent{
		requests: int(s.rpcs.requests.Load()), watches: int(s.rpcs.watches.Load()), heartbeats: int(s.rpcs.heartbeats.Load()),
	}
}

func (s *etcdService) messages() (int, error) {
	now := s.rpcs.messages.Load()
	n := now - s.last
	s.last = now
	return int(n), nil
}

// rpcs counts what gRPC clients send and receive. Heartbeats are no messages.
type rpcs struct{ requests, watches, heartbeats, messages atomic.Int64 }

// counterKey is the context's key for the counter of what a call sends.
type counterKey struct{}

func (r *rpcs) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	counter := &r.requests
	switch path.Base(info.FullMethodName) {
	case "LeaseKeepAlive", "MemberList": // a heartbeat is one of each
		counter = &r.heartbeats
	case "Watch":
		counter = &r.watches
	}
	return context.WithValue(ctx, counterKey{}, counter)
}

func (r *rpcs) HandleRPC(ctx context.Context, s stats.RPCStats) {
	counter, _ := ctx.Value(counterKey{}).(*atomic.Int64)
	switch s.(type) {
	case *stats.OutPayload:
		counter.Add(1)
	case *stats.InPayload:
	default:
		return
	}
	if counter != &r.heartbeats {
		r.messages.Add(1)
	}
}

func (*rpcs) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*rpcs) HandleConn(context.Context, stats.ConnStats)                       {}

// newEtcdClient makes a client with a connection of its own. to may be nil.
func newEtcdClient(addr string, to *rpcs) (*clientv3.Client, error) {
	// By default it warns of each call that was given up.
	cfg := clientv3.Config{Endpoints: []string{"http://" + addr}, Logger: zap.NewNop()}
	if to != nil {
		cfg.DialOptions = []grpc.DialOption{grpc.WithStatsHandler(to)}
	}
	return clientv3.New(cfg)
}

func (s *etcdService) plain() string { return "concurrency.Election" }

// An etcdElection is that of the package concurrency.
type etcdElection struct {
	client   *clientv3.Client
	path     string
	ttl      time.Duration
	session  *concurrency.Session
	election *concurrency.Election
}

func (s *etcdService) contend(addr, path string, ttl time.Duration) (contender, error) {
	client, err := newEtcdClient(addr, nil)
	return &etcdElection{client: client, path: path, ttl: ttl}, err
}

func (e *etcdElection) take(ctx context.Context) error {
	if e.election == nil {
		session, err := concurrency.NewSession(e.client, concurrency.WithTTL(int(e.ttl/time.Second)))
		if err != nil {
			return err
		}
		e.session, e.election = session, concurrency.NewElection(session, e.path)
	}
	return e.election.Campaign(ctx, "")
}

func (e *etcdElection) give(ctx context.Context) error { return e.election.Resign(ctx) }

func (e *etcdElection) close(context.Context) { // all is measured by then
	if e.session != nil {
		_ = e.session.Close()
	}
	_ = e.client.Close()
}

func (s *etcdService) standing(ctx context.Context, addr, path string) (int, error) {
	client, err := newEtcdClient(addr, nil)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	answer, err := client.Get(ctx, path+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return int(answer.Count), nil
}

type bareEtcd struct{ client *clientv3.Client }

func (s *etcdService) connect(_ context.Context, addr string, _ time.Duration) (bare, error) {
	client, err := newEtcdClient(addr, nil)
	return bareEtcd{client}, err
}

func (c bareEtcd) close() { _ = c.client.Close() } // reports its own context's end

func (c bareEtcd) found(ctx context.Context) error { return c.create(ctx, rawEpoch) }

func (c bareEtcd) create(ctx context.Context, key string) error {
	_, err := c.client.Put(ctx, key, "raw")
	return err
}

func (c bareEtcd) remove(ctx context.Context, key string) error {
	_, err := c.client.Delete(ctx, key)
	return err
}

// watch returns when the watch stands.
func (c bareEtcd) watch(ctx context.Context, key string) (<-chan time.Time, error) {
	ctx, cancel := context.WithCancel(ctx)
	answers, err := c.deletions(ctx, key)
	if err != nil {
		cancel()
		return nil, err
	}
	fired := make(chan time.Time, 1)
	go func() { // ends with the event; closing the client closes answers, too
		answer := <-answers
		now := time.Now()
		if len(answer.Events) > 0 {
			fired <- now
		}
		close(fired)
		cancel()
	}()
	return fired, nil
}

// deletions returns a watch that stands.
func (c bareEtcd) deletions(ctx context.Context, key string) (clientv3.WatchChan, error) {
	answers := c.client.Watch(clientv3.WithRequireLeader(ctx), key, clientv3.WithCreatedNotify(), clientv3.WithFilterPut())
	if created := <-answers; !created.Created {
		return nil, fmt.Errorf("not created: %w", created.Err())
	}
	return answers, nil
}

func (c bareEtcd) end(ctx context.Context, w backend.Will) error {
	lease, err := strconv.ParseInt(w.Session, 16, 64)
	if err != nil {
		return err
	}
	_, err = c.client.Revoke(ctx, clientv3.LeaseID(lease))
	return err
}

func (c bareEtcd) claim(ctx context.Context) error {
	return c.commit(ctx, clientv3.Compare(clientv3.CreateRevision(rawSeat), "=", 0),
		clientv3.OpPut(rawEpoch, "1"), clientv3.OpPut(rawSeat, "raw"))
}

func (c bareEtcd) write(ctx context.Context) error {
	return c.commit(ctx, clientv3.Compare(clientv3.CreateRevision(rawEpoch), ">", 0), clientv3.OpPut(rawEpoch, "2"))
}

func (c bareEtcd) commit(ctx context.Context, check clientv3.Cmp, ops ...clientv3.Op) error {
	answer, err := c.client.Txn(ctx).If(check).Then(ops...).Commit()
	if err == nil && !answer.Succeeded {
		err = errors.New("the bare transaction was refused")
	}
	return err
}
