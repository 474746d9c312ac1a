package etcd

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
)

const (
	// pageSize is how many keys Survey reads at once. It looks at up to as many, if the servers accept
	// that many in one transaction.
	pageSize = 100
	// maxPages bounds how often it reads.
	maxPages = 10
)

// Survey implements backend.Driver. It is one request, unless there are more than a hundred keys below
// key, or keys directly under it other than the known one. Of what is further below, each page passes
// over at least one directory.
func (s *session) Survey(ctx context.Context, key string, known func(backend.Entry) string) (backend.Entry, []string, error) {
	e, strangers, err := s.survey(ctx, key, known)
	if err != nil && (isForbidden(err) || errors.Is(err, backend.ErrTooLarge)) { // perhaps only what is below
		if e, err = s.Get(ctx, key); errors.Is(err, backend.ErrNoEntry) {
			e, err = backend.Entry{Key: key}, nil
		}
		return e, nil, err
	}
	return e, strangers, err
}

func (s *session) survey(ctx context.Context, key string, known func(backend.Entry) string) (e backend.Entry, strangers []string, err error) {
	prefix, own, others := key+"/", "", []string(nil)
	for from, page := prefix, 0; from != "" && page < maxPages; page++ {
		// Leases come with the values only: see withoutValue.
		gets := []clientv3.Op{clientv3.OpGet(from, clientv3.WithRange(key+"0"), clientv3.WithKeysOnly(), clientv3.WithLimit(pageSize))}
		if page == 0 {
			gets = append(gets, clientv3.OpGet(key))
		}
		found, rev, err := s.snapshot(ctx, gets...)
		if err != nil {
			return backend.Entry{}, nil, err
		}
		if page == 0 {
			s.shows(rev)
			e = toEntry(key, one(found[1]))
			own = known(e)
			if slices.ContainsFunc(found[0], func(kv *mvccpb.KeyValue) bool {
				_, queued := parseName(string(kv.Key))
				return queued && parentIs(own, kv)
			}) {
				s.learned.crowded.Store(&own)
			}
		}
		for _, kv := range found[0] {
			if bytes.IndexByte(kv.Key[len(prefix):], '/') >= 0 { // most are
				continue
			}
			if at := string(kv.Key); at != own && !isFence(at) {
				others = append(others, at)
			}
		}
		from = after(prefix, found[0])
	}
	strangers, err = s.leased(ctx, others[:min(len(others), pageSize, s.cfg.MaxOps)])
	return e, strangers, err
}

// after returns where the next page begins, past all keys below the directory at which this one has
// ended; "" if there is none.
func after(prefix string, page []*mvccpb.KeyValue) string {
	if len(page) < pageSize {
		return ""
	}
	last := string(page[len(page)-1].Key)
	if dir, _, below := strings.Cut(last[len(prefix):], "/"); below {
		return prefix + dir + "0"
	}
	return last + "\x00"
}

// leased returns those of the keys that have a lease.
func (s *session) leased(ctx context.Context, keys []string) (leased []string, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	gets := make([]clientv3.Op, len(keys))
	for i, key := range keys {
		gets[i] = clientv3.OpGet(key, withoutValue()...)
	}
	found, _, err := s.snapshot(ctx, gets...)
	if err != nil {
		return nil, err
	}
	for i, kvs := range found {
		if kv := one(kvs); kv != nil && kv.Lease != 0 {
			leased = append(leased, keys[i])
		}
	}
	return leased, nil
}
