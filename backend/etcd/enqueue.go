package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
)

// enqueued brings an enqueued entry into order, unless nobody was before it. This is a second
// transaction, since the ticket, a revision, is known only once the first is done. Without the order of
// keys, the range that holds an entry and its predecessor would hold a third of the queue, and every
// waiter would hear of what happens to it.
//
// Until then the entry already has its place in the queue. Any session that finds it does the second
// step for it, so that nobody sees a key that changes later, and nobody waits for a process that has
// stopped in between.
func (c *commit) enqueued(ctx context.Context, i int, out *outcome) error {
	s, e, before := c.s, &out.made[i], out.before[i]
	if e.Key == c.keys[i] {
		if before.known {
			s.learned.stood.Store(&standing{own: *e, rev: out.rev})
		}
		return nil
	}
	if !isTransit(*e) {
		return nil // somebody has helped it, before it was known to exist
	}
	var also []clientv3.Op
	var ahead *ahead
	onItsWay := before.known && isTransit(before.Entry)
	if before.known && before.Exists() {
		if onItsWay {
			before.Key = orderedKey(before.Key, before.Rev) // it has been in transit for longer than this one
		}
		also = append(also, clientv3.OpGet(before.Key))
		ahead = s.watches.ahead(orderedKey(e.Key, e.Rev), before.Key)
		defer ahead.end()
	}
	done, rev, found, err := s.toOrder(ctx, *e, also...)
	switch {
	case err != nil && is(err, rpctypes.ErrLeaseNotFound):
		return s.LostBy(errExpired)
	case err != nil:
		return fmt.Errorf("enqueued, but not in its place: %w", err)
	}
	out.rev = rev
	if !done {
		return nil // somebody has deleted it, as if right after this
	}
	e.Key = orderedKey(e.Key, e.Rev)
	if !before.known || found == nil {
		return nil
	}
	now := before.Entry
	if before.Exists() {
		now = toEntry(before.Key, one(found[0]))
	}
	if now.Rev != before.Rev && onItsWay { // by now it may have arrived
		if both, later, err := s.read(ctx, []string{e.Key, before.Key}); err == nil && both[0].Rev == e.Rev { // else other calls tell
			now, rev = both[1], later
		}
	}
	if now.Rev == before.Rev {
		s.learned.stood.Store(&standing{own: *e, before: now, rev: rev})
		ahead.keep(*e, now, rev)
	}
	return nil
}

// toOrder gives an entry in transit the ordered form of its key. It may be done several times, and by
// several sessions. done reports that the entry has that form now; found is what the gets in also,
// which is done with it, found, if this call has done it.
func (s *session) toOrder(ctx context.Context, e backend.Entry, also ...clientv3.Op) (done bool, rev int64, found [][]*mvccpb.KeyValue, err error) {
	ordered := orderedKey(e.Key, e.Rev)
	n, _ := parseName(e.Key)
	p := &plan{
		cmps: incarnation(e), reads: []string{ordered}, size: 4*len(ordered) + len(e.Value) + 6*opOverhead,
		then: append([]clientv3.Op{clientv3.OpPut(ordered, string(e.Value), clientv3.WithLease(n.lease)), clientv3.OpDelete(e.Key)}, also...),
	}
	gets := []clientv3.Op{clientv3.OpGet(ordered, clientv3.WithKeysOnly())}
	answer, err := try(ctx, s, togetherFirst( // the entry has its ticket already
		func(ctx context.Context) (*clientv3.TxnResponse, error) { return s.writeTogether(ctx, p, gets) },
		func(ctx context.Context) (*clientv3.TxnResponse, error) { return s.write(ctx, p, gets) },
	))
	if err != nil {
		return false, 0, nil, err
	}
	s.saw(answer.Header.Revision)
	found = ranges(answer)
	if !answer.Succeeded {
		return one(found[0]) != nil, answer.Header.Revision, nil, nil
	}
	if n.lease == s.lease {
		s.wrote(lastWrite{key: ordered, rev: answer.Header.Revision, lease: s.lease})
	}
	return true, answer.Header.Revision, found, nil
}

// help does the second step for another session's entry. It returns false if that is not permitted.
func (s *session) help(ctx context.Context, e backend.Entry) (bool, error) {
	n, _ := parseName(e.Key)
	fence := queueFence(backend.Parent(e.Key), formatSession(n.lease)) // against a second copy of the attempt: see arrivedTwice
	_, _, _, err := s.toOrder(ctx, e, clientv3.OpPut(fence, "", clientv3.WithLease(n.lease)))
	switch {
	case errors.Is(err, backend.ErrDenied):
		return false, nil
	case err != nil && is(err, rpctypes.ErrLeaseNotFound):
		err = nil // it goes with its session
	}
	return true, err
}

// helpAt is help for an entry of which only the key is known.
func (s *session) helpAt(ctx context.Context, key string) (bool, error) {
	found, _, err := s.snapshot(ctx, clientv3.OpGet(key))
	if err != nil || len(found[0]) == 0 {
		return true, err
	}
	return s.help(ctx, toEntry(key, found[0][0]))
}

// isTransit reports whether an entry is in transit.
func isTransit(e backend.Entry) bool {
	n, ok := parseName(e.Key)
	return ok && n.transit
}

// outcome is what a commit that was done has made.
type outcome struct {
	rev    int64
	made   []backend.Entry
	before []before // by op
}

// before is the entry before an enqueued one, if any; it may be in transit.
type before struct {
	backend.Entry
	known bool
}

// made reads the outcome from the reply.
func (p *plan) made(answer *clientv3.TxnResponse) outcome {
	c := p.c
	out := outcome{rev: answer.Header.Revision, made: make([]backend.Entry, len(c.ops)), before: make([]before, len(c.ops))}
	for i, op := range c.ops {
		e := backend.Entry{Key: c.keys[i], Value: op.Value, Rev: uint64(out.rev), Version: 1}
		switch {
		case op.Kind == backend.OpDelete:
			e = backend.Entry{Key: op.Key}
		case op.Ephemeral():
			e.Session = c.s.ID()
		case op.Kind == backend.OpUpdate, op.Version > 0:
			was := toEntry(op.Key, answer.Responses[p.at[i]].GetResponsePut().GetPrevKv())
			e.Rev, e.Version, e.Session = was.Rev, was.Version+1, was.Session
		}
		if op.Kind == backend.OpEnqueue {
			if !answer.Responses[p.at[i]].GetResponseTxn().GetSucceeded() {
				e.Key += transitSuffix
			}
			ordered := answer.Responses[p.at[i]-2].GetResponseRange().GetKvs()
			firsts := answer.Responses[p.at[i]-1].GetResponseRange().GetKvs()
			last, known := newQueueEnd(op.Key, maxTicket, "").last(ordered, firsts)
			out.before[i] = before{last, known}
		}
		out.made[i] = e
	}
	return out
}
