package consul

import (
	"context"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
)

// tailDir is where the tails of directories are.
const tailDir = slotDir + "tails/"

// tailKey returns Consul's key of a directory's tail. Each Enqueue writes the name of its entry into
// it, in the same transaction, which also returns what was there. So a new candidate learns who came
// last without a list of all: N candidates who enter do not read N² entries.
//
// The tail is a hint until it is confirmed: the entry that it names must have been made at the index at which
// the tail was last written. Then both are of one transaction, and no Enqueue came since. Else, as somebody has
// deleted, changed or restored the tail, the directory is listed.
//
// It belongs to no session, and goes when the directory is deleted.
func tailKey(dir string) string { return tailDir + path(dir) }

// tailOps read and write the tail of an entry's directory.
func tailOps(key string, nonce uint64) (read, write api.KVTxnOp) {
	dir := backend.Parent(key)
	name := strings.TrimPrefix(key, dir+"/")
	return api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: tailKey(dir)},
		api.KVTxnOp{Verb: api.KVSet, Key: tailKey(dir), Value: []byte(name), Flags: nonce}
}

// tails notes what a commit has read of tails.
func (c *commit) tails(r *api.TxnResponse) {
	for i, op := range c.ops {
		if op.Kind != backend.OpEnqueue {
			continue
		}
		for _, result := range r.Results {
			if result.KV == nil || result.KV.Key != tailKey(op.Key) {
				continue
			}
			if name := string(result.KV.Value); isEnqueued("/" + name) {
				c.s.learned.before.Put(c.name(i), ahead{keys: []string{op.Key + "/" + name}, tail: result.KV.ModifyIndex})
			}
			break // the rest is what this commit has written
		}
	}
}

// last returns the predecessor of an entry that was just enqueued: what the tail has named, if that is confirmed.
//
// In a small directory the list is as cheap, and also shows those before the predecessor: if that goes
// before it has led, no second list is needed.
func (s *session) last(ctx context.Context, e backend.Entry, before ahead) (backend.Entry, error) {
	if few, _ := s.learned.few.Get(backend.Parent(e.Key)); few {
		return s.listBefore(ctx, e)
	}
	seen, err := s.getAll(ctx, []string{e.Key, before.keys[0]})
	switch {
	case err != nil:
		return backend.Entry{}, err
	case seen[0].Rev != e.Rev:
		return backend.Entry{}, backend.ErrNoEntry
	case seen[1].Rev != before.tail: // gone, or not of the transaction that wrote the tail
		return s.listBefore(ctx, e)
	}
	s.learned.before.Put(e.Key, ahead{keys: before.keys})
	return seen[1], nil
}
