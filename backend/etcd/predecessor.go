package etcd

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
)

// Predecessor implements backend.Driver. It takes no round trip right after Enqueue, which has already
// looked, and one later.
func (s *session) Predecessor(ctx context.Context, e backend.Entry) (backend.Entry, error) {
	if err := s.Over(ctx); err != nil {
		return backend.Entry{}, err
	}
	if _, ok := parseName(e.Key); !ok {
		return backend.Entry{}, fmt.Errorf("%w that was enqueued", backend.ErrNoEntry)
	}
	// What was read then stays valid while no caller has been given anything later.
	if st := s.learned.last(); st.own.Key == e.Key && st.own.Rev == e.Rev && s.shown.Load() <= st.rev {
		return st.before, nil
	}
	return s.predecessor(ctx, e)
}

func (s *session) predecessor(ctx context.Context, e backend.Entry) (backend.Entry, error) {
	q := newQueueEnd(backend.Parent(e.Key), e.Rev, e.Key)
	for {
		found, rev, err := s.snapshot(ctx, append(q.gets(), clientv3.OpGet(e.Key, withoutValue()...))...)
		if err != nil {
			return backend.Entry{}, err
		}
		if own := toEntry(e.Key, one(found[2])); own.Rev != e.Rev {
			s.shows(rev)
			return backend.Entry{}, fmt.Errorf("%w with revision %d", backend.ErrNoEntry, e.Rev)
		}
		before, ok := q.last(found[0], found[1])
		switch {
		case ok && !isTransit(before):
			s.shows(rev)
			return before, nil
		case ok:
			helped, err := s.help(ctx, before)
			if !helped { // wait until it is no longer there
				_, err = s.await(ctx, []backend.Entry{before}, []string{before.Key})
			}
			if err != nil {
				return backend.Entry{}, err
			}
		}
	}
}

// A queueEnd looks for the youngest entry in a directory with a ticket up to a given entry's. Foreign
// keys, among them fences, may be in the way. Each look begins at the start again and reads further: an
// entry that meanwhile comes into its place may come before the keys that were passed over.
type queueEnd struct {
	dir    string
	ticket uint64
	own    string // the key of the given entry, or ""
	limit  int64  // how many ordered keys to read; of the others, twice as many
}

func newQueueEnd(dir string, ticket uint64, own string) *queueEnd {
	return &queueEnd{dir: dir, ticket: ticket, own: own, limit: 1}
}

// gets returns the two reads to make.
func (q *queueEnd) gets() []clientv3.Op {
	_, end := queueRange(q.dir)
	from, first := orderedFrom(q.dir, q.ticket), q.dir+"/"+firstPrefix
	if n, _ := parseName(q.own); n.ordered {
		from = q.own + "\x00"
	}
	return []clientv3.Op{
		clientv3.OpGet(from, clientv3.WithRange(first), clientv3.WithLimit(q.limit)),
		// There are few of these: the entry enqueued when nobody was there, and those in transit.
		clientv3.OpGet(first, clientv3.WithRange(end), clientv3.WithMaxCreateRev(int64(q.ticket)),
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithLimit(2*q.limit)),
	}
}

// last returns the youngest entry, or the zero Entry, from what the gets found. It returns false if
// they must be made again, to look further.
func (q *queueEnd) last(ordered, firsts []*mvccpb.KeyValue) (backend.Entry, bool) {
	youngest, all := q.first(ordered, q.limit)
	other, allOther := q.first(firsts, 2*q.limit)
	if other.Rev > youngest.Rev {
		youngest = other
	}
	if all && allOther {
		return youngest, true
	}
	q.limit *= 4
	return youngest, false
}

// first returns the first entry that a get found, or the zero Entry. It returns false if there may be
// one after the keys that were read.
func (q *queueEnd) first(found []*mvccpb.KeyValue, limit int64) (backend.Entry, bool) {
	for _, kv := range found {
		if _, ok := ticketOf(kv); ok && parentIs(q.dir, kv) && string(kv.Key) != q.own {
			return toEntry(string(kv.Key), kv), true
		}
	}
	return backend.Entry{}, int64(len(found)) < limit
}
