package consul

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
)

// consistent has the leader make sure that it still is one before it answers. Without
// it one that was deposed a moment ago may answer with what was before.
func consistent(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx)
}

// Get implements backend.Session.
func (s *session) Get(ctx context.Context, key string) (backend.Entry, error) {
	if err := backend.CheckKey(key); err != nil {
		return backend.Entry{}, opError("get", key, err)
	}
	e, err := s.get(ctx, key)
	if err == nil && !e.Exists() {
		err = backend.ErrNoEntry
	}
	if err != nil {
		return backend.Entry{}, opError("get", key, err)
	}
	return e, nil
}

// get reads what stands under a key, which may be nothing.
func (s *session) get(ctx context.Context, key string) (backend.Entry, error) {
	p, err := s.pair(ctx, path(key))
	if err != nil {
		return backend.Entry{}, err
	}
	e := entryAt(key, p)
	s.note(e)
	return e, nil
}

// pair reads one of Consul's keys; nil is none.
func (s *session) pair(ctx context.Context, name string) (*api.KVPair, error) {
	return ride(ctx, s, func(ctx context.Context) (*api.KVPair, error) {
		p, meta, err := s.b.client.KV().Get(name, consistent(ctx))
		if err == nil {
			s.memory.saw(meta.LastIndex)
		}
		return p, err
	})
}

// note notes what stands at one moment, for what waits and what is to be written.
func (s *session) note(entries ...backend.Entry) {
	s.memory.note(entries...)
	s.watches.note(entries...)
}

// getAll reads what stands under several keys at one moment, in the order given. It
// takes one request for as many keys as a transaction may have.
func (s *session) getAll(ctx context.Context, keys []string) ([]backend.Entry, error) {
	if len(keys) > maxOps {
		return nil, fmt.Errorf("%w: %d entries, and a transaction of Consul has no more than %d operations", backend.ErrTooLarge, len(keys), maxOps)
	}
	ops := make(api.TxnOps, len(keys))
	for i, key := range keys {
		ops[i] = &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: path(key)}}
	}
	response, err := ride(ctx, s, func(ctx context.Context) (*api.TxnResponse, error) {
		return s.txnRead(ctx, ops)
	})
	if err != nil {
		return nil, err
	}
	if err := firstError(response); err != nil {
		return nil, err
	}
	all := make([]backend.Entry, len(keys))
	for i, key := range keys {
		if i >= len(response.Results) || response.Results[i].KV == nil || response.Results[i].KV.Key != path(key) {
			return nil, fmt.Errorf("%w: the answer leaves %s out, which the client's token may not read", backend.ErrDenied, key)
		}
		all[i] = entryAt(key, response.Results[i].KV)
	}
	s.note(all...)
	return all, nil
}

// txnRead runs a transaction that writes nothing. One that was rolled back is an
// answer, too.
func (s *session) txnRead(ctx context.Context, ops api.TxnOps) (*api.TxnResponse, error) {
	_, response, _, err := s.b.client.Txn().Txn(ops, consistent(ctx))
	if err != nil {
		return nil, textError(err)
	}
	return response, nil
}

func firstError(r *api.TxnResponse) error {
	if len(r.Errors) == 0 {
		return nil
	}
	return refusal(r.Errors[0])
}

// refusal is what a transaction says of an operation that it was rolled back for.
func refusal(e *api.TxnError) error {
	err := errors.New(e.What)
	if denied(e.What) {
		return as(backend.ErrDenied, err)
	}
	return err
}

// List implements backend.Session. The values of all that is below the directory come
// with it.
func (s *session) List(ctx context.Context, dir string) (backend.Listing, error) {
	if err := backend.CheckKey(dir); err != nil {
		return backend.Listing{}, opError("list", dir, err)
	}
	_, l, err := s.list(ctx, dir)
	return l, opError("list", dir, err)
}

func (s *session) list(ctx context.Context, dir string) ([]backend.Entry, backend.Listing, error) {
	type answer struct {
		pairs api.KVPairs
		index uint64
	}
	a, err := ride(ctx, s, func(ctx context.Context) (answer, error) {
		pairs, meta, err := s.b.client.KV().List(path(dir)+"/", consistent(ctx))
		if err != nil {
			return answer{}, err
		}
		return answer{pairs, meta.LastIndex}, nil
	})
	if err != nil {
		return nil, backend.Listing{}, err
	}
	s.memory.saw(a.index)
	entries := enqueued(dir, a.pairs)
	s.note(entries...)
	return entries, listing(dir, entries, a.index), nil
}

// listing is what stands in dir. Consul's index of it rises with each change of
// anything below.
func listing(dir string, entries []backend.Entry, index uint64) backend.Listing {
	l := backend.Listing{Dir: dir, Rev: index}
	for _, e := range entries {
		l.Keys = append(l.Keys, e.Key)
	}
	return l
}
