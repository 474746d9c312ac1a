package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
)

// A multi is a commit compiled to the requests of one transaction.
//
// Guards come first. An enqueued entry's path is never used twice, so that a check of
// its existence names the incarnation. An exclusive entry's path is used again, and
// the server can check versions only, which begin anew with each incarnation; so each
// Create also writes to the parent, whose version then counts the creations: while
// it stands, the entry there is the one it was. Persistent entries are told by their
// version.
//
// The creation revision is the transaction's zxid. The client library tells it
// only in the Stat of a setData; where there is none, a node is made, written and
// deleted within the same transaction.
type multi struct {
	requests []any
	refs     []ref
	stat     int             // a request whose Stat tells the zxid, or -1
	bumped   map[string]bool // parents that are written to
	fresh    map[string]bool // paths that are made here
	marked   map[int]bool    // ops whose parent gets this commit's mark
	written  map[string]bool // paths that an earlier op here writes to
}

type role uint8

const (
	roleMain  role = iota + 1 // what an op asked for
	roleGuard                 // a guard of the caller's
	roleProof                 // a version that was learned, and may be outdated
	roleBump                  // the write to a new entry's parent
	roleTemp                  // the node that tells the zxid
)

// ref tells what a request is for.
type ref struct {
	role role
	op   int    // index of the op, or -1
	key  string // whose proof it is made from, if any
	// guarded says that the request stands for a guard, too: it fails where the
	// guard would.
	guarded bool
}

// mark is what a Create leaves as its parent's data.
func mark(nonce string) []byte { return []byte(markPrefix + nonce) }

const markPrefix = "elector-create-"

// isMark tells whether a directory's data is nobody's value.
func isMark(data []byte) bool {
	rest, ok := strings.CutPrefix(string(data), markPrefix)
	return len(data) == 0 || ok && len(rest) == hexDigits && isHex(rest)
}

func (m *multi) add(request any, r ref) {
	m.requests = append(m.requests, request)
	m.refs = append(m.refs, r)
}

func (m *multi) check(path string, version int32, r ref) {
	m.add(&zk.CheckVersionRequest{Path: path, Version: version}, r)
}

// set adds a setData, which tells the zxid.
func (m *multi) set(path string, data []byte, version int32, r ref) {
	m.stat = len(m.requests)
	m.add(&zk.SetDataRequest{Path: path, Data: noNil(data), Version: version}, r)
}

// noNil keeps the client library from writing a null, which some tools choke on.
func noNil(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

// compile makes the multi. It reads where something has to be learned first.
func (c *commit) compile(ctx context.Context) (*multi, error) {
	s := c.s
	m := &multi{
		stat:    -1,
		bumped:  make(map[string]bool),
		fresh:   make(map[string]bool),
		marked:  make(map[int]bool),
		written: make(map[string]bool),
	}
	for _, g := range c.guards {
		if c.implied(g) >= 0 {
			continue
		}
		if err := c.guard(ctx, m, g); err != nil {
			return nil, err
		}
	}
	newest := -1 // an op that creates
	for i, op := range c.ops {
		path, main := s.path(op.Key), ref{role: roleMain, op: i}
		switch op.Kind {
		case backend.OpEnqueue:
			newest = i
			prefix := path + "/" + namePrefix(s.id, c.nonces[i])
			m.add(&zk.CreateRequest{Path: prefix, Data: noNil(op.Value), Acl: s.cfg.ACL, Flags: flagQueued}, main)
		case backend.OpCreate:
			newest = i
			m.add(&zk.CreateRequest{Path: path, Data: noNil(op.Value), Acl: s.cfg.ACL, Flags: flagEphemeral}, main)
			if err := c.bump(ctx, m, i); err != nil {
				return nil, err
			}
		case backend.OpPut:
			if op.Version == 0 {
				newest = i
				m.fresh[path] = true
				m.add(&zk.CreateRequest{Path: path, Data: noNil(op.Value), Acl: s.cfg.ACL}, main)
				continue
			}
			version, ok := fromVersion(op.Version)
			if !ok {
				return nil, fmt.Errorf("%w: version %d cannot be there", backend.ErrGuard, op.Version)
			}
			m.set(path, op.Value, version, main)
			m.written[path] = true
		case backend.OpSet, backend.OpDelete:
			main.guarded = slices.ContainsFunc(c.guards, func(g backend.Guard) bool { return c.implied(g) == i })
			version, err := c.prove(ctx, m, &main, backend.Entry{Key: op.Key, Rev: op.Rev})
			if main.guarded && errors.Is(err, backend.ErrNoEntry) {
				err = fmt.Errorf("%w: %w", backend.ErrGuard, err)
			}
			if err != nil {
				return nil, err
			}
			if m.written[path] {
				// The version has just changed; the earlier op has asked for it.
				version, main.key = anyVersion, ""
			}
			m.written[path] = true
			if op.Kind == backend.OpSet {
				m.set(path, op.Value, version, main)
			} else {
				m.add(&zk.DeleteRequest{Path: path, Version: version}, main)
			}
		}
	}
	if newest >= 0 && m.stat < 0 {
		c.temp(m, newest)
	}
	if size := m.size(); size > s.cfg.MaxRequest {
		return nil, fmt.Errorf("%w: a request of %d bytes is over the server's limit of %d (Config.MaxRequest)",
			backend.ErrBadKey, size, s.cfg.MaxRequest)
	}
	return m, nil
}

// temp adds a node that lives within the transaction, to learn the zxid. It is
// below a new persistent node, or beside a new ephemeral one, which cannot have
// children.
func (c *commit) temp(m *multi, op int) {
	path := c.s.path(c.ops[op].Key)
	if c.ops[op].Kind == backend.OpCreate {
		path = strings.TrimSuffix(backend.Parent(path), "/")
	}
	path += "/" + tempPrefix + c.nonces[op]
	r := ref{role: roleTemp, op: -1}
	m.add(&zk.CreateRequest{Path: path, Data: []byte{}, Acl: c.s.cfg.ACL}, r)
	m.set(path, []byte{}, anyVersion, r)
	m.add(&zk.DeleteRequest{Path: path, Version: anyVersion}, r)
}

// bump adds the write to the parent of a Create. A parent that has a value of its
// own keeps it. The server's root is never written to.
func (c *commit) bump(ctx context.Context, m *multi, i int) error {
	s := c.s
	parent := backend.Parent(s.path(c.ops[i].Key))
	r := ref{role: roleBump, op: i, key: c.ops[i].Key}
	switch {
	case parent == "/" || m.fresh[parent] || m.bumped[parent]:
		return nil
	case !s.memory.isDir(parent):
		n, err := s.get(ctx, parent)
		if errors.Is(err, zk.ErrNoNode) {
			return as(backend.ErrNoParent, err)
		}
		if err != nil {
			return readError(err)
		}
		if !isMark(n.data) {
			m.bumped[parent] = true
			m.set(parent, n.data, n.stat.Version, r)
			return nil
		}
		s.memory.setDir(parent, true)
	}
	m.bumped[parent], m.marked[i] = true, true
	m.set(parent, mark(c.nonces[i]), anyVersion, r)
	return nil
}

// implied returns the op that cannot be done unless the guard holds, or -1: a leader
// that deletes its own enqueued entry, or writes to it, needs no check of its
// existence besides. That is the handover, and one request alone is quicker than
// a multi: see commit.request.
func (c *commit) implied(g backend.Guard) int {
	if g.Exact || !g.Entry.Exists() || !isEnqueued(g.Entry.Key) {
		return -1
	}
	return slices.IndexFunc(c.ops, func(op backend.Op) bool {
		return (op.Kind == backend.OpSet || op.Kind == backend.OpDelete) &&
			op.Key == g.Entry.Key && op.Rev == g.Entry.Rev
	})
}

// guard adds the checks for one guard.
func (c *commit) guard(ctx context.Context, m *multi, g backend.Guard) error {
	e := g.Entry
	if !e.Exists() {
		return fmt.Errorf("%w: there is no entry in the guard for %s", backend.ErrGuard, e.Key)
	}
	path, hard := c.s.path(e.Key), ref{role: roleGuard, op: -1}
	if g.Exact {
		version, ok := fromVersion(e.Version)
		if !ok {
			return fmt.Errorf("%w: version %d cannot be there", backend.ErrGuard, e.Version)
		}
		m.check(path, version, hard)
		if e.Session == "" || isEnqueued(e.Key) {
			return nil
		}
	} else {
		m.check(path, anyVersion, hard)
		if isEnqueued(e.Key) {
			return nil
		}
	}
	var r ref
	version, err := c.prove(ctx, m, &r, e)
	if errors.Is(err, backend.ErrNoEntry) {
		return fmt.Errorf("%w: %w", backend.ErrGuard, err)
	}
	if err != nil {
		return err
	}
	if version != anyVersion {
		m.check(path, version, ref{role: roleProof, op: -1, key: r.key})
	}
	return nil
}

// prove adds what proves that e is the incarnation that stands under its key, and
// returns the version that the request on e itself has to ask for. r notes whose
// proof that is.
func (c *commit) prove(ctx context.Context, m *multi, r *ref, e backend.Entry) (int32, error) {
	if c.s.memory.isGone(e) {
		return 0, backend.ErrNoEntry
	}
	if isEnqueued(e.Key) {
		return anyVersion, nil
	}
	p, ok := c.s.memory.proof(e)
	if !ok {
		var err error
		if p, err = c.s.learn(ctx, e); err != nil {
			return 0, err
		}
		c.s.memory.setProof(e.Key, p)
	}
	if p.persistent || p.root {
		r.key = e.Key
		return p.version, nil
	}
	m.check(backend.Parent(c.s.path(e.Key)), p.version, ref{role: roleProof, op: -1, key: e.Key})
	return anyVersion, nil
}

// learn reads what proves an incarnation. The parent's version is read BEFORE the
// entry: whatever is created there after that reading changes the version, so that a
// commit that finds it unchanged finds the entry that was read.
func (s *session) learn(ctx context.Context, e backend.Entry) (proof, error) {
	path := s.path(e.Key)
	parent := backend.Parent(path)
	for attempt := 0; ; attempt++ {
		p := proof{rev: e.Rev, root: parent == "/"}
		if !p.root {
			stat, err := read(ctx, s, func() (*zk.Stat, error) {
				_, stat, err := s.conn.Exists(parent)
				return stat, err
			})
			if err != nil {
				return proof{}, readError(err)
			}
			p.version = stat.Version
		}
		n, err := s.get(ctx, path)
		switch {
		case err == nil && uint64(n.stat.Czxid) == e.Rev:
			if n.stat.EphemeralOwner == 0 {
				p.persistent = true
			}
			if p.persistent || p.root {
				p.version = n.stat.Version
			}
			return p, nil
		case err != nil && !errors.Is(err, zk.ErrNoNode):
			return proof{}, readError(err)
		case attempt > 0:
			s.memory.bury(e.Key, e.Rev)
			return proof{}, backend.ErrNoEntry
		}
		// A server that lags behind may not have it yet.
		if err := s.sync(ctx, path); err != nil {
			return proof{}, readError(err)
		}
	}
}

// sync has the server catch up with the leader.
func (s *session) sync(ctx context.Context, path string) error {
	_, err := read(ctx, s, func() (string, error) { return s.conn.Sync(path) })
	return err
}

// size is the length of the encoded request.
func (m *multi) size() int {
	const header = 4 + 1 + 4
	size := 8 + header
	for _, request := range m.requests {
		size += header
		switch r := request.(type) {
		case *zk.CreateRequest:
			size += 4 + len(r.Path) + 4 + len(r.Data) + 4 + 4
			for _, acl := range r.Acl {
				size += 4 + 4 + len(acl.Scheme) + 4 + len(acl.ID)
			}
		case *zk.SetDataRequest:
			size += 4 + len(r.Path) + 4 + len(r.Data) + 4
		case *zk.DeleteRequest:
			size += 4 + len(r.Path) + 4
		case *zk.CheckVersionRequest:
			size += 4 + len(r.Path) + 4
		}
	}
	return size
}
