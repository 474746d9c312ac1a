package memory

import (
	"fmt"
	"iter"

	"github.com/elector-go/elector/backend"
)

// A tree is all entries of a service at one moment.
type tree struct {
	nodes    map[string]*node
	root     *node
	listGone uint64 // revision of the last removal of an entry, which may have been a directory
}

// clone returns a copy of the entries.
func (t *tree) clone() *tree {
	c := &tree{nodes: make(map[string]*node, len(t.nodes)), listGone: t.listGone}
	c.root = c.copy(t.root, nil)
	return c
}

// copy copies an entry of another tree, and all below it.
func (t *tree) copy(from, parent *node) *node {
	n := &node{entry: from.entry, owner: from.owner, queued: from.queued, parent: parent}
	if parent != nil {
		t.nodes[n.entry.Key] = n
		n.siblings().add(&n.sibling, n)
	}
	if from.dir != nil {
		n.dir = &dir{n: from.dir.n, rev: from.dir.rev, keys: from.dir.keys}
		for child := range from.dir.children() {
			t.copy(child, n)
		}
	}
	return n
}

// A node is what the service has under one key: an entry, or only waiters for one (Rev is zero).
type node struct {
	entry  backend.Entry
	owner  *session // nil: persistent
	queued bool
	parent *node

	sibling place[node] // among those of the same sort; enqueued ones by age
	owned   place[node] // among the entries of the same session
	dir     *dir        // nil until needed: most nodes are leaves
	watches list[watch]
}

// A dir is what a node has as a directory.
type dir struct {
	queue, others list[node]
	n             int      // children in all
	rev           uint64   // of the last change to queue
	keys          []string // of queue, if it was listed since; immutable
	numbered      bool     // left applies
	left          int      // how many more can be enqueued, if they are numbered
	watches       list[watch]
}

// children yields the enqueued children, then the others. d may be nil.
func (d *dir) children() iter.Seq[*node] {
	return func(yield func(*node) bool) {
		if d == nil {
			return
		}
		for _, sort := range []*list[node]{&d.queue, &d.others} {
			for child := range sort.all() {
				if !yield(child) {
					return
				}
			}
		}
	}
}

func (n *node) asDir() *dir {
	if n.dir == nil {
		n.dir = &dir{}
	}
	return n.dir
}

// siblings returns the children of the same directory and the same sort.
func (n *node) siblings() *list[node] {
	if n.queued {
		return &n.parent.asDir().queue
	}
	return &n.parent.asDir().others
}

// node returns the node under key, and makes it if necessary.
func (s *Service) node(key string) *node {
	if key == "/" {
		return s.root
	}
	n := s.nodes[key]
	if n == nil {
		n = &node{entry: backend.Entry{Key: key}}
		s.nodes[key] = n
	}
	return n
}

// dir returns the directory under key, or nil.
func (t *tree) dir(key string) *dir {
	if key == "/" {
		return t.root.dir
	}
	if n := t.nodes[key]; n != nil {
		return n.dir
	}
	return nil
}

// lookup returns the entry under key; its Rev is zero if there is none.
func (t *tree) lookup(key string) backend.Entry {
	if n := t.nodes[key]; n != nil {
		return n.entry
	}
	return backend.Entry{Key: key}
}

// forget drops a node that has no use any more.
func (s *Service) forget(n *node) {
	if n == s.root || n.entry.Exists() || n.watches.first != nil {
		return
	}
	if n.dir != nil && (n.dir.watches.first != nil || n.dir.n > 0) {
		return
	}
	delete(s.nodes, n.entry.Key)
}

// nextKey returns the key of the next entry that a session enqueues. It uses no name twice, and none that
// is taken.
func (s *Service) nextKey(dir string, from *session) (key string) {
	for key == "" || s.nodes[key] != nil {
		s.queued++
		key = fmt.Sprintf("%s/%s-%010d", dir, from.id, s.queued)
	}
	return key
}

// insert makes an entry at the revision of the current commit. Its parent exists and its key is free.
func (s *Service) insert(key string, value []byte, owner *session, queued bool) *node {
	n := s.node(key)
	n.entry.Value = append([]byte(nil), value...)
	n.entry.Rev, n.entry.Version = s.rev, 1
	n.owner, n.queued = owner, queued
	if owner != nil {
		n.entry.Session = owner.id
		owner.owned.add(&n.owned, n)
	}
	n.parent = s.node(backend.Parent(key))
	n.parent.asDir().n++
	n.siblings().add(&n.sibling, n)
	s.stats.Entries++
	if n.dir != nil { // somebody waits for a directory that did not exist
		n.dir.rev = s.rev
		s.wake(&n.dir.watches)
	}
	s.changed(n)
	return n
}

// persist writes a persistent entry and its missing ancestors.
func (s *Service) persist(key string, value []byte) *node {
	if n := s.node(key); n.entry.Exists() {
		s.write(n, value)
		return n
	}
	if parent := backend.Parent(key); parent != "/" && !s.lookup(parent).Exists() {
		s.persist(parent, nil)
	}
	return s.insert(key, value, nil, false)
}

func (s *Service) write(n *node, value []byte) {
	n.entry.Value = append([]byte(nil), value...)
	n.entry.Version++
	s.wake(&n.watches)
}

// remove removes an entry and all below it.
func (s *Service) remove(n *node) {
	if n.dir != nil {
		for n.dir.queue.first != nil {
			s.remove(n.dir.queue.first.of)
		}
		for n.dir.others.first != nil {
			s.remove(n.dir.others.first.of)
		}
		n.dir.numbered = false // a new directory under its name starts from scratch
	}
	s.listGone = s.rev
	n.siblings().remove(&n.sibling)
	s.changed(n)
	n.parent.dir.n--
	if n.owner != nil {
		n.owner.owned.remove(&n.owned)
	}
	n.entry = backend.Entry{Key: n.entry.Key}
	n.owner, n.parent, n.queued = nil, nil, false
	s.stats.Entries--
	s.forget(n)
}

// changed wakes the waiters for the entry n, which comes or goes, and for its directory if it is enqueued.
func (s *Service) changed(n *node) {
	s.wake(&n.watches)
	if n.queued {
		n.parent.dir.rev, n.parent.dir.keys = s.rev, nil
		s.wake(&n.parent.dir.watches)
	}
}

// A txn checks the ops of a commit one after the other, each against what the ones before it would leave,
// without changing anything.
type txn struct {
	svc      *Service
	staged   map[string]view
	children map[string]int // more, or fewer, than in the store
	taken    map[string]int // numbers of directories that have a limit
}

type view struct {
	rev, version uint64
	ephemeral    bool
}

func (t *txn) look(key string) view {
	if key == "/" {
		return view{rev: 1}
	}
	if v, ok := t.staged[key]; ok {
		return v
	}
	if n := t.svc.nodes[key]; n != nil {
		return view{n.entry.Rev, n.entry.Version, n.owner != nil}
	}
	return view{}
}

func (t *txn) stage(key string, v view) {
	if t.staged == nil {
		t.staged = make(map[string]view)
		t.children = make(map[string]int)
	}
	switch was := t.look(key); {
	case was.rev == 0 && v.rev != 0:
		t.children[backend.Parent(key)]++
	case was.rev != 0 && v.rev == 0:
		t.children[backend.Parent(key)]--
	}
	t.staged[key] = v
}

func (t *txn) mayHold(parent string) error {
	switch v := t.look(parent); {
	case v.rev == 0:
		return backend.ErrNoParent
	case v.ephemeral:
		return fmt.Errorf("%s is ephemeral and cannot have children: %w", parent, backend.ErrNoParent)
	}
	return nil
}

// numbers takes a number for an entry in a directory, and reports whether there was one left.
func (t *txn) numbers(key string) bool {
	n := t.svc.nodes[key]
	if n == nil || n.dir == nil || !n.dir.numbered || t.look(key).rev != n.entry.Rev {
		return true
	}
	if t.taken == nil {
		t.taken = make(map[string]int)
	}
	t.taken[key]++
	return t.taken[key] <= n.dir.left
}

func (t *txn) put(key string) error {
	parent := backend.Parent(key)
	if t.look(parent).rev == 0 {
		if err := t.put(parent); err != nil {
			return err
		}
	}
	if err := t.mayHold(parent); err != nil {
		return err
	}
	t.stage(key, view{rev: t.svc.rev + 1, version: 1})
	return nil
}

func (t *txn) check(op backend.Op) error {
	v := t.look(op.Key)
	switch op.Kind {
	case backend.OpCreateEphemeral:
		if err := t.mayHold(backend.Parent(op.Key)); err != nil {
			return err
		}
		if v.rev != 0 {
			return backend.ErrExists
		}
		t.stage(op.Key, view{rev: t.svc.rev + 1, version: 1, ephemeral: true})
	case backend.OpEnqueue:
		if err := t.mayHold(op.Key); err != nil {
			return err
		}
		if !t.numbers(op.Key) {
			return backend.ErrUsedUp
		}
		t.stage(op.Key, v)
		t.children[op.Key]++
	case backend.OpCompareAndSet:
		if v.version != op.Version {
			return fmt.Errorf("version is %d, not %d: %w", v.version, op.Version, backend.ErrConflict)
		}
		if v.rev == 0 {
			return t.put(op.Key)
		}
		v.version++
		t.stage(op.Key, v)
	case backend.OpUpdate:
		if v.rev == 0 || v.rev != op.Rev {
			return backend.ErrNoEntry
		}
		v.version++
		t.stage(op.Key, v)
	case backend.OpDelete:
		if v.rev == 0 || v.rev != op.Rev {
			return backend.ErrNoEntry
		}
		n := t.children[op.Key]
		if stored := t.svc.dir(op.Key); stored != nil {
			n += stored.n
		}
		if n > 0 {
			return fmt.Errorf("entry has %d children: %w", n, backend.ErrConflict)
		}
		t.stage(op.Key, view{})
	default:
		return fmt.Errorf("%v is no kind of op", op.Kind)
	}
	return nil
}

// commit applies ops for the session from if all conditions hold, and returns the entry that each leaves.
func (s *Service) commit(from *session, guards []backend.Condition, ops []backend.Op) ([]backend.Entry, string, error) {
	for _, g := range guards {
		if !g.Holds(s.lookup(g.Entry.Key)) {
			return nil, g.Entry.Key, backend.ErrCondition
		}
	}
	t := txn{svc: s}
	for _, op := range ops {
		if err := t.check(op); err != nil {
			return nil, op.Key, err
		}
	}
	s.rev++
	out := make([]backend.Entry, len(ops))
	for i, op := range ops {
		switch op.Kind {
		case backend.OpCreateEphemeral:
			out[i] = s.insert(op.Key, op.Value, from, false).entry
		case backend.OpEnqueue:
			if d := s.node(op.Key).asDir(); d.numbered {
				d.left--
			}
			key := s.nextKey(op.Key, from)
			out[i] = s.insert(key, op.Value, from, true).entry
		case backend.OpCompareAndSet:
			out[i] = s.persist(op.Key, op.Value).entry
		case backend.OpUpdate:
			n := s.nodes[op.Key]
			s.write(n, op.Value)
			out[i] = n.entry
		case backend.OpDelete:
			s.remove(s.nodes[op.Key])
			out[i] = backend.Entry{Key: op.Key}
		}
	}
	return out, "", nil
}
