package etcd

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
)

// snapshot does some gets at one revision.
func (s *session) snapshot(ctx context.Context, gets ...clientv3.Op) ([][]*mvccpb.KeyValue, int64, error) {
	answer, err := try(ctx, s, togetherFirst(
		func(ctx context.Context) (*clientv3.TxnResponse, error) { return s.readTogether(ctx, gets) },
		func(ctx context.Context) (*clientv3.TxnResponse, error) { return s.readAlone(ctx, gets) },
	))
	if err != nil {
		return nil, 0, err
	}
	s.saw(answer.Header.Revision)
	return ranges(answer), answer.Header.Revision, nil
}

// ranges returns what the gets of a transaction found, in their order.
func ranges(answer *clientv3.TxnResponse) [][]*mvccpb.KeyValue {
	var out [][]*mvccpb.KeyValue
	for _, r := range answer.Responses {
		if found := r.GetResponseRange(); found != nil {
			out = append(out, found.Kvs)
		}
	}
	return out
}

// withoutValue is for gets of all but the value. With servers of version 3.7, WithKeysOnly alone leaves
// out the lease, too; sorting by the value makes them read it.
func withoutValue() []clientv3.OpOption {
	return []clientv3.OpOption{clientv3.WithKeysOnly(), clientv3.WithSort(clientv3.SortByValue, clientv3.SortAscend)}
}

// one returns the only result of a get of one key, or nil.
func one(kvs []*mvccpb.KeyValue) *mvccpb.KeyValue {
	if len(kvs) == 0 {
		return nil
	}
	return kvs[0]
}

// Get implements backend.Driver.
func (s *session) Get(ctx context.Context, key string) (backend.Entry, error) {
	answer, err := try(ctx, s, func(ctx context.Context) (*clientv3.GetResponse, error) { return s.getOnce(ctx, key) })
	if err != nil {
		return backend.Entry{}, err
	}
	s.saw(answer.Header.Revision)
	s.shows(answer.Header.Revision)
	e := toEntry(key, one(answer.Kvs))
	if !e.Exists() {
		return backend.Entry{}, backend.ErrNoEntry
	}
	return e, nil
}

// getOnce reads a key, and does not try again.
func (s *session) getOnce(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	answer, err := s.client.KV.Get(ctx, key, opts...)
	if err == nil {
		err = whole(answer.Header, 0, 0)
	}
	return answer, err
}

// Children implements backend.Driver. Each page passes over all keys below at least one child.
func (s *session) Children(ctx context.Context, key string, most int) (keys []string, more bool, err error) {
	prefix := strings.TrimSuffix(key, "/") + "/"
	end := strings.TrimSuffix(prefix, "/") + "0"
	for from := prefix; from != ""; {
		found, rev, err := s.snapshot(ctx, clientv3.OpGet(from, clientv3.WithRange(end), clientv3.WithKeysOnly(), clientv3.WithLimit(pageSize)))
		if err != nil {
			return nil, false, err
		}
		s.shows(rev)
		for _, kv := range found[0] {
			if isFence(string(kv.Key)) {
				continue
			}
			name, _, _ := strings.Cut(string(kv.Key)[len(prefix):], "/")
			switch child := prefix + name; {
			case len(keys) > 0 && keys[len(keys)-1] == child, slices.Contains(keys, child):
			case len(keys) == most:
				return keys, true, nil
			default:
				keys = append(keys, child)
			}
		}
		from = after(prefix, found[0])
	}
	return keys, false, nil
}

// List implements backend.Driver.
func (s *session) List(ctx context.Context, dir string) (backend.Listing, error) {
	l, _, err := s.list(ctx, dir)
	return l, err
}

// list returns the keys enqueued in dir, and the revision at which it read them.
func (s *session) list(ctx context.Context, dir string) (backend.Listing, int64, error) {
	key, end := queueRange(dir)
	found, rev, err := s.snapshot(ctx, clientv3.OpGet(key, append(withoutValue(), clientv3.WithRange(end))...))
	if err != nil {
		return backend.Listing{}, 0, err
	}
	s.shows(rev)
	type place struct {
		ticket uint64
		key    string
	}
	var queue []place
	for _, kv := range found[0] {
		ticket, ok := ticketOf(kv)
		if !ok || !parentIs(dir, kv) {
			continue
		}
		key := string(kv.Key)
		if isTransit(toEntry(key, kv)) {
			helped, err := s.helpAt(ctx, key)
			if err != nil {
				return backend.Listing{}, 0, err
			}
			if !helped { // it is listed when it has its final key
				continue
			}
			key = orderedKey(key, ticket)
		}
		queue = append(queue, place{ticket, key})
	}
	slices.SortFunc(queue, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.ticket, b.ticket), cmp.Compare(a.key, b.key))
	})
	l := backend.Listing{Dir: dir, Keys: make([]string, len(queue))}
	for i, p := range queue {
		l.Keys[i] = p.key
	}
	l.Rev = s.learned.listed(l, uint64(rev))
	return l, rev, nil
}

func parentIs(dir string, kv *mvccpb.KeyValue) bool { return backend.Parent(string(kv.Key)) == dir }
