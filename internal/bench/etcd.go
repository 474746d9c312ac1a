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
	site
	traffic
}

func newEtcd(cfg config) service { return &etcdService{site: site{cfg: cfg}} }

func (s *etcdService) facts() facts {
	return facts{
		title:    "etcd",
		plain:    "concurrency.Election",
		together: "concurrency.Election",
		n:        []int{3, 50, 500},
		seats:    []int{100, 1000, 10000},
		files:    1,
		minTTL:   2 * time.Second,
		raw:      "one client of clientv3 deletes a key (no lease), another's Watch of it gets the event",
		clients:  "a clientv3 client, and so a connection, each",
		messages: "Requests are unary calls. Messages are those that the candidates' gRPC clients have sent and received, unary and on the watch streams, heartbeats (lease keep-alives and member lists) left out. Watch requests are those to create or cancel a watch.",
		sync:     s.cfg.syncing("--unsafe-no-fsync"),
		ends:     "which is Lease.Revoke of a client that is connected",
		crashes:  []crashKind{{"session timeout 2s", "?timeout=2s"}},
		expiry:   "The lease counts from the last keep-alive, which was up to a third of the timeout before the cut, and the server looks for expired ones every 500 ms.",
	}
}

func (s *etcdService) start() (err error) {
	s.Cluster, err = services.StartEtcd(s.cfg.servers, servertest.EtcdConfig{NoSync: !s.cfg.fsync, Dir: s.cfg.dir})
	return err
}

func (s *etcdService) open(ttl time.Duration) (seat, error) {
	client, err := s.client(s.counted()...)
	if err != nil {
		return seat{}, err
	}
	b, err := etcd.New(client, etcd.Config{SessionTimeout: ttl})
	if err != nil {
		return seat{}, errors.Join(err, client.Close())
	}
	return seat{b, func() { _ = client.Close() }}, nil // Close reports the end of its own context
}

// counted returns what makes a client's messages count.
func (s *etcdService) counted() []grpc.DialOption {
	if s.cfg.uncounted {
		return nil
	}
	return []grpc.DialOption{grpc.WithStatsHandler(rpcs{&s.traffic})}
}

// rpcs counts the messages that gRPC clients send and receive.
type rpcs struct{ *traffic }

// counterKey is the context's key for the counter of a call's requests.
type counterKey struct{}

func (r rpcs) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	counter := &r.requests
	switch path.Base(info.FullMethodName) {
	case "LeaseKeepAlive", "MemberList": // a heartbeat is one of each
		counter = &r.heartbeats
	case "Watch":
		counter = &r.watches
	}
	return context.WithValue(ctx, counterKey{}, counter)
}

func (r rpcs) HandleRPC(ctx context.Context, s stats.RPCStats) {
	counter, _ := ctx.Value(counterKey{}).(*atomic.Int64)
	switch s.(type) {
	case *stats.OutPayload:
		counter.Add(1)
	case *stats.InPayload:
	default:
		return
	}
	if counter != &r.heartbeats {
		r.all.Add(1)
	}
}

func (rpcs) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (rpcs) HandleConn(context.Context, stats.ConnStats)                       {}

// client returns a client with a separate connection.
func (s *etcdService) client(options ...grpc.DialOption) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: []string{"http://" + s.addr()}, DialOptions: options,
		Logger: zap.NewNop(), // by default it warns of each cancelled call
	})
}

func (s *etcdService) lock(path string, ttl time.Duration) (*lock, error) {
	client, err := s.client()
	if err != nil {
		return nil, err
	}
	var session *concurrency.Session
	var election *concurrency.Election
	return &lock{
		take: func(ctx context.Context) (err error) {
			if session == nil {
				if session, err = concurrency.NewSession(client, concurrency.WithTTL(int(ttl/time.Second))); err != nil {
					return err
				}
				election = concurrency.NewElection(session, path)
			}
			return election.Campaign(ctx, "")
		},
		give: func(ctx context.Context) error { return election.Resign(ctx) },
		close: func() {
			if session != nil {
				_ = session.Close()
			}
			_ = client.Close()
		},
	}, nil
}

func (s *etcdService) together(_ context.Context, ttl time.Duration) (t together, err error) {
	client, err := s.client(s.counted()...)
	if err != nil {
		return t, err
	}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(int(ttl/time.Second)))
	return together{
		take: func(ctx context.Context, path string) error {
			return concurrency.NewElection(session, path).Campaign(ctx, "")
		},
		end: func() { _ = session.Close() }, // those who wait tell
	}, err
}

type bareEtcd struct{ client *clientv3.Client }

func (s *etcdService) connect(context.Context) (bare, error) {
	client, err := s.client()
	return bareEtcd{client}, err
}

func (c bareEtcd) close() { _ = c.client.Close() } // Close reports the end of its own context

func (c bareEtcd) create(ctx context.Context, key string) error {
	_, err := c.client.Put(ctx, key, "raw")
	return err
}

func (c bareEtcd) remove(ctx context.Context, key string) error {
	_, err := c.client.Delete(ctx, key)
	return err
}

// watch returns when the server has created the watch.
func (c bareEtcd) watch(ctx context.Context, key string) (<-chan time.Time, error) {
	ctx, cancel := context.WithCancel(ctx)
	answers := c.client.Watch(clientv3.WithRequireLeader(ctx), key, clientv3.WithCreatedNotify(), clientv3.WithFilterPut())
	if created := <-answers; !created.Created {
		cancel()
		return nil, fmt.Errorf("not created: %w", created.Err())
	}
	return fires(func() bool { // closing the client closes answers, too
		defer cancel()
		return len((<-answers).Events) > 0
	}), nil
}

func (c bareEtcd) standing(ctx context.Context, path string) (int, error) {
	answer, err := c.client.Get(ctx, path+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return int(answer.Count), nil
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
