package etcd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
)

// A view is what existed at the instant at which an attempt was refused.
type view struct {
	entries  map[string]*mvccpb.KeyValue // nil: nothing
	children map[string][]string         // some of the keys below, by parent
}

// opOverhead is more than an operation or a condition takes in a request besides its key and value.
const opOverhead = 48

// A plan is one attempt's transaction.
type plan struct {
	c    *commit
	view *view

	cmps []clientv3.Cmp
	then []clientv3.Op
	at   []int // the index in then of the operation that does an op
	size int

	nested   int                // operations within an operation of then
	pinned   map[condition]bool // the conditions in cmps
	reads    []string           // keys to read if it is refused
	parents  []string           // keys to look below if it is refused
	state    map[string]int     // what earlier ops have left under a key
	children map[string]bool    // keys below which earlier ops have made something
}

const (
	untouched = iota
	madeDir
	madeEphemeral
	written
	deleted
)

// compile makes the transaction: each op as a write, and conditions for all that the ops and the guards
// need. The first attempt assumes what it needs and cannot know, such as the ancestors of a
// CompareAndSet. If it is refused, its reply shows what exists, and compile finds from that which guard
// or op to blame, each applied to what the ones before it leave. If it finds none, the next attempt
// makes what is missing.
func (c *commit) compile(fence string) (*plan, error) {
	p := &plan{
		c: c, view: c.view, at: make([]int, len(c.ops)), size: opOverhead,
		pinned: make(map[condition]bool), state: make(map[string]int), children: make(map[string]bool),
		then: make([]clientv3.Op, 0, 3*len(c.ops)), // an Op is large, and an Enqueue has three
	}
	for _, g := range c.guards {
		if err := p.guard(g); err != nil {
			return nil, err
		}
	}
	for i, op := range c.ops {
		if err := p.op(i, op); err != nil {
			return nil, err
		}
	}
	if fence != "" {
		p.need(clientv3.Compare(clientv3.ModRevision(fence), "<", c.began+1))
		if c.ops[c.witness()].Kind == backend.OpEnqueue {
			p.look(fence) // see arrivedTwice
		}
	}
	return p, p.fits()
}

func (p *plan) guard(g backend.Condition) error {
	e := g.Entry
	have, known := p.look(e.Key)
	if !e.Exists() || known && (!stands(e, have) || g.Exact && uint64(have.GetVersion()) != e.Version) {
		return fmt.Errorf("%s: %w", e.Key, backend.ErrCondition)
	}
	for _, cmp := range incarnation(e) {
		p.need(cmp)
	}
	if g.Exact {
		p.need(clientv3.Compare(clientv3.Version(e.Key), "=", int64(e.Version)))
	}
	return nil
}

func (p *plan) op(i int, op backend.Op) error {
	key, value := p.c.keys[i], string(op.Value)
	if p.state[key] != untouched { // a CompareAndSet before it has made this ancestor
		return p.onAncestor(op)
	}
	have, known := p.look(key)
	now := toEntry(key, have)
	lease := clientv3.WithLease(p.c.s.lease)
	if _, ok := parseName(key); ok && (op.Kind == backend.OpCreateEphemeral || op.Kind == backend.OpCompareAndSet) {
		return fmt.Errorf("%w: %s has the name of an enqueued entry, which no other key may have on etcd", backend.ErrBadKey, key)
	}
	switch op.Kind {
	case backend.OpCreateEphemeral:
		if err := p.holds(backend.Parent(key)); err != nil {
			return err
		}
		if known && now.Exists() {
			return fmt.Errorf("%s: %w", key, backend.ErrExists)
		}
		p.absent(key)
		p.put(i, madeEphemeral, key, value, lease)
	case backend.OpEnqueue:
		if err := p.holds(op.Key); err != nil {
			return err
		}
		transit := key + transitSuffix
		p.look(transit)
		p.absent(key) // else a second copy of the attempt would be done, too: see arrivedTwice
		p.absent(transit)
		p.then = append(p.then, newQueueEnd(op.Key, maxTicket, "").gets()...) // as it was before
		p.at[i] = len(p.then)
		put := clientv3.OpPut(transit, value, lease)
		if at := p.c.crowded; at == nil || *at != op.Key { // to look whether anybody is there the server reads all
			from, end := queueRange(op.Key)
			put = clientv3.OpTxn(
				[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(from), "=", 0).WithRange(end)},
				[]clientv3.Op{clientv3.OpPut(key, value, lease)},
				[]clientv3.Op{put})
		}
		p.then = append(p.then, put)
		p.size += 4*len(key) + 2*len(value) + 5*opOverhead
		p.nested = 1
		p.children[op.Key] = true
	case backend.OpCompareAndSet:
		if known && now.Version != op.Version {
			return fmt.Errorf("%s has version %d, not %d: %w", key, now.Version, op.Version, backend.ErrConflict)
		}
		if op.Version > 0 {
			p.need(clientv3.Compare(clientv3.Version(key), "=", int64(op.Version)))
			p.put(i, written, key, value, clientv3.WithIgnoreLease(), clientv3.WithPrevKV())
			return nil
		}
		if err := p.ancestors(backend.Parent(key)); err != nil {
			return err
		}
		p.absent(key)
		p.put(i, madeDir, key, value)
	case backend.OpUpdate, backend.OpDelete:
		e := backend.Entry{Key: key, Rev: op.Rev}
		if !e.Exists() || known && !stands(e, have) {
			return fmt.Errorf("%s with revision %d: %w", key, op.Rev, backend.ErrNoEntry)
		}
		for _, cmp := range incarnation(e) {
			p.need(cmp)
		}
		if op.Kind == backend.OpUpdate {
			p.put(i, written, key, value, clientv3.WithIgnoreLease(), clientv3.WithPrevKV())
			return nil
		}
		if err := p.childless(key); err != nil {
			return err
		}
		p.at[i], p.state[key] = len(p.then), deleted
		p.then = append(p.then, clientv3.OpDelete(key))
		p.size += len(key) + opOverhead
	}
	return nil
}

// onAncestor refuses an op on what a CompareAndSet before it makes. The one that could be done, which expects
// version 1, etcd cannot do: it writes to a key once in a transaction.
func (p *plan) onAncestor(op backend.Op) error {
	switch {
	case op.Kind == backend.OpCreateEphemeral:
		return fmt.Errorf("%s: %w", op.Key, backend.ErrExists)
	case op.Kind == backend.OpCompareAndSet && op.Version != 1:
		return fmt.Errorf("%s has version 1, not %d: %w", op.Key, op.Version, backend.ErrConflict)
	case op.Kind == backend.OpCompareAndSet:
		return fmt.Errorf("%s is written to twice in one commit: etcd does not do that", op.Key)
	}
	return fmt.Errorf("%s with revision %d: %w", op.Key, op.Rev, backend.ErrNoEntry)
}

// put adds the write of an op; i is -1 for an ancestor.
func (p *plan) put(i, state int, key, value string, opts ...clientv3.OpOption) {
	if i >= 0 {
		p.at[i] = len(p.then)
	}
	p.then = append(p.then, clientv3.OpPut(key, value, opts...))
	p.size += len(key) + len(value) + opOverhead
	p.state[key] = state
	if state == madeDir || state == madeEphemeral {
		p.children[backend.Parent(key)] = true
	}
}

// need adds a condition, once.
func (p *plan) need(cmp clientv3.Cmp) {
	c := cmp.GetCompare()
	id := condition{c.Target, c.Result, string(c.Key), string(c.RangeEnd), c.GetVersion() + c.GetCreateRevision() + c.GetModRevision() + c.GetLease()}
	if p.pinned[id] {
		return
	}
	p.pinned[id] = true
	p.cmps = append(p.cmps, cmp)
	p.size += len(c.Key) + len(c.RangeEnd) + opOverhead
}

// A condition is the content of a clientv3.Cmp.
type condition struct {
	target   pb.Compare_CompareTarget
	result   pb.Compare_CompareResult
	key, end string
	value    int64
}

func (p *plan) absent(key string) { p.need(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)) }

// look returns what existed under a key, if that is known, and otherwise adds the key to the reads.
func (p *plan) look(key string) (kv *mvccpb.KeyValue, known bool) {
	if !slices.Contains(p.reads, key) {
		p.reads = append(p.reads, key)
	}
	if p.view == nil {
		return nil, false
	}
	kv, known = p.view.entries[key]
	return kv, known
}

// holds adds the conditions for creating an entry in dir.
func (p *plan) holds(dir string) error {
	if dir == "/" || p.state[dir] == madeDir {
		return nil
	}
	have, known := p.look(dir)
	switch {
	case p.state[dir] == deleted, p.state[dir] == untouched && known && have == nil:
		return fmt.Errorf("%s: %w", dir, backend.ErrNoParent)
	case p.state[dir] == madeEphemeral, known && have.GetLease() != 0:
		return fmt.Errorf("%s is ephemeral and cannot have children: %w", dir, backend.ErrNoParent)
	}
	p.need(clientv3.Compare(clientv3.CreateRevision(dir), ">", 0))
	p.need(clientv3.Compare(clientv3.LeaseValue(dir), "=", 0))
	return nil
}

// ancestors creates what is known to be missing above a CompareAndSet's key.
func (p *plan) ancestors(dir string) error {
	if dir == "/" || p.state[dir] != untouched {
		return p.holds(dir)
	}
	if have, known := p.look(dir); known && have == nil {
		if err := p.ancestors(backend.Parent(dir)); err != nil {
			return err
		}
		p.absent(dir)
		p.put(-1, madeDir, dir, "")
		return nil
	}
	for above := backend.Parent(dir); above != "/"; above = backend.Parent(above) {
		p.look(above) // if dir is missing, they may be, too
	}
	return p.holds(dir)
}

// childless adds the conditions for deleting an entry: nothing is below it except what the commit has
// already deleted, and fences. Enqueued entries are never parents.
func (p *plan) childless(key string) error {
	if _, ok := parseName(key); ok {
		return nil
	}
	if p.children[key] {
		return fmt.Errorf("%s has children: %w", key, backend.ErrConflict)
	}
	from, end := key+"/", key+"0"
	p.parents = append(p.parents, key)
	var except []string
	for k, state := range p.state {
		if state == deleted && strings.HasPrefix(k, from) {
			except = append(except, k)
		}
	}
	if p.view != nil {
		for _, k := range p.view.children[key] {
			switch {
			case isFence(k):
				except = append(except, k)
			case p.state[k] != deleted:
				return fmt.Errorf("%s has children, such as %q: %w", key, k, backend.ErrConflict)
			}
		}
		if n := len(p.view.children[key]); n >= p.c.s.cfg.MaxOps { // there may be more
			return fmt.Errorf("%w: %d keys below %s would have to be told apart", backend.ErrTooLarge, n, key)
		}
	}
	slices.Sort(except)
	for _, k := range append(slices.Compact(except), end) {
		if from < k {
			p.need(clientv3.Compare(clientv3.CreateRevision(from), "=", 0).WithRange(k))
		}
		from = k + "\x00"
	}
	return nil
}

// gets returns the reads that show why the transaction was refused.
func (p *plan) gets() []clientv3.Op {
	gets := make([]clientv3.Op, 0, len(p.reads)+len(p.parents)) // an Op is large
	opts := withoutValue()
	for _, key := range p.reads {
		gets = append(gets, clientv3.OpGet(key, opts...))
	}
	for _, key := range p.parents {
		gets = append(gets, clientv3.OpGet(key+"/", clientv3.WithRange(key+"0"), clientv3.WithKeysOnly(), clientv3.WithLimit(int64(p.c.s.cfg.MaxOps))))
	}
	return gets
}

// seen returns what the reads found.
func (p *plan) seen(answer *clientv3.TxnResponse) *view {
	v := &view{entries: make(map[string]*mvccpb.KeyValue), children: make(map[string][]string)}
	if p.view != nil {
		maps.Copy(v.entries, p.view.entries)
	}
	found := ranges(answer)
	for i, key := range p.reads {
		v.entries[key] = one(found[i])
	}
	for i, key := range p.parents {
		for _, kv := range found[len(p.reads)+i] {
			v.children[key] = append(v.children[key], string(kv.Key))
		}
	}
	return v
}

// fits checks the limits of one transaction.
func (p *plan) fits() error {
	most := p.c.s.cfg
	for _, read := range p.reads {
		p.size += len(read) + opOverhead
	}
	for _, read := range p.parents {
		p.size += 2*len(read) + opOverhead
	}
	switch n := max(len(p.cmps), len(p.then), len(p.reads)+len(p.parents)) + p.nested; {
	case n > most.MaxOps:
		return fmt.Errorf("%w: %d operations or conditions, at most %d (Config.MaxOps, the servers' --max-txn-ops)",
			backend.ErrTooLarge, n, most.MaxOps)
	case p.size > most.MaxRequest:
		return fmt.Errorf("%w: %d bytes, at most %d (Config.MaxRequest, the servers' --max-request-bytes)",
			backend.ErrTooLarge, p.size, most.MaxRequest)
	}
	return nil
}
