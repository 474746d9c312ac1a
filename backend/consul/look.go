package consul

import (
	"context"
	"net/http"
	"slices"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
)

// look checks whether all that is waited for is still as it was last seen, and makes the watches read
// what is not again. It is the life sign of the blocking queries: a query may hang at a frozen server,
// while renewals go elsewhere, or to the server that leads since.
//
// It follows each renewal, and a renewal without it does not make a session Live. So a session is out of
// touch, or learns of a change in less than its TTL, no matter what hangs: DESIGN.md, "Looks", has the proof.
// With a check the renewals may be far apart, so there are looks without one, and it is twice the TTL.
//
// It costs a request per renewal, for any number of awaited entries, and no values: the servers compare
// the indexes of their last writes, and who holds an entry, as a restored service may give an index
// twice. Only for a directory the names come back.
//
// What the session may not compare is left out, which takes one more request: the servers then say only
// what that was. (To compare that there is no entry takes the right to write it.)
//
// The window moves only with a look: see beat. So if there is nothing to compare, as nothing is awaited
// or it must still be read, a consistent read of a slot is the look. A reply that only refuses a look,
// because rights are missing or there are too many requests, is no reason to suspend a session: the
// queries are at work.
func (r *registry) look(ctx context.Context) error {
	type query struct {
		watch *watch
		since uint64
		empty bool       // a listing without entries
		slot  slot       // instead of a watch
		op    *api.TxnOp // that compares an entry, or a slot
	}
	var keys, lists, stale []query
	var trees []*watch
	r.mu.Lock()
	for _, t := range r.watches {
		q := query{watch: t, since: t.since, empty: len(t.listing.Keys) == 0}
		switch {
		case t.tree && t.known:
			trees = append(trees, t)
		case t.tree, len(t.waiters) == 0, !t.unread() && (!t.running || t.since == 0):
		case !t.known: // another call has shown that it is out of date
			stale = append(stale, q)
		case t.list:
			lists = append(lists, q)
		default:
			for _, q.op = range unchanged(t.entry) {
				keys = append(keys, q)
			}
		}
	}
	r.mu.Unlock()
	written, all := r.s.slots.written()
	for _, t := range written {
		keys = append(keys, query{slot: t, op: &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVCheckIndex, Key: t.key, Index: t.index}}})
	}
	if len(keys)+len(lists)+len(trees) == 0 {
		keys = append(keys, query{op: &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: slotKey(r.s.ID(), 0)}}})
	}
	for len(keys) > 0 {
		chunk := keys[:min(len(keys), maxOps)]
		ops := make(api.TxnOps, len(chunk))
		for i, q := range chunk {
			ops[i] = q.op
		}
		response, err := r.s.txnRead(ctx, ops)
		if err != nil {
			if err = r.unseen(silent(ctx, err)); err != nil {
				return err
			}
			break
		}
		hidden := false
		for _, e := range response.Errors {
			switch at := e.OpIndex; {
			case at < 0, at >= len(chunk):
			case denied(e.What):
				chunk[at].op, hidden, all = nil, true, false
			case chunk[at].watch == nil:
				if r.s.slots.stands(chunk[at].slot) {
					return r.s.LostBy(r.s.whyGone(ctx))
				}
			default:
				stale = append(stale, chunk[at])
			}
		}
		if hidden { // nothing else was compared: ask again, without it
			keys = slices.DeleteFunc(keys, func(q query) bool { return q.op == nil })
			continue
		}
		keys = keys[len(chunk):]
	}
	if all && len(keys) == 0 {
		r.s.slots.find(written)
	}
	for _, q := range lists {
		names, index, err := r.s.b.kvKeys(r.s.b.client, path(q.watch.key)+"/", "", consistent(ctx))
		if err != nil {
			if err = r.unseen(silent(ctx, err)); err != nil {
				return err
			}
			break
		}
		// If nothing is there the index is that of all data.
		nothing := q.empty && !slices.ContainsFunc(names, func(name string) bool { return owner(name) != "" })
		if max(index, 1) != q.since && !nothing {
			stale = append(stale, q)
		}
	}
	for _, g := range trees {
		if err := r.lookAt(ctx, g); err != nil {
			return err
		}
	}
	if len(stale) == 0 {
		return nil
	}
	r.mu.Lock()
	hangs := false
	for _, q := range stale {
		if q.watch.unread() {
			q.watch.known = false
			r.ensure(q.watch)
		} else if q.watch.running && q.watch.since == q.since { // it was not answered meanwhile
			q.watch.known, q.watch.refused = false, bout{}
			if q.watch.crowded && q.watch.stop != nil {
				q.watch.stop()
			} else {
				hangs = true
			}
		}
	}
	r.mu.Unlock()
	if hangs {
		r.restart() // the others may hang, too
	}
	return nil
}

// unseen returns err if it means that nobody has looked; it logs a refusal and returns nil.
func (r *registry) unseen(err error) error {
	switch {
	case forbidden(err), code(err) == http.StatusTooManyRequests:
	default:
		return err
	}
	r.s.b.cfg.Logger.Debug("consul: what is waited for cannot be looked at", "session", r.s.ID(), "error", err)
	return nil
}

// unchanged returns the conditions that an entry, or its absence, is as it was.
func unchanged(e backend.Entry) api.TxnOps {
	if !e.Exists() {
		return api.TxnOps{{KV: &api.KVTxnOp{Verb: api.KVCheckNotExists, Key: path(e.Key)}}}
	}
	all := api.TxnOps{{KV: &api.KVTxnOp{Verb: api.KVCheckIndex, Key: path(e.Key), Index: indexOf(e)}}}
	if e.Session != "" {
		all = append(all, &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVCheckSession, Key: path(e.Key), Session: e.Session}})
	}
	return all
}
