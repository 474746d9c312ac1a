package consul

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
)

// maxLooks is how many keys Survey looks at.
const maxLooks = 100

// Survey implements backend.Driver. It reads the entry and the names under it by two concurrent
// requests. A third one follows if there are others than the known one. A key with keys below it is a
// directory and not looked at.
func (s *session) Survey(ctx context.Context, key string, known func(backend.Entry) string) (backend.Entry, []string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var names []string
	var unlisted error
	var listing sync.WaitGroup
	listing.Go(func() { names, unlisted = s.names(ctx, key) })
	e, err := s.get(ctx, key)
	if err != nil {
		cancel()
		listing.Wait()
		return backend.Entry{}, nil, err
	}
	own := known(e)
	listing.Wait()
	strangers, err := s.strangers(ctx, names, own)
	if err = errors.Join(unlisted, err); err != nil && !errors.Is(err, backend.ErrDenied) {
		return backend.Entry{}, nil, err
	}
	return e, strangers, nil
}

// Children implements backend.Driver. The names come all at once.
func (s *session) Children(ctx context.Context, key string, most int) (keys []string, more bool, err error) {
	names, err := s.names(ctx, key)
	if err != nil {
		return nil, false, err
	}
	for _, name := range names {
		keys = append(keys, "/"+strings.TrimSuffix(name, "/"))
	}
	slices.Sort(keys)
	keys = slices.Compact(keys) // an entry with others below it comes twice
	more = len(keys) > most
	return keys[:min(most, len(keys))], more, nil
}

// names returns Consul's names of what is directly under key; directories end with "/". It leaves a connection to
// the waits that follow, if it gets one for that.
func (s *session) names(ctx context.Context, key string) ([]string, error) {
	by := s.b.cfg.Watches
	return ride(ctx, s, func(ctx context.Context) ([]string, error) {
		names, _, err := s.b.kvKeys(by, strings.TrimPrefix(path(key)+"/", "/"), "/", consistent(ctx))
		if err != nil { // perhaps there was no connection: an agent refuses more, or the client's transport makes no more
			by = s.b.client
		}
		return names, err
	})
}

// strangers returns the keys that a session holds, or that have the flags of Consul's own locks:
// between two holders a lock's key has no session.
func (s *session) strangers(ctx context.Context, names []string, own string) (keys []string, err error) {
	dirs := make(map[string]bool)
	for _, name := range names {
		if dir, ok := strings.CutSuffix(name, "/"); ok {
			dirs[dir] = true
		}
	}
	var ops api.TxnOps
	for _, name := range names {
		if "/"+name != own && !strings.HasSuffix(name, "/") && !dirs[name] && len(ops) < maxLooks {
			ops = append(ops, &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: name}})
		}
	}
	if len(ops) == 0 {
		return nil, nil
	}
	response, err := ride(ctx, s, func(ctx context.Context) (*api.TxnResponse, error) { return s.txnRead(ctx, ops) })
	if err == nil {
		err = firstError(response)
	}
	if err != nil {
		return nil, err
	}
	for _, r := range response.Results {
		if r.KV != nil && (r.KV.Session != "" || r.KV.Flags == api.LockFlagValue || r.KV.Flags == api.SemaphoreFlagValue) {
			keys = append(keys, "/"+r.KV.Key)
		}
	}
	return keys, nil
}
