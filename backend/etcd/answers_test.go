package etcd_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/etcd"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// An odd reply is given once, to a request for keys or a lease, instead of the server's. Without an
// error it is a hollow one: it is empty, as a gateway's may be.
type odd struct {
	err   error
	after bool // the server has done the request
}

// oddities are the odd replies to a client.
type oddities struct {
	next   atomic.Pointer[odd]
	always atomic.Pointer[func(req any) error] // what all requests like this get, without being done; nil: none
}

// errNever means no reply at all.
var errNever = errors.New("no answer")

// keep answers each request with the first of these that is not nil, until the next call.
func (o *oddities) keep(answers ...func(req any) error) {
	all := func(req any) error {
		for _, answer := range answers {
			if err := answer(req); err != nil {
				return err
			}
		}
		return nil
	}
	o.always.Store(&all)
}

// to answers all requests of a kind.
func to[Request any](err error) func(req any) error {
	return func(req any) error {
		if _, ok := req.(Request); ok {
			return err
		}
		return nil
	}
}

func (o *oddities) change(cfg *clientv3.Config) {
	unary(func(ctx context.Context, req any, send func() error) error {
		if always := o.always.Load(); always != nil {
			switch err := (*always)(req); {
			case errors.Is(err, errNever):
				<-ctx.Done()
				return status.FromContextError(ctx.Err()).Err()
			case err != nil:
				return err
			}
		}
		switch req.(type) {
		case *pb.RangeRequest, *pb.TxnRequest, *pb.PutRequest, *pb.LeaseGrantRequest:
		default:
			return send()
		}
		answer := o.next.Swap(nil)
		if answer == nil {
			return send()
		}
		if answer.after {
			if err := send(); err != nil {
				return err
			}
		}
		return answer.err
	})(cfg)
}

// One odd reply is not the outcome of a call unless it must be.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	var o oddities
	f := setUp(t, time.Minute, o.change)
	for _, err := range []error{
		rpctypes.ErrGRPCNoLeader, rpctypes.ErrGRPCNotLeader, rpctypes.ErrGRPCLeaderChanged, rpctypes.ErrGRPCStopped, rpctypes.ErrGRPCTimeout,
		rpctypes.ErrGRPCCorrupt, rpctypes.ErrGRPCUnhealthy, rpctypes.ErrGRPCRequestTooManyRequests, rpctypes.ErrGRPCNotSupportedForLearner,
		rpctypes.ErrGRPCNotCapable, rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthOldRevision, rpctypes.ErrGRPCMemberNotFound,
		status.Error(codes.Unknown, "raft proposal dropped"), status.Error(codes.Unknown, "never heard of"),
		status.Error(codes.Internal, "a proxy's trouble"), status.Error(codes.Aborted, "never heard of"), status.Error(codes.ResourceExhausted, "slow down"),
		status.Error(codes.DataLoss, "never heard of"), status.Error(99, "never heard of"),
		status.Error(codes.Canceled, "a proxy's trouble"), status.Error(codes.DeadlineExceeded, "a proxy's trouble"),
		status.Error(codes.Unimplemented, "no route"), status.Error(codes.InvalidArgument, "never heard of"),
		status.Error(codes.PermissionDenied, "a proxy's trouble"), status.Error(codes.Unauthenticated, "a proxy's trouble"),
	} {
		t.Run(err.Error(), func(t *testing.T) {
			refused := errors.Is(err, rpctypes.ErrGRPCInvalidAuthToken) || errors.Is(err, rpctypes.ErrGRPCRequestTooManyRequests) ||
				errors.Is(err, rpctypes.ErrGRPCNotSupportedForLearner) || errors.Is(err, rpctypes.ErrGRPCNotCapable) ||
				errors.Is(err, rpctypes.ErrGRPCAuthOldRevision) || errors.Is(err, rpctypes.ErrGRPCNotLeader)
			for _, after := range []bool{false, true} {
				if after && refused {
					continue // it says that nothing was done
				}
				o.next.Store(&odd{err, after})
				f.Get(f.S, f.Dir)
				o.next.Store(&odd{err, after})
				e := f.Enqueue(f.S)
				f.Lists(f.S, e)
				f.Discard(f.S, e)
			}
			assert.Equal(t, backend.Live, f.S.State())
		})
	}
	// An error that waiting does not change is returned.
	o.next.Store(&odd{err: rpctypes.ErrGRPCPermissionDenied})
	_, err := f.S.Get(f.Ctx, f.Dir)
	require.ErrorIs(t, err, backend.ErrDenied)
	// So is one that an operator must mend.
	for range 2 { // the commit, and the request that resolves it
		o.next.Store(&odd{err: rpctypes.ErrGRPCNoSpace})
		f.Refused(f.S, backend.CompareAndSet(f.Dir+"/x", nil, 0), backend.ErrUnavailable, rpctypes.ErrNoSpace)
	}
	o.next.Store(&odd{err: rpctypes.ErrGRPCNoSpace})
	_, err = f.Backend.Open(f.Ctx, backend.OpenOptions{})
	require.ErrorIs(t, err, backend.ErrUnavailable)
	for _, code := range []codes.Code{codes.Unimplemented, codes.PermissionDenied} {
		o.next.Store(&odd{err: status.Error(code, "a proxy's trouble")})
		s := must.Get(f.Backend.Open(f.Ctx, backend.OpenOptions{}))(t)
		require.NoError(t, s.Close(f.Ctx))
	}
}

// One empty reply counts as none.
func TestHollowAnswers(t *testing.T) {
	var o oddities
	f := setUp(t, 20*time.Second, o.change)
	hollow := func() { o.next.Store(&odd{}) }
	own := f.Enqueue(f.S)
	hollow()
	f.Get(f.S, f.Dir)
	hollow()
	next := f.Enqueue(f.S)
	hollow()
	f.Lists(f.S, own, next)
	hollow()
	must.First(f.S.Survey(f.Ctx, f.Dir, nil))(t)
	hollow()
	f.Discard(f.S, own)
	hollow()
	_, err := f.Backend.Open(f.Ctx, backend.OpenOptions{})
	require.ErrorIs(t, err, backend.ErrUnavailable)
}

// An empty reply does not confirm the end of a session: Close and Execute ask again.
func TestHollowAnswersToTheEnd(t *testing.T) {
	for name, end := range map[string]func(f, other *fixture) (backend.Entry, error){
		"close": func(f, _ *fixture) (backend.Entry, error) {
			e := f.Enqueue(f.S)
			return e, f.S.Close(f.Ctx)
		},
		"will": func(f, other *fixture) (backend.Entry, error) {
			e := f.Enqueue(other.S)
			w := must.Get(other.S.Will())(f.T)
			return e, backend.Execute(f.Ctx, f.Backend, w)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			f := setUp(t, 20*time.Second, unary(func(_ context.Context, req any, send func() error) error {
				if _, ok := req.(*pb.LeaseRevokeRequest); ok && asked.Add(1) <= 3 {
					return nil
				}
				return send()
			}))
			e := must.Get(end(f, f.another(20*time.Second)))(t)
			assert.EqualValues(t, 4, asked.Load())
			f.Gone(f.another(20*time.Second).S, e.Key)
		})
	}
}

// A transaction that arrives twice, because the client or a proxy has resent it, is reported as done
// though the reply to the second copy is a refusal.
func TestOneAttemptArrivesTwice(t *testing.T) {
	var o oddities
	f, other := setUpTwo(t, 20*time.Second, o.change) // inside the client's own interceptors
	seat, note, queue, crowd := f.Dir+"/seat", f.Dir+"/note", f.Dir+"/queue", f.Dir+"/crowd"
	f.Commit(f.S, backend.CompareAndSet(queue, nil, 0), backend.CompareAndSet(crowd, nil, 0))
	leader := f.Commit(other.S, backend.Enqueue(crowd, nil))[0]
	for name, ops := range map[string]func() []backend.Op{
		"create":          func() []backend.Op { return []backend.Op{backend.CreateEphemeral(seat, []byte("x"))} },
		"enqueue":         func() []backend.Op { return []backend.Op{backend.Enqueue(queue, []byte("x"))} },
		"enqueue, behind": func() []backend.Op { return []backend.Op{backend.Enqueue(crowd, []byte("x"))} },
		"create and put": func() []backend.Op {
			return []backend.Op{backend.CreateEphemeral(seat, nil), backend.CompareAndSet(note, []byte("x"), 0)}
		},
		"enqueue and delete": func() []backend.Op {
			gone := f.put(f.S, note, "")
			return []backend.Op{backend.Enqueue(crowd, nil), backend.Delete(gone)}
		},
	} {
		for _, code := range []codes.Code{codes.Canceled, codes.DeadlineExceeded} {
			t.Run(name+", "+code.String(), func(t *testing.T) {
				ops := ops()
				o.next.Store(&odd{status.Error(code, "stream terminated by RST_STREAM"), true})
				made := f.Commit(f.S, ops...)
				f.Same(made[0], f.Get(other.S, made[0].Key))
				at := *f
				switch at.Dir = ops[0].Key; at.Dir {
				case queue:
					at.Follows(f.S, made[0], backend.Entry{})
					at.Lists(other.S, made[0])
				case crowd:
					at.Follows(f.S, made[0], leader)
					at.Lists(other.S, leader, made[0])
				}
				for _, e := range made {
					if e.Exists() {
						f.Commit(f.S, backend.Delete(e))
					}
				}
			})
		}
	}
}

// Replies that stay odd, or away, are reported after a session timeout, on a session that lives: a
// leader whose disk stalls answers heartbeats, and no write.
func TestOddAnswersThatStay(t *testing.T) {
	servertest.Long(t, "several session timeouts")
	t.Parallel() // it mostly waits
	var o oddities
	f := setUp(t, 10*time.Second, o.change)
	o.keep(to[*pb.TxnRequest](rpctypes.ErrGRPCRequestTooManyRequests))
	f.Refused(f.S, backend.CompareAndSet(f.Dir+"/x", nil, 0), backend.ErrUnavailable)
	_, err := f.S.List(f.Ctx, f.Dir)
	require.ErrorIs(t, err, backend.ErrUnavailable)
	require.ErrorIs(t, err, rpctypes.ErrTooManyRequests)
	f.AwaitState(f.S, backend.Live)
	o.keep(to[*pb.TxnRequest](status.Error(codes.Unimplemented, "no route"))) // no etcd is there: the error is returned as it is
	_, err = f.S.List(f.Ctx, f.Dir)
	require.ErrorContains(t, err, "no route")
	require.NotErrorIs(t, err, backend.ErrUnavailable)
	f.AwaitState(f.S, backend.Live)
	o.keep(to[*pb.TxnRequest](errNever), to[*pb.PutRequest](errNever)) // the Put resolves a commit
	_, err = f.S.Commit(f.Ctx, nil, backend.CompareAndSet(f.Dir+"/x", nil, 0))
	require.ErrorIs(t, err, backend.ErrIndeterminate)
	require.NotErrorIs(t, err, backend.ErrUnavailable) // ErrUnavailable says that nothing was written
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	_, err = f.S.List(f.Ctx, f.Dir)
	require.ErrorIs(t, err, backend.ErrUnavailable)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	f.AwaitState(f.S, backend.Live)
}

// A wait continues if its watch is made but the first read is refused for longer than a session
// timeout.
func TestReadsRefusedWhileAWatchIsMade(t *testing.T) {
	servertest.Long(t, "a session timeout")
	t.Parallel() // it mostly waits
	var o oddities
	var made creations
	f := setUp(t, 10*time.Second, made.watch, o.change)
	other := f.another(20 * time.Second)
	seat := f.seat(other.S)
	made.take()
	o.keep(to[*pb.TxnRequest](rpctypes.ErrGRPCRequestTooManyRequests), to[*pb.RangeRequest](rpctypes.ErrGRPCRequestTooManyRequests))
	waiting := f.Awaits(f.S, seat)
	// A watch is made again once the read that it begins with was given up.
	newest := 0
	wait.For(t, "another watch is made", func() bool {
		for _, from := range made.take() {
			if from == 0 {
				newest++
			}
		}
		return newest > 1
	})
	o.keep()
	f.Discard(other.S, seat)
	f.Told(waiting, backend.Entry{})
	f.AwaitState(f.S, backend.Live)
}

// If the history is too long to be read, and no watch is made, a commit whose reply was lost is
// indeterminate, on a session that lives.
func TestHistoryIsNotToBeHad(t *testing.T) {
	servertest.Long(t, "a session timeout")
	t.Parallel() // it mostly waits
	for _, code := range []codes.Code{codes.Unavailable, codes.Unimplemented} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			var o oddities
			others := etcdtest.Operator(t, shared.ForTest(t).Addr())
			f := setUp(t, 10*time.Second, o.change, unary(func(ctx context.Context, req any, send func() error) error {
				if _, ok := req.(*pb.PutRequest); ok { // the fence
					for range etcd.DefaultMaxOps {
						if _, err := others.Put(ctx, "/others", ""); err != nil {
							return err
						}
					}
				}
				return send()
			}), streams(pb.Watch_Watch_FullMethodName, func(context.Context, opening) (grpc.ClientStream, error) {
				return nil, status.Error(code, "no watches here")
			}))
			o.next.Store(&odd{rpctypes.ErrGRPCTimeout, true})
			f.Refused(f.S, backend.Enqueue(f.Dir, nil), backend.ErrIndeterminate)
			f.AwaitState(f.S, backend.Live)
		})
	}
}

// If what a commit has left cannot be removed, as there is no space, the next commit on that key does
// not wait for it in silence.
func TestTurnThatIsNotGivenBack(t *testing.T) {
	servertest.Long(t, "a session timeout")
	t.Parallel() // it mostly waits
	var o oddities
	f := setUp(t, 10*time.Second, o.change)
	o.keep(to[*pb.PutRequest](rpctypes.ErrGRPCNoSpace)) // for a fence
	seat := backend.CreateEphemeral(f.Dir+"/seat", nil)
	o.next.Store(&odd{rpctypes.ErrGRPCTimeout, true})
	f.Refused(f.S, seat, backend.ErrIndeterminate)
	f.Refused(f.S, seat, backend.ErrUnavailable)
	f.AwaitState(f.S, backend.Live)
	o.keep()
	wait.For(t, "what was left is removed", func() bool {
		_, err := f.S.Get(f.Ctx, f.Dir+"/seat")
		return errors.Is(err, backend.ErrNoEntry)
	})
	f.Commit(f.S, seat)
}
