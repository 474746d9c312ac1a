package etcdtest

import (
	"bytes"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/proxytest"
)

// A Match tells whether a transaction is meant.
type Match func(*etcdserverpb.TxnRequest) bool

// fault is armed until the first transaction that matches.
type fault struct {
	resumed int // how often the process had been when it was armed
	match   Match
	before  bool          // the request is lost, and not its reply
	late    time.Duration // nothing is lost: the request arrives so much later
	met     atomic.Bool
	refuse  bool // no new links until Resume
}

// LoseReply has the reply to the next transaction that matches lost, and the links
// break.
func (p *Process) LoseReply(match Match) { p.arm(&fault{match: match}) }

// CutReply also keeps the process from coming back until Resume.
func (p *Process) CutReply(match Match) { p.arm(&fault{match: match, refuse: true}) }

// LoseRequest has the next transaction that matches lost, and the links break.
func (p *Process) LoseRequest(match Match) { p.arm(&fault{match: match, before: true}) }

// DelayRequest has the next transaction that matches arrive d later, whatever has become of its
// caller. sent tells whether there was one.
func (p *Process) DelayRequest(match Match, d time.Duration) (sent func() bool) {
	f := &fault{match: match, late: d}
	p.arm(f)
	return f.met.Load
}

func (p *Process) arm(f *fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f.resumed = p.resumed
	p.faults = append(p.faults, f)
}

// meets disarms and returns the fault that a request meets.
func (p *Process) meets(req any) *fault {
	txn, ok := req.(*etcdserverpb.TxnRequest)
	if !ok {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, f := range p.faults {
		if f.match(txn) && (!f.refuse || f.resumed == p.resumed) {
			p.faults = append(p.faults[:i:i], p.faults[i+1:]...)
			f.met.Store(true)
			return f
		}
	}
	return nil
}

// lose breaks the links and returns what gRPC says of a call that was under way.
func (p *Process) lose(f *fault) error {
	p.mu.Lock()
	if f.refuse && f.resumed == p.resumed { // a reply that was slow may come after Resume
		p.Each(func(x *proxytest.Proxy) { x.Refuse(true) })
	}
	p.mu.Unlock()
	p.Cut()
	return status.Error(codes.Unavailable, "error reading from server: connection reset by the test")
}

// delay sends a transaction late. send is done for nobody where ctx has ended.
func delay(ctx context.Context, d time.Duration, reply *etcdserverpb.TxnResponse, send func(context.Context, *etcdserverpb.TxnResponse) error) error {
	var late etcdserverpb.TxnResponse
	done := make(chan error, 1)
	go func() {
		time.Sleep(d)
		done <- send(context.WithoutCancel(ctx), &late)
	}()
	select {
	case err := <-done:
		reply.Header, reply.Succeeded, reply.Responses = late.Header, late.Succeeded, late.Responses
		return err
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// Throttle has the servers turn all requests of the process away until release is called; its
// watches that stand go on. It returns how many there were.
func (p *Process) Throttle() (release func() int) {
	p.turned.Store(0)
	p.throttled.Store(true)
	return func() int { p.throttled.Store(false); return int(p.turned.Load()) }
}

// Deny has the servers refuse what the process asks of keys until release is called, as they
// refuse a user without the rights.
func (p *Process) Deny() (release func()) {
	p.denied.Store(true)
	return func() { p.denied.Store(false) }
}

func (p *Process) turnAway() error {
	if !p.throttled.Load() {
		return nil
	}
	p.turned.Add(1)
	return rpctypes.ErrGRPCRequestTooManyRequests
}

// MatchKind matches commits that have an op of the kind. A commit can be told from
// the second step of an Enqueue and from what cleans up: it asks for its fence, a key
// with a zero byte, not to be put since.
func MatchKind(kind backend.OpKind) Match {
	return func(txn *etcdserverpb.TxnRequest) bool {
		fenced := func(c *etcdserverpb.Compare) bool { return bytes.ContainsRune(c.Key, 0) }
		if !slices.ContainsFunc(txn.Compare, fenced) {
			return false
		}
		for _, op := range txn.Success {
			switch put := op.GetRequestPut(); {
			case put != nil:
				if kindOf(txn, put) == kind {
					return true
				}
			case op.GetRequestTxn() != nil: // of a key or another, as others stand there or not
				if kind == backend.OpEnqueue {
					return true
				}
			case op.GetRequestDeleteRange() != nil:
				if kind == backend.OpDelete {
					return true
				}
			}
		}
		return false
	}
}

// kindOf tells what a put is. A CompareAndSet over an entry leaves the lease alone as an Update
// does. It asks for the version alone, and the latter for the incarnation, at least.
func kindOf(txn *etcdserverpb.TxnRequest, put *etcdserverpb.PutRequest) backend.OpKind {
	incarnation := slices.ContainsFunc(txn.Compare, func(c *etcdserverpb.Compare) bool {
		return c.Target != etcdserverpb.Compare_VERSION && bytes.Equal(c.Key, put.Key)
	})
	switch {
	case put.IgnoreLease && incarnation:
		return backend.OpUpdate
	case put.Lease == 0:
		return backend.OpCompareAndSet
	}
	return backend.OpCreateEphemeral
}
