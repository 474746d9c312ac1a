package etcd

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// mostAlone is how many commits that go by themselves are on their way before others wait. With more, the last
// would wait at the server for so long that they count as lost.
const mostAlone = 100

// errUnsent: the time of a request was over while it waited for others.
var errUnsent = errors.New("not sent in time, behind others")

// errApart: nothing was done, and the reason may be another request of the transaction. Each is made by itself.
var errApart = errors.New("not together with others")

// togetherFirst returns a function for try: its first call makes a request together with others, and the next ones, or
// one that must go apart, by itself.
func togetherFirst(together, alone func(context.Context) (*clientv3.TxnResponse, error)) func(context.Context) (*clientv3.TxnResponse, error) {
	var tried atomic.Bool
	return func(ctx context.Context) (*clientv3.TxnResponse, error) {
		if !tried.Swap(true) {
			if answer, err := together(ctx); !errors.Is(err, errApart) {
				return answer, err
			}
		}
		return alone(ctx)
	}
}

// A reading is some gets at one revision.
type reading struct {
	ctx    context.Context // the sender's
	gets   []clientv3.Op
	answer *clientv3.TxnResponse
	err    error
	done   chan struct{}
}

func newReading(ctx context.Context, gets []clientv3.Op) reading {
	return reading{ctx: ctx, gets: gets, done: make(chan struct{})}
}

// readTogether does gets, with those of others that are ready.
func (s *session) readTogether(ctx context.Context, gets []clientv3.Op) (*clientv3.TxnResponse, error) {
	r := newReading(ctx, gets)
	s.reads.Do(&r)
	select {
	case <-r.done:
		return r.answer, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *session) takeReads(waiting []*reading) (batch, left []*reading) {
	n := 0
	for i, r := range waiting {
		if r.ctx.Err() != nil {
			continue // its sender has given up
		}
		if n += len(r.gets); len(batch) > 0 && n > s.cfg.MaxOps {
			return batch, waiting[i:]
		}
		batch = append(batch, r)
	}
	return batch, nil
}

func (s *session) sendReads(batch []*reading) {
	ctx, gets := batch[0].ctx, batch[0].gets
	if len(batch) > 1 { // one that gives up does not stop the others
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(s.Ctx, s.patience())
		defer cancel()
		n := 0
		for _, r := range batch {
			n += len(r.gets)
		}
		gets = make([]clientv3.Op, 0, n) // an Op is large
		for _, r := range batch {
			gets = append(gets, r.gets...)
		}
	}
	answer, err := s.readAlone(ctx, gets)
	if err != nil && len(batch) > 1 {
		err = errApart
	}
	for _, r := range batch {
		if r.err = err; err == nil {
			n := len(r.gets)
			r.answer = &clientv3.TxnResponse{Header: answer.Header, Succeeded: answer.Succeeded, Responses: answer.Responses[:n:n]}
			answer.Responses = answer.Responses[n:]
		}
		close(r.done)
	}
}

// readAlone does gets by themselves.
func (s *session) readAlone(ctx context.Context, gets []clientv3.Op) (*clientv3.TxnResponse, error) {
	answer, err := s.client.KV.Txn(ctx).Then(gets...).Commit()
	if err == nil {
		err = whole(answer.Header, len(ranges(answer)), len(gets))
	}
	return answer, err
}

// A writing is one attempt of a commit, with the gets for the case that its conditions are not met.
type writing struct {
	reading
	p *plan
}

// changes reports whether a commit only changes or deletes entries. Commits that do may be made in one transaction:
// each is a transaction within it, with its own conditions. All have one revision, so none may create an entry,
// which is named by it.
func (c *commit) changes() bool {
	other := func(op backend.Op) bool { return op.Kind != backend.OpUpdate && op.Kind != backend.OpDelete }
	return len(c.ops) > 0 && !slices.ContainsFunc(c.ops, other)
}

// combines reports whether an attempt looks at single keys only. The servers look at all conditions of a
// transaction first, and takeWrites at those keys.
func (p *plan) combines() bool {
	ranges := func(cmp clientv3.Cmp) bool { return len(cmp.GetCompare().RangeEnd) > 0 }
	return !slices.ContainsFunc(p.cmps, ranges) && len(p.parents) == 0
}

// enter waits until fewer than mostAlone commits are on their way by themselves.
func (s *session) enter(ctx context.Context) (leave func(), err error) {
	select {
	case s.alone <- struct{}{}:
		return sync.OnceFunc(func() { <-s.alone }), nil
	case <-ctx.Done():
	case <-s.Ctx.Done():
	}
	return nil, s.Over(ctx)
}

// writeTogether makes an attempt, with those of others that are ready.
func (s *session) writeTogether(ctx context.Context, p *plan, gets []clientv3.Op) (*clientv3.TxnResponse, error) {
	w := &writing{newReading(ctx, gets), p}
	s.writes.Do(w)
	select {
	case <-w.done:
		return w.answer, w.err
	case <-ctx.Done():
	}
	if s.writes.Withdraw(w) {
		return nil, as(errUnsent, ctx.Err())
	}
	select {
	case <-w.done:
		return w.answer, w.err
	default: // it may be on its way: its fence tells
		return nil, ctx.Err()
	}
}

// takeWrites takes what one transaction may hold. Within it, no attempt may write what another one looks at or
// writes: etcd puts a key once in a transaction.
func (s *session) takeWrites(waiting []*writing) (batch, left []*writing) {
	touched := make(map[string]bool) // by key: whether it is written
	most, size := 0, 0
	for i, w := range waiting {
		if err := w.ctx.Err(); err != nil { // its sender gives up
			w.err = as(errUnsent, err)
			close(w.done)
			continue
		}
		most, size = max(most, len(w.p.cmps), len(w.p.then), len(w.gets)), size+w.p.size
		switch {
		case len(batch) > 0 && (len(batch)+1+most > s.cfg.MaxOps || size > s.cfg.MaxRequest):
			return batch, append(left, waiting[i:]...)
		case w.p.touch(touched):
			batch = append(batch, w)
		default:
			left = append(left, w)
		}
	}
	return batch, left
}

// touch adds the keys of an attempt to those of others, unless they exclude each other.
func (p *plan) touch(others map[string]bool) bool {
	own := make(map[string]bool)
	for _, cmp := range p.cmps {
		own[string(cmp.KeyBytes())] = false
	}
	for _, key := range p.reads {
		own[key] = false
	}
	for _, op := range p.then {
		own[string(op.KeyBytes())] = true
	}
	for key, written := range own {
		if other, touched := others[key]; touched && (written || other) {
			return false
		}
	}
	maps.Copy(others, own)
	return true
}

func (s *session) sendWrites(batch []*writing) {
	if len(batch) == 1 {
		w := batch[0]
		w.answer, w.err = s.write(w.ctx, w.p, w.gets)
		close(w.done)
		return
	}
	all := make([]clientv3.Op, len(batch))
	for i, w := range batch {
		all[i] = clientv3.OpTxn(w.p.cmps, w.p.then, w.gets)
	}
	ctx, cancel := s.sending(s.Ctx, s.patience())
	defer cancel()
	answer, err := s.client.KV.Txn(ctx).Then(all...).Commit()
	answer, err = wholeTxn(answer, err, len(all), 0)
	if err != nil && !mean(err).Is(driver.Unknown) {
		err = errApart
	}
	for i, w := range batch {
		if w.err = err; err == nil {
			one := answer.Responses[i].GetResponseTxn()
			own := &clientv3.TxnResponse{Header: answer.Header, Succeeded: one.GetSucceeded(), Responses: one.GetResponses()}
			w.answer, w.err = wholeTxn(own, nil, len(w.p.then), len(w.gets))
		}
		close(w.done)
	}
}

// write makes an attempt by itself.
func (s *session) write(ctx context.Context, p *plan, gets []clientv3.Op) (*clientv3.TxnResponse, error) {
	answer, err := s.client.KV.Txn(ctx).If(p.cmps...).Then(p.then...).Else(gets...).Commit()
	return wholeTxn(answer, err, len(p.then), len(gets))
}
