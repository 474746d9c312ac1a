package etcd_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/wait"
)

// creations notes from which revisions a client requests watches, and may hold the requests back.
type creations struct {
	mu   sync.Mutex
	from []int64
	held chan struct{} // nil: they are sent
	slow time.Duration // how long each takes
}

func (c *creations) watch(cfg *clientv3.Config) {
	wrapped(etcdserverpb.Watch_Watch_FullMethodName, func(s grpc.ClientStream) grpc.ClientStream { return creating{s, c} })(cfg)
}

// take returns what was noted since the last call.
func (c *creations) take() []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.from
	c.from = nil
	return from
}

// hold holds back all later requests, until release is called.
func (c *creations) hold() (release func()) {
	held := make(chan struct{})
	c.mu.Lock()
	c.held = held
	c.mu.Unlock()
	return sync.OnceFunc(func() {
		c.mu.Lock()
		c.held = nil
		c.mu.Unlock()
		close(held)
	})
}

type creating struct {
	grpc.ClientStream
	c *creations
}

func (s creating) SendMsg(m any) error {
	if asked, ok := m.(*etcdserverpb.WatchRequest); ok && asked.GetCreateRequest() != nil {
		s.c.mu.Lock()
		s.c.from = append(s.c.from, asked.GetCreateRequest().StartRevision)
		held := s.c.held
		s.c.mu.Unlock()
		if held != nil {
			select {
			case <-held:
			case <-s.Context().Done():
			}
		}
	}
	return s.ClientStream.SendMsg(m)
}

func (s creating) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if told, ok := m.(*etcdserverpb.WatchResponse); ok && err == nil && told.Created {
		time.Sleep(s.c.slow)
	}
	return err
}

// Many watches that are requested at once may take longer than one may, as the client makes them one
// after the other: the stream is not given up for that.
func TestManyWatchesAtOnce(t *testing.T) {
	t.Parallel()
	made := creations{slow: 300 * time.Millisecond}
	f := setUp(t, 30*time.Second, made.watch) // so one may take seven and a half seconds
	const many = 30
	var waiting []<-chan wait.Result[[]backend.Entry]
	for i := range many {
		e := f.Commit(f.S, backend.CreateEphemeral(fmt.Sprintf("%s/seat-%d", f.Dir, i), nil))[0]
		waiting = append(waiting, f.Awaits(f.S, e))
	}
	wait.For(t, "all watches", func() bool { return f.WatchesMade() >= many })
	time.Sleep(2 * made.slow)
	assert.Len(t, made.take(), many)
	must.Get(f.operator().Delete(f.Ctx, f.Dir+"/", clientv3.WithPrefix()))(t)
	for _, w := range waiting {
		wait.Value(f.T, w)
	}
}

// Candidates that hand over and come again, while others write, request no watch from an older
// revision, which a server serves only every 100 ms.
func TestWatchesBeginAtTheNewestRevision(t *testing.T) {
	var made creations
	f, other := setUpTwo(t, time.Minute, made.watch) // longer than until heartbeats test the stream
	stop := make(chan struct{})
	var writing sync.WaitGroup
	defer writing.Wait()
	defer close(stop)
	writing.Go(func() {
		for operator := f.operator(); ; {
			select {
			case <-stop:
				return
			default:
				_, _ = operator.Put(f.Ctx, f.Dir+"-busy", "") // so that revisions pass
			}
		}
	})
	const rounds = 20
	for range rounds {
		first, second := f.Enqueue(other.S), f.Enqueue(other.S)
		me := f.Enqueue(f.S)
		waiting := f.Awaits(f.S, second, me) // as a candidate does right after it has entered
		f.Discard(other.S, second)
		f.Told(waiting, backend.Entry{}, me)
		f.Follows(f.S, me, first) // as one does whose predecessor was not the leader
		waiting = f.Awaits(f.S, first, me)
		f.Discard(other.S, first)
		f.Told(waiting, backend.Entry{}, me)
		f.Discard(f.S, me)
	}
	from := made.take()
	assert.NotEmpty(t, from) // an entry that has gone before it is watched needs no watch
	for _, rev := range from {
		require.Zero(t, rev, "%v", from)
	}
}

// A session that enqueues behind others has the watch on its predecessor by the time its entry has its
// place: it takes two requests to get there, and no other to subscribe.
func TestWatchIsMadeAhead(t *testing.T) {
	var calls counted
	f := setUp(t, time.Minute, calls.add)
	other := f.another(20 * time.Second)
	for range 3 {
		before := f.Enqueue(other.S)
		watches := f.WatchesMade()
		f.beforeSecondStep(func() {
			wait.For(t, "a watch", func() bool { return f.WatchesMade() > watches })
		})
		n := calls.during(func() {
			me := f.Enqueue(f.S)
			f.Follows(f.S, me, before)
			waiting := f.Hangs(f.S, before, me) // a read would be pending
			f.Discard(other.S, before)
			f.Told(waiting, backend.Entry{}, me)
			f.Discard(f.S, me)
		})
		assert.Equal(t, 3, n, "to enqueue, in two steps, and to go")
		assert.Equal(t, watches+1, f.WatchesMade())
	}
}

// No watch is made ahead for long if nobody waits on it.
func TestNoWatchesAheadInVain(t *testing.T) {
	var made creations
	f, other := setUpTwo(t, 20*time.Second, made.watch)
	f.Enqueue(other.S)
	for range 12 {
		require.NoError(t, f.S.Discard(f.Ctx, f.Enqueue(f.S)))
	}
	assert.LessOrEqual(t, len(made.take()), 4)
}

// A change between a read, or the enqueue, and the revision from which the watch reports is not missed,
// and not reported without what was before it.
func TestChangesWhileAWatchIsMade(t *testing.T) {
	var made creations
	f, other := setUpTwo(t, 20*time.Second, made.watch)
	for name, change := range map[string]func(me, before backend.Entry){
		"the other goes":       func(_, before backend.Entry) { f.remove(before.Key) },
		"I go, then the other": func(me, before backend.Entry) { f.remove(me.Key); f.remove(before.Key) },
		"the other, then I":    func(me, before backend.Entry) { f.remove(before.Key); f.remove(me.Key) },
	} {
		for _, enqueued := range []bool{true, false} {
			release := made.hold()
			defer release()
			made.take()
			before := f.Enqueue(other.S)
			me := f.Enqueue(f.S)
			var waiting <-chan wait.Result[[]backend.Entry]
			if enqueued {
				waiting = f.Awaits(f.S, me, before)
			} else { // the watch has other keys, and begins with a read
				read := must.Get(f.S.Await(f.Ctx, backend.Unknown(before.Key), me))(t)
				require.True(t, read[0].Same(before))
				waiting = f.Awaits(f.S, before, me)
			}
			wait.For(t, "a watch is asked for", func() bool { return len(made.take()) > 0 })
			change(me, before)
			release()
			got, err := wait.Returned(f.T, waiting)
			require.NoError(t, err, name)
			if !enqueued {
				got[0], got[1] = got[1], got[0]
			}
			if name != "the other goes" {
				assert.False(t, got[0].Exists(), name)
			}
			assert.False(t, got[1].Exists(), name)
			f.Discard(f.S, me)
			f.Discard(other.S, before)
		}
	}
}

// A notice that a watch was made, without the revision from which it reports, counts as none.
func TestHollowNotice(t *testing.T) {
	var made creations
	var hollow atomic.Bool
	var reads atomic.Int64 // that were answered
	empty := func(m any) {
		if told := m.(*etcdserverpb.WatchResponse); told.Created && hollow.CompareAndSwap(true, false) {
			told.Header = nil
		}
	}
	f := setUp(t, 20*time.Second, made.watch, wrapped(etcdserverpb.Watch_Watch_FullMethodName, func(s grpc.ClientStream) grpc.ClientStream {
		return received{s, empty}
	}), unary(func(_ context.Context, _ any, send func() error) error {
		defer reads.Add(1)
		return send()
	}))
	other := f.another(20 * time.Second)
	seat := f.seat(other.S)
	hollow.Store(true)
	release := made.hold()
	defer release()
	before := reads.Load()
	waiting := f.Awaits(f.S, seat)
	wait.For(t, "a watch is asked for", func() bool { return len(made.take()) > 0 })
	wait.For(t, "what stands is read", func() bool { return reads.Load() > before })
	f.Discard(other.S, seat)
	release()
	f.Told(waiting, backend.Entry{})
	require.False(t, hollow.Load())
}

// A change is noticed if the link breaks, or one of its directions stalls, at about the instant at
// which the watch is made, or later.
func TestCutWhileWatchesAreMade(t *testing.T) {
	t.Parallel()
	f, other := setUpTwo(t, 30*time.Second)
	trouble := []func(*proxytest.Proxy){(*proxytest.Proxy).Cut, (*proxytest.Proxy).StallToServer, (*proxytest.Proxy).StallToClient}
	const made = 60 // from this round on the watch exists
	for i := range made + 30 {
		before, own := f.Enqueue(other.S), f.Enqueue(f.S)
		known := []backend.Entry{before, own}
		if i < made && i%3 == 0 { // no watch was made ahead for these, and nothing is known of them
			known = []backend.Entry{f.Commit(other.S, backend.CreateEphemeral(newRoot(), nil))[0], f.Commit(f.S, backend.CreateEphemeral(newRoot(), nil))[0]}
		}
		var waiting <-chan wait.Result[[]backend.Entry]
		if i >= made {
			waiting = f.armed(known...)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if i >= made {
				time.Sleep(time.Duration(i%10) * 200 * time.Microsecond)
				f.Cut()
				return
			}
			time.Sleep(time.Duration(i%12) * 300 * time.Microsecond)
			f.Each(trouble[i%len(trouble)])
			time.Sleep(20 * time.Millisecond)
			f.Cut()
			f.Each((*proxytest.Proxy).Unstall)
		}()
		if i < made {
			waiting = f.Awaits(f.S, known...)
			time.Sleep(time.Duration(i%7) * 300 * time.Microsecond)
		}
		f.Discard(other.S, known[0])
		f.Told(waiting, backend.Entry{}, known[1])
		<-done
		f.Discard(f.S, own)
		f.Discard(other.S, before)
	}
	assert.NotEqual(t, backend.Lost, f.S.State())
}
