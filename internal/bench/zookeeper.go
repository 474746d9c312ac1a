package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/services"
)

// tick is the server's: it expires sessions in steps of this.
const tick = 200 * time.Millisecond

type zooKeeper struct {
	*services.Cluster
	cfg     config
	traffic services.Traffic

	last     int // of the server's counters
	overhead int // of asking for them
}

func newZooKeeper(cfg config) service { return &zooKeeper{cfg: cfg} }

func (z *zooKeeper) facts() facts {
	f := facts{
		title:    "ZooKeeper",
		n:        []int{3, 50, 500, 5000},
		files:    1,
		minTTL:   time.Second,
		raw:      "one session of go-zookeeper deletes an ephemeral node, another's data watch on it fires",
		clients:  "a connection each",
		messages: "Messages are the packets that the server has received and sent (mntr). Taken off are heartbeats (pings and syncs, counted where the clients send them) with their answers, and what mntr itself costs (by asking twice in a row). A watch is part of a read, not a request of its own.",
		sync:     "The server does not sync its log (forceSync=no): a sync would add its time to both sides of every ratio and hide the difference.",
		ends:     "by the backend's own Execute, which connects with the session's password, as go-zookeeper cannot take a session over",
		expiry:   fmt.Sprintf("The server counts from the last packet it got, which is a read right before the cut, and rounds up to its tick, %v.", tick),
	}
	if z.cfg.fsync {
		f.sync = "The server syncs its log to disk before it answers."
	}
	return f
}

func (z *zooKeeper) start() (err error) {
	z.Cluster, err = services.StartZooKeeper(z.cfg.servers, servertest.ZooKeeperConfig{
		TickTime: tick, MaxSessionTimeout: maxTTL, HeapMB: z.cfg.heapMB, NoSync: !z.cfg.fsync, Dir: z.cfg.dir,
	})
	return err
}

// tcp is the dialer of clients whose traffic is counted.
func (z *zooKeeper) tcp(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	return z.traffic.Count(conn), nil
}

// open makes a backend for one candidate.
func (z *zooKeeper) open(addr string, ttl time.Duration) (seat, error) {
	cfg := zookeeper.Config{Servers: []string{addr}, SessionTimeout: ttl}
	if !z.cfg.uncounted {
		cfg.Dialer = z.tcp
	}
	b, err := zookeeper.New(cfg)
	return seat{backend: b}, err
}

func (z *zooKeeper) crashes() []crashKind {
	// A whole number of ticks, so that the server grants it as it is.
	const ttl = 10 * tick
	return []crashKind{{
		name: fmt.Sprintf("session timeout %v", ttl),
		open: func(addr string) (seat, error) { return z.open(addr, ttl) },
	}}
}

func (z *zooKeeper) sent() sent {
	return sent{requests: int(z.traffic.Requests.Load()), heartbeats: int(z.traffic.Heartbeats.Load())}
}

// messages asks the server, which counts that, too: so it is asked twice in a row
// each time.
func (z *zooKeeper) messages() (int, error) {
	first, err := z.packets()
	if err != nil {
		return 0, err
	}
	second, err := z.packets()
	if err != nil {
		return 0, err
	}
	n := first - z.last - z.overhead
	z.last, z.overhead = second, second-first
	return n, nil
}

// packets are those that were no pings. A ping that is sent meanwhile may be counted or
// not, so it asks again then; with many sessions there always is one.
func (z *zooKeeper) packets() (int, error) {
	var n int
	for range 5 {
		pings := z.traffic.Heartbeats.Load()
		counters, err := servertest.ZooKeeperMetrics(z.Addr())
		if err != nil {
			return 0, err
		}
		n = int(counters["packets_received"]+counters["packets_sent"]) - 2*int(pings)
		if z.traffic.Heartbeats.Load() == pings {
			break
		}
	}
	return n, nil
}

type bareZooKeeper struct {
	conn   *zk.Conn
	server string
}

func (z *zooKeeper) connect(ctx context.Context, addr string, ttl time.Duration) (bare, error) {
	return z.dial(ctx, addr, ttl)
}

// dial returns once there is a session.
func (z *zooKeeper) dial(ctx context.Context, addr string, ttl time.Duration) (bareZooKeeper, error) {
	ready := make(chan struct{}, 1)
	conn, _, err := zk.Connect([]string{addr}, ttl, zk.WithLogger(mute{}), zk.WithLogInfo(false), zk.WithDialer(z.tcp),
		zk.WithEventCallback(func(ev zk.Event) {
			if ev.State == zk.StateHasSession {
				select {
				case ready <- struct{}{}:
				default:
				}
			}
		}))
	if err != nil {
		return bareZooKeeper{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-ready:
		return bareZooKeeper{conn, addr}, nil
	case <-ctx.Done():
		conn.Close()
		return bareZooKeeper{}, fmt.Errorf("no session with %s: %w", addr, ctx.Err())
	}
}

func (z *zooKeeper) plain() string { return "go-zookeeper's Lock" }

// zkLock is go-zookeeper's Lock.
type zkLock struct {
	conn *zk.Conn
	lock *zk.Lock
}

func (z *zooKeeper) contend(addr, path string, ttl time.Duration) (contender, error) {
	conn, _, err := zk.Connect([]string{addr}, ttl, zk.WithLogger(mute{}))
	if err != nil {
		return nil, err
	}
	return zkLock{conn, zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))}, nil
}

func (l zkLock) take(context.Context) error { return l.lock.Lock() }
func (l zkLock) give(context.Context) error { return l.lock.Unlock() }
func (l zkLock) close(context.Context)      { l.conn.Close() }

func (z *zooKeeper) standing(ctx context.Context, addr, path string) (int, error) {
	c, err := z.dial(ctx, addr, z.cfg.ttl)
	if err != nil {
		return 0, err
	}
	defer c.close()
	all, _, err := c.conn.Children(path)
	return len(all), err
}

type mute struct{}

func (mute) Printf(string, ...any) {}

func (c bareZooKeeper) close() { c.conn.Close() }

func (c bareZooKeeper) found(context.Context) error {
	_, err := c.conn.Create(rawEpoch, nil, 0, zk.WorldACL(zk.PermAll))
	return err
}

func (c bareZooKeeper) create(_ context.Context, key string) error {
	_, err := c.conn.Create(key, []byte("raw"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	return err
}

func (c bareZooKeeper) remove(_ context.Context, key string) error {
	return c.conn.Delete(key, -1)
}

func (c bareZooKeeper) watch(_ context.Context, key string) (<-chan time.Time, error) {
	_, _, events, err := c.conn.GetW(key)
	if err != nil {
		return nil, err
	}
	fired := make(chan time.Time, 1)
	go func() { // ends with the event; closing the connection makes one, too
		ev := <-events
		now := time.Now()
		if ev.Type == zk.EventNodeDeleted {
			fired <- now
		}
		close(fired)
	}()
	return fired, nil
}

func (c bareZooKeeper) end(ctx context.Context, w backend.Will) error {
	b, err := zookeeper.New(zookeeper.Config{Servers: []string{c.server}})
	if err != nil {
		return err
	}
	return b.Execute(ctx, w)
}

func (c bareZooKeeper) claim(context.Context) error {
	_, err := c.conn.Multi(
		&zk.SetDataRequest{Path: rawEpoch, Data: []byte("1"), Version: -1},
		&zk.CreateRequest{Path: rawSeat, Data: []byte("raw"), Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral})
	return err
}

func (c bareZooKeeper) write(context.Context) error {
	_, err := c.conn.Multi(
		&zk.CheckVersionRequest{Path: rawEpoch, Version: -1},
		&zk.SetDataRequest{Path: rawEpoch, Data: []byte("2"), Version: -1})
	return err
}
