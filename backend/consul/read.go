package consul

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
)

// consistent makes the leader verify that it still leads before it answers. Without that a leader that
// was just deposed may answer with old data.
func consistent(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx)
}

// errNoIndex is a reply that says that there is nothing, and that is not Consul's.
var errNoIndex = api.StatusError{Code: http.StatusNotFound, Body: "nothing, and no index of Consul's with it: no agent has answered"}

// vouched returns err, or errNoIndex if a reply shows nothing and Consul does not vouch for that: each
// of its replies to a query has an index, which is never 0, "not found" included
// (HTTPHandlers.setMeta). A proxy says "not found", too, when it has no route to an agent for a moment,
// and the client library treats that as Consul's word.
func vouched(nothing bool, meta *api.QueryMeta, err error) error {
	if err == nil && nothing && meta.LastIndex == 0 {
		return errNoIndex
	}
	return err
}

// unfiltered returns ErrDenied for a list from which Consul has left something out.
func unfiltered(prefix string, meta *api.QueryMeta) error {
	if meta.ResultsFilteredByACLs {
		return fmt.Errorf("%w: a list of %s leaves out what the client's token may not read", backend.ErrDenied, prefix)
	}
	return nil
}

// clientFor returns the client that makes a query.
func (b *Backend) clientFor(o *api.QueryOptions) *api.Client {
	if o.WaitIndex != 0 {
		return b.cfg.Watches
	}
	return b.client
}

// kvGet reads one of Consul's keys; nil means none. It asks once.
func (b *Backend) kvGet(name string, o *api.QueryOptions) (p *api.KVPair, index uint64, err error) {
	p, meta, err := b.clientFor(o).KV().Get(name, o)
	if err = vouched(p == nil, meta, err); err != nil {
		return nil, 0, err
	}
	return p, meta.LastIndex, nil
}

// kvList reads all keys that begin with prefix. It asks once.
func (b *Backend) kvList(prefix string, o *api.QueryOptions) (pairs api.KVPairs, index uint64, err error) {
	pairs, meta, err := b.clientFor(o).KV().List(prefix, o)
	if err = vouched(len(pairs) == 0, meta, err); err == nil {
		err = unfiltered(prefix, meta)
	}
	if err == nil && slices.Contains(pairs, nil) {
		err = errNull
	}
	if err != nil {
		return nil, 0, err
	}
	return pairs, meta.LastIndex, nil
}

// kvKeys reads the names of all keys that begin with prefix, up to the separator. It asks once, by a client. With a
// separator, names that the token may not read are left out: see Survey.
func (b *Backend) kvKeys(by *api.Client, prefix, separator string, o *api.QueryOptions) (names []string, index uint64, err error) {
	names, meta, err := by.KV().Keys(prefix, separator, o)
	err = vouched(len(names) == 0 || slices.Contains(names, ""), meta, err) // "" is null
	if err == nil && separator == "" {
		err = unfiltered(prefix, meta)
	}
	if err != nil {
		return nil, 0, err
	}
	return names, meta.LastIndex, nil
}

// Get implements backend.Driver.
func (s *session) Get(ctx context.Context, key string) (backend.Entry, error) {
	e, err := s.get(ctx, key)
	if err == nil && !e.Exists() {
		err = backend.ErrNoEntry
	}
	return e, err
}

// get reads the entry under a key, which may not exist.
func (s *session) get(ctx context.Context, key string) (backend.Entry, error) {
	p, err := s.pair(ctx, path(key))
	if err != nil {
		return backend.Entry{}, err
	}
	e := entryAt(key, p)
	s.note(e)
	return e, nil
}

// pair reads one of Consul's keys; nil means none.
func (s *session) pair(ctx context.Context, name string) (*api.KVPair, error) {
	return ride(ctx, s, func(ctx context.Context) (*api.KVPair, error) {
		p, index, err := s.b.kvGet(name, consistent(ctx))
		if err == nil {
			s.learned.saw(index)
		}
		return p, err
	})
}

// note notes what exists at one instant, for waits and later writes.
func (s *session) note(entries ...backend.Entry) {
	s.learned.note(entries...)
	s.watches.note(entries...)
}

// getAll reads several keys at one instant, in the order given. It takes one request for as many keys
// as a transaction may have.
func (s *session) getAll(ctx context.Context, keys []string) ([]backend.Entry, error) {
	if len(keys) > maxOps {
		return nil, fmt.Errorf("%w: %d entries, and a transaction of Consul has no more than %d operations", backend.ErrTooLarge, len(keys), maxOps)
	}
	ops := make(api.TxnOps, len(keys))
	for i, key := range keys {
		ops[i] = &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: path(key)}}
	}
	all, err := ride(ctx, s, func(ctx context.Context) ([]backend.Entry, error) {
		response, err := s.txnRead(ctx, ops)
		if err == nil {
			err = firstError(response)
		}
		if err != nil {
			return nil, err
		}
		all := make([]backend.Entry, len(keys))
		for i, key := range keys {
			if i >= len(response.Results) || response.Results[i].KV == nil || response.Results[i].KV.Key != path(key) {
				return nil, fmt.Errorf("%w: the answer leaves %s out, which the client's token may not read", backend.ErrDenied, key)
			}
			all[i] = entryAt(key, response.Results[i].KV)
		}
		return all, nil
	})
	if err == nil {
		s.note(all...)
	}
	return all, err
}

// txnRead runs a transaction that writes nothing. A rollback is a reply, too.
func (s *session) txnRead(ctx context.Context, ops api.TxnOps) (*api.TxnResponse, error) {
	_, response, _, err := s.b.client.Txn().Txn(ops, consistent(ctx))
	if err != nil {
		return nil, textError(err)
	}
	return whole(response)
}

// Replies that say nothing: one with a null that never is null, and one to a write that does not say
// whether it was done.
var (
	errNull = errors.New("an answer with null in it")
	errMute = errors.New("the answer to a write does not say whether it was done")
)

// whole returns errNull for a reply to a transaction that contains null.
func whole(r *api.TxnResponse) (*api.TxnResponse, error) {
	if slices.Contains(r.Results, nil) || slices.Contains(r.Errors, nil) {
		return nil, errNull
	}
	return r, nil
}

func firstError(r *api.TxnResponse) error {
	if len(r.Errors) == 0 {
		return nil
	}
	return refusal(r.Errors[0])
}

// refusal returns the error of the operation for which a transaction was rolled back.
func refusal(e *api.TxnError) error {
	err := errors.New(e.What)
	if denied(e.What) {
		return as(backend.ErrDenied, err)
	}
	return err
}

// List implements backend.Driver. The values of all keys below the directory come with it.
func (s *session) List(ctx context.Context, dir string) (backend.Listing, error) {
	_, l, err := s.list(ctx, dir)
	return l, err
}

func (s *session) list(ctx context.Context, dir string) ([]backend.Entry, backend.Listing, error) {
	var index uint64
	pairs, err := ride(ctx, s, func(ctx context.Context) (pairs api.KVPairs, err error) {
		pairs, index, err = s.b.kvList(path(dir)+"/", consistent(ctx))
		return pairs, err
	})
	if err != nil {
		return nil, backend.Listing{}, err
	}
	s.learned.saw(index)
	entries := enqueued(dir, pairs)
	s.note(entries...)
	return entries, listing(dir, entries, index), nil
}

// listing returns the listing of dir. Consul's index of it rises with each change of anything below.
func listing(dir string, entries []backend.Entry, index uint64) backend.Listing {
	l := backend.Listing{Dir: dir, Rev: index}
	for _, e := range entries {
		l.Keys = append(l.Keys, e.Key)
	}
	return l
}
