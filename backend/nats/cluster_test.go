package nats_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/nats"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/services"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
)

// A cluster is three servers, and a bucket with three replicas.
type cluster struct {
	all     []*member
	js      jetstream.JetStream
	buckets atomic.Int64
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("three servers, and waits for session timeouts: make test-all")
	}
	c := &cluster{all: members(t, 3)}
	c.js = c.connect(t, new(only))
	return c
}

// only is a process's connections, which can be cut. While addr is set it makes none to other servers.
type only struct {
	services.Line
	addr atomic.Pointer[string]
}

// Dial implements natsgo.CustomDialer.
func (o *only) Dial(network, address string) (net.Conn, error) {
	if addr := o.addr.Load(); addr != nil && *addr != address {
		return nil, errors.New("this test does not let it connect there")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return o.Line.Dial(ctx, network, address)
}

// connect returns a JetStream on a connection of its own.
func (c *cluster) connect(t testing.TB, o *only) jetstream.JetStream {
	t.Helper()
	options := natsgo.GetDefaultOptions()
	for _, m := range c.all {
		options.Servers = append(options.Servers, "nats://"+m.addr)
	}
	options.MaxReconnect, options.ReconnectWait, options.RetryOnFailedConnect, options.CustomDialer = -1, 100*time.Millisecond, true, o
	options.PingInterval, options.MaxPingsOut, options.Timeout, options.ReconnectBufSize = time.Second, 1, time.Second, -1
	nc := must.Get(options.Connect())(t)
	t.Cleanup(nc.Close)
	return must.Get(jetstream.New(nc))(t)
}

func (c *cluster) each(do func(*member) error) error {
	var errs []error
	for _, m := range c.all {
		errs = append(errs, do(m))
	}
	return errors.Join(errs...)
}

// bucket makes a bucket. A cluster that has just begun, or lost its leader, takes some seconds to do so.
func (c *cluster) bucket(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("elections-%d", c.buckets.Add(1))
	wait.For(t, "a bucket can be made", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_, err := c.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: name, Replicas: 3})
		return err == nil
	})
	return name
}

// leader returns the server that leads a bucket's stream.
func (c *cluster) leader(t testing.TB, bucket string) *member {
	t.Helper()
	var found *member
	wait.For(t, "a server leads the stream", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		stream, err := c.js.Stream(ctx, "KV_"+bucket)
		if err != nil {
			return false
		}
		for _, m := range c.all {
			if l := stream.CachedInfo().Cluster; l != nil && l.Leader == m.Spec.Name {
				found = m
			}
		}
		return found != nil
	})
	return found
}

// service is the cluster for the suites. Each service has a bucket of its own.
func (c *cluster) service(t testing.TB) *conformance.Service {
	name := c.bucket(t)
	client := func(t testing.TB, at *only) *conformance.Client {
		js := c.connect(t, at)
		return &conformance.Client{Backend: must.Get(nats.New(js, nats.Config{Bucket: name}))(t), Suspend: at.Cut, Resume: at.Mend, Close: js.Conn().Close}
	}
	return &conformance.Service{
		Name: "nats, cluster of 3", Root: "/conformance", TTL: 10 * time.Second, Members: len(c.all),
		Client: func(t testing.TB) *conformance.Client { return client(t, new(only)) },
		ClientAt: func(t testing.TB, i int) (*conformance.Client, func()) {
			at := new(only)
			at.addr.Store(&c.all[i].addr)
			return client(t, at), func() { at.addr.Store(nil) }
		},
		Stop:         func() error { return c.each((*member).Kill) },
		Start:        func() error { return c.each((*member).begin) },
		StopMember:   func(i int) error { return c.all[i].Kill() },
		StartMember:  func(i int) error { return c.all[i].begin() },
		PauseMember:  func(i int) error { return c.all[i].Pause() },
		ResumeMember: func(i int) error { return c.all[i].Resume() },
		Why:          map[string]string{conformance.Rest: "package register's tests try it"},
	}
}

// The contract of package backend, while members of the cluster are killed and frozen.
func TestClusterConformance(t *testing.T) {
	c := newCluster(t)
	conformance.TestBackendParallel(t, c.service)
}

// An election, while members of the cluster are killed.
func TestClusterElection(t *testing.T) {
	c := newCluster(t)
	conformance.TestElection(t, conformance.ElectionConfig{Service: c.service, Strategy: fair.Strategy{}, Traits: conformance.Traits{Ordered: true, StepsAside: true, Lists: true}})
}

// The server that leads the stream is killed and frozen again and again. No session is lost, and each of the
// commits of two sessions, which count the same counter, is done once.
func TestClusterLeaderLoss(t *testing.T) {
	c := newCluster(t)
	name := c.bucket(t)
	open := func() *backend.Session {
		session := must.Get(must.Get(nats.New(c.connect(t, new(only)), nats.Config{Bucket: name}))(t).Open(t.Context(), backend.OpenOptions{TTL: time.Minute}))(t)
		t.Cleanup(func() { _ = session.Close(context.Background()) })
		return session
	}
	sessions := []*backend.Session{open(), open()}
	must.Get(sessions[0].Commit(t.Context(), nil, backend.CompareAndSet("/count", []byte("0"), 0)))(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var counted atomic.Int64
	var done []<-chan wait.Result[int]
	for _, s := range sessions {
		done = append(done, wait.Later(func() (n int, err error) {
			for ctx.Err() == nil {
				e, err := s.Get(t.Context(), "/count")
				if err != nil {
					return n, err
				}
				var known int
				if _, err := fmt.Sscan(string(e.Value), &known); err != nil {
					return n, err
				}
				switch _, err := s.Commit(t.Context(), nil, backend.CompareAndSet(e.Key, fmt.Append(nil, known+1), e.Version)); {
				case err == nil:
					n++
					counted.Add(1)
				case !errors.Is(err, backend.ErrConflict):
					return n, err
				}
			}
			return n, nil
		}))
	}
	for i := range 6 {
		leader, before := c.leader(t, name), counted.Load()
		away, back := leader.Kill, leader.begin
		if i%2 == 1 {
			away, back = leader.Pause, leader.Resume
		}
		require.NoError(t, away())
		wait.For(t, "commits are done without it", func() bool { return counted.Load() > before+10 })
		require.NoError(t, back())
		wait.For(t, "commits are done with it", func() bool { return counted.Load() > before+20 })
	}
	stop()
	sum := 0
	for i, d := range done {
		n := wait.Value(t, d)
		t.Logf("session %d has done %d commits", i, n)
		sum += n
	}
	for i, s := range sessions {
		// A write needs the newest state. A read alone may be answered by a server that led until it was frozen.
		must.Get(s.Commit(t.Context(), nil, backend.CompareAndSet(fmt.Sprint("/last", i), nil, 0)))(t)
		last := must.Get(s.Get(t.Context(), "/count"))(t)
		assert.Equal(t, fmt.Sprint(sum), string(last.Value))
		assert.Equal(t, backend.Live, s.State())
	}
}
