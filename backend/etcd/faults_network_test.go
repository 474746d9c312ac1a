//go:build unix

package etcd_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// detour is the worst that a balancer may do: it sends the reads of all heartbeats to one member, and
// the renewals to another.
type detour struct {
	read, renew *grpc.ClientConn
	on          atomic.Bool
	held        atomic.Pointer[chan struct{}] // reads wait until it is closed
	reads       atomic.Int64                  // that were sent
	renewed     atomic.Int64                  // the number of reads when a lease was last renewed
}

func (d *detour) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if method != etcdserverpb.Cluster_MemberList_FullMethodName || !d.on.Load() {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	if held := d.held.Load(); held != nil {
		select {
		case <-*held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	d.reads.Add(1)
	return invoke(ctx, method, req, reply, d.read, opts...)
}

func (d *detour) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if method != etcdserverpb.Lease_LeaseKeepAlive_FullMethodName || !d.on.Load() {
		return open(ctx, desc, cc, method, opts...)
	}
	s, err := open(ctx, desc, d.renew, method, opts...)
	if err != nil {
		return nil, err
	}
	return received{s, func(m any) {
		if m.(*etcdserverpb.LeaseKeepAliveResponse).TTL > 0 {
			d.renewed.Store(d.reads.Load())
		}
	}}, nil
}

// within limits one request of a bare client.
func within(f *fixture, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(f.Ctx, limit)
	defer cancel()
	return do(ctx)
}

// A renewal by a deposed leader does not extend the window. The leader is cut off from the others and
// frozen, and another leads. A fifth member comes back by a snapshot, which leaves the old term in its
// replies. When the old leader wakes, it does not know its successor for a moment, and renews leases,
// in the same old term. The successor does not hear of that.
func TestRenewedByADeposedLeader(t *testing.T) {
	t.Parallel() // it mostly waits
	const ttl = 30 * time.Second
	network := networktest.ForTest(t, 5)
	cluster := servertest.EtcdClusterForTest(t, 5, servertest.EtcdConfig{NoSync: true, Network: network, Args: []string{
		"--snapshot-count", "10", "--snapshot-catchup-entries", "5",
		"--election-timeout", "2000", // so that it takes a moment to notice
	}})
	old := must.Get(cluster.WaitLeader(wait.Patience))(t)
	var others []*servertest.Etcd
	for _, m := range cluster.Members {
		if m != old {
			others = append(others, m)
		}
	}
	back, others := others[0], others[1:]
	bare := func(m *servertest.Etcd) *clientv3.Client { return etcdtest.Operator(t, m.Addr()) }
	atOld, atBack := bare(old), bare(back)

	d := &detour{read: atBack.ActiveConnection(), renew: atOld.ActiveConnection()}
	p := etcdtest.NewProcess(t, []string{old.Addr(), back.Addr()}, func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(d.unary), grpc.WithChainStreamInterceptor(d.stream))
	})
	f := setUpWith(t, ttl, p)
	f.NeverLost()
	granted := time.Now()
	d.on.Store(true)
	held := make(chan struct{})
	d.held.Store(&held)
	other, err := atOld.Grant(f.Ctx, 60) // to test whether leases are renewed
	require.NoError(t, err)
	lease := p.Leases()[0]
	status := must.Get(atOld.Status(f.Ctx, old.Addr()))(t)
	term := status.RaftTerm

	require.NoError(t, network.CutOff(back.Host()))
	require.NoError(t, network.CutOff(old.Host()))
	require.NoError(t, old.Pause())
	var leader *servertest.Etcd
	wait.For(t, "another leads", func() bool {
		leader, err = cluster.Leader()
		return err == nil && leader != old
	})
	atLeader := bare(leader)
	// left returns what remains of the lease by the clock that counts.
	left := func() time.Duration {
		answer := must.Get(atLeader.TimeToLive(f.Ctx, lease))(t)
		return time.Duration(answer.TTL) * time.Second
	}
	assert.Greater(t, time.Now().Add(left()), granted.Add(ttl), "a new leader gives leases their whole timeout")
	for i := range 40 {
		must.Get(atLeader.Put(f.Ctx, newRoot(), strconv.Itoa(i)))(t)
	}
	for _, m := range others {
		require.NoError(t, network.Mend(back.Host(), m.Host()))
		require.NoError(t, network.Reset(back.Host(), m.Host())) // what they resend may come late
		require.NoError(t, network.Reset(m.Host(), back.Host()))
	}
	var list *clientv3.MemberListResponse
	wait.For(t, "the fifth member is back", func() bool {
		return within(f, time.Second, func(ctx context.Context) (err error) {
			list, err = atBack.MemberList(ctx)
			return err
		}) == nil
	})
	assert.Equal(t, term, list.Header.RaftTerm, "it is back by a snapshot, and answers with the old term")
	status = must.Get(atLeader.Status(f.Ctx, leader.Addr()))(t)
	assert.Greater(t, status.RaftTerm, term)
	wait.For(t, "the lease runs out", func() bool { return left() <= ttl*2/3 })

	require.NoError(t, old.Resume())
	wait.For(t, "the old leader renews leases", func() bool {
		return within(f, ttl/100, func(ctx context.Context) error {
			_, err := atOld.KeepAliveOnce(ctx, other.ID)
			return err
		}) == nil
	})
	close(held)
	wait.For(t, "it has renewed the session's", func() bool { return d.renewed.Load() > 0 })
	wait.For(t, "the heartbeat is over", func() bool {
		return d.reads.Load() > d.renewed.Load() || f.S.State() == backend.Live
	})
	deadline := f.S.Deadline()
	assert.LessOrEqual(t, time.Until(deadline), left()+time.Second, "the window is open when the lease has run out")

	// Heartbeats that one member answers count, and if that is cut off, another does.
	d.on.Store(false)
	f.beats()
	assert.LessOrEqual(t, time.Until(f.S.Deadline()), left()+time.Second)
}
