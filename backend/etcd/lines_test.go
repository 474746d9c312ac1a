package etcd_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// A change is noticed if the watches are on a member that goes silent, while heartbeats go to another.
func TestSilentWatches(t *testing.T) {
	servertest.Long(t, "several heartbeats")
	t.Parallel()
	server := shared.ForTest(t).Addr()
	p := etcdtest.NewProcess(t, []string{server, server}, nil)
	silent, good := p.Proxies[0], p.Proxies[1]
	good.Refuse(true)
	f := setUpWith(t, 10*time.Second, p)
	f.NeverLost()
	f.beats()
	other := setUpOn(t, 20*time.Second, nil, server)
	e := other.put(other.S, f.Dir+"/e", "")
	waiting := f.armed(e)
	good.Refuse(false)
	links := silent.Links()
	require.Len(t, links, 2, "the client's own, and that of the heartbeats")
	links[1].Stall()
	wait.For(t, "they move", func() bool { return len(good.Links()) == 2 })
	for range 3 { // until it is known that the watches were not concerned
		f.beats()
	}
	silent.Stall()
	other.Commit(other.S, backend.Delete(e))
	f.Told(waiting, backend.Entry{})
	f.AwaitState(f.S, backend.Live)
}

// lagging is a stream of watches to a member whose disk stalls: once lags is set it reports no changes,
// and makes watches at an old revision.
type lagging struct {
	grpc.ClientStream
	lags *atomic.Bool
}

func (s lagging) RecvMsg(m any) error {
	for {
		err := s.ClientStream.RecvMsg(m)
		answer, ok := m.(*etcdserverpb.WatchResponse)
		if err != nil || !ok || !s.lags.Load() {
			return err
		}
		if len(answer.Events) == 0 {
			answer.Header.Revision = 1
			return nil
		}
		answer.Reset()
	}
}

// A session whose heartbeats go to others leaves a member that answers and applies nothing more.
func TestWatchesOnAMemberThatLags(t *testing.T) {
	servertest.Long(t, "several heartbeats")
	t.Parallel()
	server := shared.ForTest(t).Addr()
	var lags atomic.Bool
	var opened atomic.Int64
	f := setUpOn(t, 10*time.Second, wrapped(etcdserverpb.Watch_Watch_FullMethodName, func(s grpc.ClientStream) grpc.ClientStream {
		if opened.Add(1) <= 2 { // the one after the first goes to the same member
			return lagging{s, &lags}
		}
		return s
	}), server, server)
	f.NeverLost()
	other := setUpOn(t, 20*time.Second, nil, server)
	e := other.put(other.S, f.Dir+"/e", "")
	waiting := f.armed(e)
	lags.Store(true)
	other.Commit(other.S, backend.Delete(e))
	f.Told(waiting, backend.Entry{})
	f.AwaitState(f.S, backend.Live)
}

// Heartbeats are confirmed on slow links, where a new connection and its first reply take longer than
// half of the time between two heartbeats, after which a silent member is usually left.
func TestHeartbeatsOverSlowLinks(t *testing.T) {
	servertest.Long(t, "several heartbeats")
	t.Parallel()
	server := shared.ForTest(t).Addr()
	p := etcdtest.NewProcess(t, []string{server, server, server}, nil)
	p.Each(func(proxy *proxytest.Proxy) { proxy.Delay(375*time.Millisecond, 0) })
	f := setUpWith(t, 10*time.Second, p)
	f.NeverLost()
	for i := range 6 {
		if i == 3 {
			p.Cut()
		}
		f.beats()
	}
}
