package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// A multi is a commit compiled to the requests of one transaction.
//
// Checks come first: the conditions, and the proofs of the incarnations that the ops apply to. An
// enqueued entry's path is never used twice, so a check of its existence identifies the incarnation; a
// check of its version, where that is known, identifies it no matter what others do (see
// commit.ownVersion). An exclusive entry's path is used again, and the server can check versions only,
// which start from scratch with each incarnation. So each CreateEphemeral also writes to the parent,
// whose version then counts the creations: while that version is unchanged, the entry is the same one.
// Persistent entries are identified by their version.
//
// The creation revision is the transaction's zxid. A create by itself tells it: see wire.Created. In a multi the
// client library reports it only in the Stat of a setData; if there is none, the same transaction creates, writes
// and deletes a node.
type multi struct {
	parts      []part
	conditions int // how many of parts are conditions
	stat       int // a part whose Stat has the zxid, or -1
	newest     int // an op that makes an entry, or -1

	guarded []int             // ops that also check a guard
	exact   map[int]int32     // those of them that check the version of an IfUnchanged
	bumped  map[string]string // parents that are written to, with the mark's nonce if there is a mark
	made    map[string]bool   // paths that an earlier op has made, or (false) deleted
	written map[string]bool   // paths whose version an earlier op has raised
}

// part is one request, and what it is for.
type part struct {
	request any
	ref     ref
}

type role uint8

const (
	roleMain  role = iota + 1 // what an op asked for
	roleGuard                 // a guard of the caller's
	roleProof                 // a version that was learned, and may be outdated
	roleOwn                   // the version of an own entry, which may be outdated
	roleDir                   // an ancestor that was missing at the last look
	roleBump                  // the write to a new entry's parent
	roleTemp                  // the node that reports the zxid
)

// ref says what a request is for.
type ref struct {
	role role
	op   int    // index of the op, or -1
	key  string // whose proof it is made from, if any
}

// about returns the node of the request, and the version that the request expects.
func (p part) about() (path string, version int32) {
	switch r := p.request.(type) {
	case *zk.CreateRequest:
		return r.Path, anyVersion
	case *zk.CheckVersionRequest:
		return r.Path, r.Version
	case *zk.SetDataRequest:
		return r.Path, r.Version
	case *zk.DeleteRequest:
		return r.Path, r.Version
	}
	return "", anyVersion
}

// mark returns what a CreateEphemeral writes to its parent.
func mark(nonce string) []byte { return []byte(markPrefix + nonce) }

const markPrefix = "elector-create-"

// isMark reports whether a directory's data is not a user's value.
func isMark(data []byte) bool {
	rest, ok := strings.CutPrefix(string(data), markPrefix)
	return len(data) == 0 || ok && len(rest) == hexDigits && driver.IsHex(rest)
}

func newMulti() *multi { return &multi{stat: -1, newest: -1} }

// note stores a value in a map, and creates the map first: most commits, and above all the resignation,
// need none.
func note[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[key] = value
}

// check adds a condition before all writes, because these would change what it checks.
func (m *multi) check(path string, version int32, r ref) {
	m.parts = slices.Insert(m.parts, m.conditions, part{&zk.CheckVersionRequest{Path: path, Version: version}, r})
	m.conditions++
	if m.stat >= 0 {
		m.stat++
	}
}

func (m *multi) requests() []any {
	all := make([]any, len(m.parts))
	for i, p := range m.parts {
		all[i] = p.request
	}
	return all
}

func (m *multi) write(request any, r ref) {
	m.parts = append(m.parts, part{request, r})
}

// set adds a setData, whose Stat has the zxid.
func (m *multi) set(path string, data []byte, version int32, r ref) {
	m.stat = len(m.parts)
	m.write(&zk.SetDataRequest{Path: path, Data: noNil(data), Version: version}, r)
}

// create adds a create. The server appends a sequence to the path of a queued one.
func (c *commit) create(m *multi, path string, data []byte, flags int32, r ref) {
	m.write(&zk.CreateRequest{Path: path, Data: noNil(data), Acl: c.s.cfg.ACL, Flags: flags}, r)
}

// noNil prevents the client library from writing a null, which breaks some tools.
func noNil(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

// compile makes the multi. It reads from the server what it must learn first.
func (c *commit) compile(ctx context.Context) (*multi, error) {
	m := newMulti()
	for _, g := range c.guards {
		if op := c.implied(m, g); op >= 0 {
			m.guarded = append(m.guarded, op)
			continue
		}
		if err := c.guard(ctx, m, g); err != nil {
			return nil, err
		}
	}
	for i := range c.ops {
		if err := c.op(ctx, m, i); err != nil {
			return nil, err
		}
	}
	switch {
	case m.newest < 0 || m.stat >= 0:
	case len(m.parts) == 1:
		m.stat = 0 // a create by itself tells the zxid
	default:
		c.temp(m)
	}
	if size := m.size(); size > c.s.cfg.MaxRequest {
		return nil, fmt.Errorf("%w: a request of %d bytes is over the server's limit of %d (Config.MaxRequest)",
			backend.ErrTooLarge, size, c.s.cfg.MaxRequest)
	}
	return m, nil
}

// op adds the requests of one op.
func (c *commit) op(ctx context.Context, m *multi, i int) error {
	s, op := c.s, c.ops[i]
	path, main := s.path(op.Key), ref{role: roleMain, op: i}
	switch op.Kind {
	case backend.OpEnqueue:
		m.newest = i
		c.create(m, path+"/"+namePrefix(s.ID(), c.nonces[i]), op.Value, flagQueued, main)
	case backend.OpCreateEphemeral:
		m.newest = i
		note(&m.made, path, true)
		c.create(m, path, op.Value, flagEphemeral, main)
		return c.bump(ctx, m, i)
	case backend.OpCompareAndSet:
		if op.Version == 0 {
			if err := c.ancestors(ctx, m, path); err != nil {
				return err
			}
			m.newest = i
			note(&m.made, path, true)
			c.create(m, path, op.Value, 0, main)
			return nil
		}
		version, ok := fromVersion(op.Version)
		if !ok {
			return fmt.Errorf("%w: version %d cannot be there", backend.ErrConflict, op.Version)
		}
		m.set(path, op.Value, version, main)
		note(&m.written, path, true)
		s.learned.setDir(path, false)
	case backend.OpUpdate, backend.OpDelete:
		return c.change(ctx, m, i)
	}
	return nil
}

// change adds an Update or a Delete.
func (c *commit) change(ctx context.Context, m *multi, i int) error {
	op := c.ops[i]
	path, main := c.s.path(op.Key), ref{role: roleMain, op: i}
	version, key, err := c.prove(ctx, m, op)
	if _, ok := m.made[path]; ok && err == nil {
		err = backend.ErrNoEntry // after an earlier op that has created or deleted it
	}
	if slices.Contains(m.guarded, i) {
		err = guardError(err)
	}
	switch {
	case err != nil:
		return err
	case m.written[path] && version != anyVersion:
		// An earlier op has raised the version by then.
		m.check(path, version, ref{role: roleProof, op: -1, key: key})
		version = anyVersion
	default:
		main.key = key
	}
	if exact, ok := m.exact[i]; ok {
		version, main.key = exact, "" // no later version will do
	}
	if op.Kind == backend.OpUpdate {
		m.set(path, op.Value, version, main)
		note(&m.written, path, true)
		c.s.learned.setDir(path, false)
	} else {
		m.write(&zk.DeleteRequest{Path: path, Version: version}, main)
		note(&m.made, path, false)
	}
	return nil
}

// ancestors adds creates of the missing ancestors of a CompareAndSet's path to the same transaction: if
// they were created before, a commit that is refused would leave them behind. It looks only if
// something is known or likely to be missing.
func (c *commit) ancestors(ctx context.Context, m *multi, path string) error {
	parent := backend.Parent(path)
	made, known := m.made[parent]
	if !c.deep || parent == "/" || made {
		return nil
	}
	if !known {
		stat, err := c.s.exists(ctx, parent)
		if err != nil || stat != nil {
			return readError(err)
		}
	}
	if err := c.ancestors(ctx, m, parent); err != nil {
		return err
	}
	note(&m.made, parent, true)
	c.create(m, parent, nil, 0, ref{role: roleDir, op: -1})
	return nil
}

// temp adds a node that exists only within the transaction, to learn the zxid. The node is below a new
// persistent node, or beside a new ephemeral one, which cannot have children.
func (c *commit) temp(m *multi) {
	op := c.ops[m.newest]
	path := c.s.path(op.Key)
	if op.Kind == backend.OpCreateEphemeral {
		path = strings.TrimSuffix(backend.Parent(path), "/")
	}
	path += "/" + tempPrefix + c.nonces[m.newest]
	r := ref{role: roleTemp, op: -1}
	c.create(m, path, nil, 0, r)
	m.set(path, nil, anyVersion, r)
	m.write(&zk.DeleteRequest{Path: path, Version: anyVersion}, r)
}

// bump adds the write to the parent of a CreateEphemeral. A parent that has a value of its own keeps
// it. No write is needed if the parent is new, or another op raises its version. The servers' root is
// never written.
func (c *commit) bump(ctx context.Context, m *multi, i int) error {
	s := c.s
	parent := backend.Parent(s.path(c.ops[i].Key))
	r := ref{role: roleBump, op: i, key: c.ops[i].Key}
	if _, ok := m.bumped[parent]; ok || parent == "/" || m.made[parent] || c.raised[parent] {
		return nil
	}
	note(&m.written, parent, true)
	if !s.learned.dirs.Has(parent) {
		n, err := s.get(ctx, parent)
		if errors.Is(err, zk.ErrNoNode) { // a server that lags behind may not have it yet
			if err := s.sync(ctx, parent); err != nil {
				return readError(err)
			}
			n, err = s.get(ctx, parent)
		}
		if errors.Is(err, zk.ErrNoNode) {
			return as(backend.ErrNoParent, err)
		}
		if err != nil {
			return readError(err)
		}
		if !isMark(n.data) {
			note(&m.bumped, parent, "")
			m.set(parent, n.data, n.stat.Version, r)
			return nil
		}
		s.learned.setDir(parent, true)
	}
	note(&m.bumped, parent, c.nonces[i])
	m.set(parent, mark(c.nonces[i]), anyVersion, r)
	return nil
}

// size returns the length of the encoded request.
func (m *multi) size() int {
	const header = 4 + 1 + 4
	size := 8 + header
	for _, p := range m.parts {
		path, _ := p.about()
		size += header + 4 + len(path) + 4 // the version, or a create's flags
		switch r := p.request.(type) {
		case *zk.CreateRequest:
			size += 4 + len(r.Data) + 4
			for _, acl := range r.Acl {
				size += 4 + 4 + len(acl.Scheme) + 4 + len(acl.ID)
			}
		case *zk.SetDataRequest:
			size += 4 + len(r.Data)
		}
	}
	return size
}
