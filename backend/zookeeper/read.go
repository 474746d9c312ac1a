package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"math"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
)

// node is the server's data of one path.
type node struct {
	data []byte
	stat *zk.Stat
}

// entry returns the contract's view of a node.
func (s *session) entry(path string, n node) backend.Entry {
	e := backend.Entry{
		Key:     s.key(path),
		Value:   n.data,
		Rev:     uint64(n.stat.Czxid),
		Version: toVersion(n.stat.Version),
	}
	if !s.isLookalike(e.Key, n.stat) && held(n.stat) {
		e.Session = formatSession(n.stat.EphemeralOwner)
		if e.Session == s.ID() {
			s.learned.setOwn(e.Key, e.Rev, n.stat.Version)
		}
	}
	return e
}

// containerOwner is the owner that the server gives for a container node, which no session holds.
const containerOwner = math.MinInt64

// held reports whether a session holds a node.
func held(stat *zk.Stat) bool {
	return stat.EphemeralOwner != 0 && stat.EphemeralOwner != containerOwner
}

// isLookalike reports whether a node has the name of an enqueued entry but is none, because no session
// holds it: somebody else made it, and it may stay forever. The result is remembered.
func (s *session) isLookalike(key string, stat *zk.Stat) bool {
	if _, ok := nameOf(key); !ok || held(stat) {
		return false
	}
	s.learned.alike.Put(key, struct{}{})
	return true
}

// toVersion converts the server's version, which starts at 0, to the contract's, which starts at 1. The
// server's wraps below zero after 2^31 writes.
func toVersion(v int32) uint64 { return uint64(uint32(v)) + 1 }

// fromVersion is the reverse. It returns false for versions that the server cannot check for: its -1
// means any.
func fromVersion(v uint64) (int32, bool) {
	if v == 0 || v > 1<<32 {
		return 0, false
	}
	w := int32(uint32(v - 1))
	return w, w != -1
}

// get reads a node. The error is the client library's.
func (s *session) get(ctx context.Context, path string) (node, error) {
	return read(ctx, s, func() (node, error) {
		data, stat, err := s.conn.Get(path)
		return node{data, stat}, err
	})
}

// exists reads a node's Stat, or nil if there is no node. The error is the client library's.
func (s *session) exists(ctx context.Context, path string) (*zk.Stat, error) {
	return read(ctx, s, func() (*zk.Stat, error) {
		ok, stat, err := s.conn.Exists(path)
		if !ok {
			stat = nil
		}
		return stat, err
	})
}

// Get implements backend.Driver.
func (s *session) Get(ctx context.Context, key string) (backend.Entry, error) {
	n, err := s.get(ctx, s.path(key))
	if err != nil {
		return backend.Entry{}, readError(err)
	}
	return s.entry(s.path(key), n), nil
}

// Children implements backend.Driver. It gets the number of names from the server before it asks for
// them: a list that is too long would break the link.
func (s *session) Children(ctx context.Context, key string, most int) (keys []string, more bool, err error) {
	if key == "/" {
		key = ""
	}
	stat, err := s.exists(ctx, cmp.Or(s.path(key), "/"))
	if err != nil || stat == nil {
		return nil, false, readError(err)
	}
	if int(stat.NumChildren) > min(most, maxChildren) {
		return nil, true, nil
	}
	names, _, err := s.list(ctx, key)
	switch {
	case err != nil:
		return nil, false, readError(err)
	case len(names) > most: // the number has grown meanwhile
		return nil, true, nil
	}
	for _, name := range names {
		keys = append(keys, key+"/"+name)
	}
	return keys, false, nil
}

// List implements backend.Driver.
func (s *session) List(ctx context.Context, dir string) (backend.Listing, error) {
	children, rev, err := s.list(ctx, dir)
	if err != nil {
		return backend.Listing{}, readError(err)
	}
	return s.listing(dir, parseNames(children), rev), nil
}

// children is the server's reply about a node's children.
type children struct {
	names []string
	stat  *zk.Stat // of the node itself
}

// list reads the names of dir's children; "" is the root. A missing dir has none.
func (s *session) list(ctx context.Context, dir string) ([]string, uint64, error) {
	c, err := read(ctx, s, func() (children, error) {
		names, stat, err := s.conn.Children(cmp.Or(s.path(dir), "/"))
		return children{names, stat}, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	return c.names, listRev(c.stat), nil
}

// listRev identifies a listing: the zxid of the last change among the children. For a directory without
// any change yet it is that of its own creation. After the end of the numbers a creation does not show
// (the server notes both in one go, or neither): entries created then do not count, see names.go.
func listRev(stat *zk.Stat) uint64 { return uint64(max(stat.Pzxid, stat.Czxid)) }

// listing leaves out names that are known not to be a candidate's.
func (s *session) listing(dir string, names []name, rev uint64) backend.Listing {
	names = s.learned.candidates(dir, names)
	l := backend.Listing{Dir: dir, Rev: rev, Keys: make([]string, len(names))}
	for i, n := range names {
		l.Keys[i] = dir + "/" + n.text
	}
	return l
}
