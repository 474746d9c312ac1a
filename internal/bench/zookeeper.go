package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/services"
)

// tick is the server's unit: it expires sessions in steps of this.
const tick = 200 * time.Millisecond

type zooKeeper struct {
	site
	traffic services.Traffic

	last     int // value of the server's counters
	overhead int // packets of one request for them
}

func newZooKeeper(cfg config) service { return &zooKeeper{site: site{cfg: cfg}} }

func (z *zooKeeper) facts() facts {
	const ttl = 10 * tick // a multiple of tick, which the server grants unchanged
	return facts{
		title:    "ZooKeeper",
		plain:    "go-zookeeper's Lock",
		together: "LeaderLatch (by go-zookeeper)",
		n:        []int{3, 50, 500, 5000},
		seats:    []int{100, 1000, 10000},
		files:    1,
		minTTL:   time.Second,
		raw:      "one session of go-zookeeper deletes an ephemeral node, another's data watch on it fires",
		clients:  "a connection each",
		messages: "Messages are the packets that the server has received and sent (mntr). Taken off are heartbeats (pings and syncs, counted where the clients send them) with their answers, and what mntr itself costs (by asking twice in a row). A watch is part of a read, not a request of its own.",
		sync:     z.cfg.syncing("forceSync=no"),
		ends:     "by the backend's own Execute, which connects with the session's password, as go-zookeeper cannot take a session over",
		crashes:  []crashKind{{fmt.Sprintf("session timeout %v", ttl), fmt.Sprintf("?timeout=%v", ttl)}},
		expiry:   fmt.Sprintf("The server counts from the last packet it got, which is a read right before the cut, and rounds up to its tick, %v.", tick),
	}
}

func (z *zooKeeper) start() (err error) {
	z.Cluster, err = services.StartZooKeeper(z.cfg.servers, servertest.ZooKeeperConfig{
		TickTime: tick, MaxSessionTimeout: maxTTL, HeapMB: z.cfg.heapMB, NoSync: !z.cfg.fsync, Dir: z.cfg.dir,
		Extra: []string{"clientPortListenBacklog=10000"}, // those that 50 have no room for try again after a second
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

func (z *zooKeeper) open(ttl time.Duration) (seat, error) {
	cfg := zookeeper.Config{Servers: []string{z.addr()}, SessionTimeout: ttl}
	if !z.cfg.uncounted {
		cfg.Dialer = z.tcp
	}
	b, err := zookeeper.New(cfg)
	return seat{b, func() {}}, err
}

func (z *zooKeeper) sent() sent {
	return sent{requests: int(z.traffic.Requests.Load()), heartbeats: int(z.traffic.Heartbeats.Load())}
}

// messages asks the server, which counts the question, too: so it asks twice in a row.
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

// packets returns the number of packets that are not pings. A ping sent meanwhile may be counted or not, so
// it then asks again; with many sessions there always is one.
func (z *zooKeeper) packets() (int, error) {
	var n int
	for range 5 {
		pings := z.traffic.Heartbeats.Load()
		counters, err := servertest.ZooKeeperMetrics(z.addr())
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

func (z *zooKeeper) connect(ctx context.Context) (bare, error) { return z.dial(ctx, z.cfg.ttl) }

// dial returns once there is a session.
func (z *zooKeeper) dial(ctx context.Context, ttl time.Duration) (c bareZooKeeper, err error) {
	ready := make(chan struct{})
	once := sync.OnceFunc(func() { close(ready) })
	c.server = z.addr()
	c.conn, _, err = zk.Connect([]string{c.server}, ttl, zk.WithLogger(log.New(io.Discard, "", 0)), zk.WithLogInfo(false), zk.WithDialer(z.tcp),
		zk.WithEventCallback(func(ev zk.Event) {
			if ev.State == zk.StateHasSession {
				once()
			}
		}))
	if err != nil {
		return c, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-ready:
		return c, nil
	case <-ctx.Done():
		c.close()
		return c, fmt.Errorf("no session with %s: %w", c.server, ctx.Err())
	}
}

func (z *zooKeeper) lock(path string, ttl time.Duration) (*lock, error) {
	conn, _, err := zk.Connect([]string{z.addr()}, ttl, zk.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		return nil, err
	}
	l := zk.NewLock(conn, path, zk.WorldACL(zk.PermAll))
	return &lock{
		take:  func(context.Context) error { return l.Lock() },
		give:  func(context.Context) error { return l.Unlock() },
		close: conn.Close,
	}, nil
}

// together does what Curator's LeaderLatch does: a sequential node, a list, and a watch of the node before.
func (z *zooKeeper) together(ctx context.Context, ttl time.Duration) (together, error) {
	c, err := z.dial(ctx, ttl)
	return together{
		take: func(ctx context.Context, path string) error { return c.latch(ctx, path) },
		end:  c.close,
	}, err
}

func (c bareZooKeeper) latch(ctx context.Context, path string) error {
	enqueue := func() (string, error) {
		return c.conn.Create(path+"/latch-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	}
	own, err := enqueue()
	if errors.Is(err, zk.ErrNoNode) {
		for i, r := range (path + "/")[1:] {
			if r != '/' {
				continue
			}
			if _, err = c.conn.Create(path[:i+1], nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return err
			}
		}
		own, err = enqueue()
	}
	for err == nil {
		var all []string
		if all, _, err = c.conn.Children(path); err != nil {
			break
		}
		slices.Sort(all)
		i := slices.Index(all, own[len(path)+1:])
		if i < 0 {
			return errors.New("the session is lost")
		}
		if i == 0 {
			return nil
		}
		_, _, gone, failed := c.conn.GetW(path + "/" + all[i-1])
		switch {
		case errors.Is(failed, zk.ErrNoNode):
			continue
		case failed != nil:
			return failed
		}
		select {
		case <-gone:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return err
}

func (c bareZooKeeper) close() { c.conn.Close() }

func (c bareZooKeeper) create(_ context.Context, key string) error {
	flags := int32(zk.FlagEphemeral)
	if key == rawEpoch {
		flags = 0
	}
	_, err := c.conn.Create(key, []byte("raw"), flags, zk.WorldACL(zk.PermAll))
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
	// Closing the connection makes an event, too.
	return fires(func() bool { return (<-events).Type == zk.EventNodeDeleted }), nil
}

func (c bareZooKeeper) standing(_ context.Context, path string) (int, error) {
	all, _, err := c.conn.Children(path)
	return len(all), err
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
