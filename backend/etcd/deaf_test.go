package etcd_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/etcd"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// deaf is a proxy that passes on all but watches, when it is on.
type deaf struct {
	mu      sync.Mutex
	on      bool
	cancel  []context.CancelFunc // of the open streams
	streams map[string]int       // how often each was requested, by its metadata
}

func (d *deaf) change(cfg *clientv3.Config) {
	streams(pb.Watch_Watch_FullMethodName, func(ctx context.Context, open opening) (grpc.ClientStream, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.on {
			sent, _ := metadata.FromOutgoingContext(ctx)
			d.streams[strings.Join(sent.Get("elector-stream"), "")]++
			return nil, errDeaf
		}
		ctx, cancel := context.WithCancel(ctx)
		d.cancel = append(d.cancel, cancel)
		s, err := open(ctx)
		return deafStream{s}, err
	})(cfg)
}

var errDeaf = status.Error(codes.Unavailable, "no watches here")

type deafStream struct{ grpc.ClientStream }

func (s deafStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if status.Code(err) == codes.Canceled {
		return errDeaf
	}
	return err
}

func (d *deaf) turn(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.on = on
	for _, cancel := range d.cancel {
		cancel()
	}
	d.cancel = nil
}

func (d *deaf) asked() (names []string, times int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, n := range d.streams {
		names, times = append(names, name), times+n
	}
	return names, times
}

// A session whose watches, and nothing else, are refused at the only address of a service, while the
// client silently makes them again, finds out and reads. It gives up few streams meanwhile: the client
// ends none of them.
func TestWatchesAreRefused(t *testing.T) {
	servertest.Long(t, "several session timeouts")
	t.Parallel()
	d := &deaf{streams: make(map[string]int)}
	f := setUp(t, 10*time.Second, d.change)
	other := f.another(20 * time.Second)
	for range 2 {
		first := f.Enqueue(other.S)
		own := f.Enqueue(f.S)
		waiting := f.armed(first, own)
		d.turn(true)
		f.Discard(other.S, first)
		f.Told(waiting, backend.Entry{})
		// A wait that begins now gets the change, too.
		second := f.Enqueue(other.S)
		waiting = f.Awaits(f.S, second, own)
		_, before := d.asked()
		wait.For(t, "watches are refused on all streams", func() bool {
			names, times := d.asked()
			return len(names) >= 4 && times >= before+100
		})
		f.Discard(other.S, second)
		f.Told(waiting, backend.Entry{})
		d.turn(false)
		f.Discard(f.S, own)
	}
	names, times := d.asked()
	slices.Sort(names)
	t.Logf("asked %d times for the streams %q", times, names)
	assert.LessOrEqual(t, len(names), 4)
	assert.Equal(t, backend.Live, f.S.State())
}

// The outcome of a commit is read if watches are on a frozen member, or are refused.
func TestLostReplyWhileWatchesAreRefused(t *testing.T) {
	t.Parallel()
	d := &deaf{streams: make(map[string]int)}
	f := setUp(t, 30*time.Second, d.change)
	f.NeverLost()
	own, put := f.Enqueue(f.S), f.put(f.S, f.Dir+"/put", "0")
	d.turn(true)
	for fault, arm := range map[string]func(etcdtest.Match){"reply": f.LoseReply, "request": f.LoseRequest} {
		gone := f.put(f.S, f.Dir+"/gone", "")
		for kind, op := range map[backend.OpKind]backend.Op{
			backend.OpCreateEphemeral: backend.CreateEphemeral(f.Dir+"/seat-"+fault, []byte(fault)),
			backend.OpCompareAndSet:   backend.CompareAndSet(f.Dir+"/new-"+fault, []byte(fault), 0),
			backend.OpEnqueue:         backend.Enqueue(f.Dir, []byte(fault)),
			backend.OpUpdate:          backend.Update(own, []byte(fault)),
		} {
			arm(etcdtest.MatchKind(kind))
			made := f.Commit(f.S, op)[0]
			assert.Equal(t, made, f.Get(f.S, made.Key))
			assert.Equal(t, fault, string(made.Value))
		}
		arm(etcdtest.MatchKind(backend.OpCompareAndSet))
		put = f.Commit(f.S, backend.CompareAndSet(put.Key, []byte(fault), put.Version))[0]
		assert.Equal(t, put, f.Get(f.S, put.Key))
		arm(etcdtest.MatchKind(backend.OpDelete))
		f.Commit(f.S, backend.Delete(gone))
		f.Gone(f.S, gone.Key)
	}
}

// If others have written since, the same value among others, the session's own write is returned.
func TestLostReplyOfASetThatOthersRepeat(t *testing.T) {
	t.Parallel()
	f, other := setUpTwo(t, 2*time.Minute) // hundreds of writes while the reply is held back
	e := f.Commit(f.S, backend.CompareAndSet(f.Dir+"/k", []byte("0"), 0))[0]
	for _, more := range []int{0, 2 * etcd.DefaultMaxOps} { // revisions in between: too many to read each
		f.CutReply(etcdtest.MatchKind(backend.OpUpdate))
		own := f.Commits(f.S, backend.Update(e, []byte("v")))
		wait.For(t, "the Set is done", func() bool {
			now, err := other.S.Get(f.Ctx, e.Key)
			return err == nil && string(now.Value) == "v"
		})
		now := f.Get(other.S, e.Key)
		f.Commit(other.S, backend.Update(e, []byte("w")))
		f.Commit(other.S, backend.Update(e, []byte("v")))
		for range more {
			f.Commit(other.S, backend.CompareAndSet(f.Dir, nil, f.Get(other.S, f.Dir).Version))
		}
		f.Commit(other.S, backend.Update(e, []byte("0")))
		f.Resume()
		made := wait.Value(f.T, own)
		assert.Equal(t, now.Version, made[0].Version)
	}
}
