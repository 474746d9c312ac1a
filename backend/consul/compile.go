package consul

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
)

const (
	// maxOps is how many operations Consul accepts in a transaction since 1.14.
	maxOps = 128
	// maxBytes is the longest request for a transaction (txn_max_req_len's default). Values in it are
	// base64.
	maxBytes = 512 << 10
)

// A plan is the transaction of one attempt: conditions on incarnations, which must come before any
// write, and then what each op needs, in order.
type plan struct {
	conditions, ops         api.TxnOps
	conditionRefs, opRefs   []ref
	shift                   int // the number of operations before the plan's
	was                     []backend.Entry
	proven, parents, absent map[string]bool
	touched                 map[string]touch
}

// touch is what an earlier op of the same commit has done to a key.
type touch uint8

const (
	wrote touch = iota + 1
	made
	removed
)

type role uint8

const (
	roleMain   role = iota + 1 // what an op requests
	roleGuard                  // a guard of the caller's
	roleEntry                  // the incarnation that an op concerns
	roleParent                 // the directory that an op needs
	roleDir                    // an ancestor that was missing when lookAbove read it
)

// ref says what an operation is for.
type ref struct {
	role role
	op   int    // the index of the op or, for a guard, of the guard
	key  string // of the entry that a condition concerns
	held bool   // the condition is on a learned index, which may be outdated
}

func (p *plan) all() api.TxnOps {
	return append(p.conditions[:len(p.conditions):len(p.conditions)], p.ops...)
}

func (p *plan) ref(i int) ref {
	if i -= p.shift; i < len(p.conditionRefs) {
		return p.conditionRefs[i]
	}
	return p.opRefs[i-len(p.conditionRefs)]
}

func (p *plan) condition(kv api.KVTxnOp, r ref) {
	p.conditions = append(p.conditions, &api.TxnOp{KV: &kv})
	p.conditionRefs = append(p.conditionRefs, r)
}

func (p *plan) add(kv api.KVTxnOp, r ref) {
	p.ops = append(p.ops, &api.TxnOp{KV: &kv})
	p.opRefs = append(p.opRefs, r)
}

// compile makes the plan. It reads what it must learn first.
func (c *commit) compile(ctx context.Context) (*plan, error) {
	p := &plan{
		was:     make([]backend.Entry, len(c.ops)),
		proven:  make(map[string]bool),
		parents: make(map[string]bool),
		touched: make(map[string]touch),
	}
	for i, g := range c.guards {
		if err := c.guard(ctx, p, g, i); err != nil {
			return nil, err
		}
	}
	if c.deep {
		if err := c.lookAbove(ctx, p); err != nil {
			return nil, err
		}
	}
	for i := range c.ops {
		if err := c.op(ctx, p, i); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// op adds the operations of one op.
func (c *commit) op(ctx context.Context, p *plan, i int) error {
	op := c.ops[i]
	main := ref{role: roleMain, op: i, key: op.Key}
	write := api.KVTxnOp{Key: path(op.Key), Value: op.Value, Flags: c.nonce}
	switch op.Kind {
	case backend.OpCreateEphemeral:
		p.parent(op.Key, i)
		p.add(api.KVTxnOp{Verb: api.KVCheckNotExists, Key: write.Key}, main)
		write.Verb, write.Session = api.KVLock, c.s.ID()
		p.add(write, main)
		p.touched[op.Key] = made
	case backend.OpEnqueue:
		key := c.name(i)
		p.parent(key, i)
		read, tail := tailOps(key, c.nonce)
		write.Verb, write.Key, write.Session = api.KVLock, path(key), c.s.ID()
		p.add(read, main)
		p.add(write, main)
		p.add(tail, main)
		p.touched[key] = made
	case backend.OpCompareAndSet:
		return c.put(ctx, p, i, write)
	case backend.OpUpdate, backend.OpDelete:
		return c.change(ctx, p, i, write)
	}
	return nil
}

// put adds a CompareAndSet: Consul's cas, where index 0 requires that there is no entry.
func (c *commit) put(ctx context.Context, p *plan, i int, write api.KVTxnOp) error {
	op := c.ops[i]
	write.Verb = api.KVCAS
	if op.Version == 0 {
		c.ancestors(p, i)
		p.parent(op.Key, i)
		p.touched[op.Key] = made
	} else {
		if p.touched[op.Key] != 0 {
			return fmt.Errorf("%w: an earlier op of the commit has written %s", backend.ErrConflict, op.Key)
		}
		e, ok := c.s.learned.entry(op.Key, 0)
		if !ok || e.Version != op.Version {
			var err error
			if e, err = c.s.get(ctx, op.Key); err != nil {
				return err
			}
		}
		if e.Version != op.Version {
			return fmt.Errorf("%w: version %d was expected, and there is %d", backend.ErrConflict, op.Version, e.Version)
		}
		p.was[i], write.Index = e, indexOf(e)
		p.touched[op.Key] = wrote
	}
	p.add(write, ref{role: roleMain, op: i, key: op.Key, held: op.Version != 0})
	return nil
}

// change adds an Update or a Delete.
func (c *commit) change(ctx context.Context, p *plan, i int, write api.KVTxnOp) error {
	op := c.ops[i]
	e := backend.Entry{Key: op.Key, Rev: op.Rev}
	if p.touched[op.Key] == made { // as the ancestor of an earlier op's entry
		return backend.ErrNoEntry
	}
	found, err := c.prove(ctx, p, e, ref{role: roleEntry, op: i, key: op.Key})
	if err != nil {
		return err
	}
	p.was[i] = found
	main := ref{role: roleMain, op: i, key: op.Key}
	if op.Kind == backend.OpUpdate {
		write.Verb = api.KVSet
		p.add(write, main)
		p.touched[op.Key] = wrote
		return nil
	}
	if found.Session == "" {
		if err := c.childless(ctx, p, op.Key); err != nil {
			return err
		}
	}
	p.add(api.KVTxnOp{Verb: api.KVDelete, Key: write.Key}, main)
	if found.Session == "" {
		p.add(api.KVTxnOp{Verb: api.KVDelete, Key: tailKey(op.Key)}, main)
	}
	p.touched[op.Key] = removed
	delete(p.parents, op.Key)
	return nil
}

// parent adds the condition that the directory of a new key exists. An ephemeral entry is no directory.
func (p *plan) parent(key string, op int) {
	dir := backend.Parent(key)
	if dir == "/" || p.parents[dir] {
		return
	}
	p.parents[dir] = true
	p.add(api.KVTxnOp{Verb: api.KVCheckSession, Key: path(dir)}, ref{role: roleParent, op: op, key: dir})
}

// lookAbove reads which ancestors of CompareAndSets are missing.
func (c *commit) lookAbove(ctx context.Context, p *plan) error {
	p.absent = make(map[string]bool)
	var keys []string
	for _, op := range c.ops {
		if op.Kind != backend.OpCompareAndSet || op.Version != 0 {
			continue
		}
		for dir := backend.Parent(op.Key); dir != "/" && !p.absent[dir]; dir = backend.Parent(dir) {
			p.absent[dir] = true
			keys = append(keys, dir)
		}
	}
	now, err := c.s.getAll(ctx, keys)
	for _, e := range now {
		p.absent[e.Key] = !e.Exists()
	}
	return err
}

// ancestors adds what is missing above a CompareAndSet, in the same transaction: if it were created
// before, a refused commit would leave it behind.
func (c *commit) ancestors(p *plan, i int) {
	var missing []string
	for dir := backend.Parent(c.ops[i].Key); dir != "/"; dir = backend.Parent(dir) {
		if t := p.touched[dir]; t == removed || t == 0 && p.absent[dir] {
			missing = append(missing, dir)
		}
	}
	if len(missing) > 0 { // what is above them must be a directory, too
		p.parent(missing[len(missing)-1], i)
	}
	for j := len(missing) - 1; j >= 0; j-- {
		p.add(api.KVTxnOp{Verb: api.KVCAS, Key: path(missing[j]), Flags: c.nonce}, ref{role: roleDir, op: i, key: missing[j]})
		p.touched[missing[j]] = made
	}
}

// childless checks that a directory is empty, except for what the commit itself deletes. Consul cannot
// make that a condition of the transaction: see the package's doc.
func (c *commit) childless(ctx context.Context, p *plan, key string) error {
	children, err := ride(ctx, c.s, func(ctx context.Context) ([]string, error) {
		keys, _, err := c.s.b.kvKeys(c.s.b.client, path(key)+"/", "", consistent(ctx))
		return keys, err
	})
	if err != nil {
		return err
	}
	for _, child := range children {
		if p.touched["/"+child] != removed {
			return fmt.Errorf("%w: it has children, such as %q", backend.ErrConflict, "/"+child)
		}
	}
	for child, t := range p.touched {
		if t == made && backend.Parent(child) == key {
			return fmt.Errorf("%w: the commit itself makes %s in it", backend.ErrConflict, child)
		}
	}
	return nil
}

// tooLarge returns ErrTooLarge if Consul does not accept the transaction.
func tooLarge(ops api.TxnOps) error {
	if len(ops) > maxOps {
		return fmt.Errorf("%w: %d operations are over Consul's limit of %d in a transaction; guards and what parents need count, too",
			backend.ErrTooLarge, len(ops), maxOps)
	}
	size := 0
	for _, op := range ops {
		size += len(op.KV.Key) + len(op.KV.Value)
	}
	if size < maxBytes/8 {
		return nil
	}
	body, err := json.Marshal(ops)
	if err != nil {
		return err
	}
	if len(body) > maxBytes {
		return fmt.Errorf("%w: a request of %d bytes is over Consul's limit of %d (txn_max_req_len), which is some %d bytes of values in base64",
			backend.ErrTooLarge, len(body), maxBytes, maxBytes/4*3)
	}
	return nil
}
