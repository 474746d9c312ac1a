package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
)

const (
	flagEphemeral = zk.FlagEphemeral
	flagQueued    = zk.FlagEphemeral | zk.FlagSequence
	anyVersion    = -1
)

// A commit is one call of Commit: the same in all its attempts.
type commit struct {
	s      *session
	guards []backend.Guard
	ops    []backend.Op
	nonces []string // one per op: they tell this commit's entries from all others
}

// Commit implements backend.Session: one multi, in one round trip where nothing has
// to be learned first. See compile for its parts and resolve for lost replies.
func (s *session) Commit(ctx context.Context, guards []backend.Guard, ops ...backend.Op) ([]backend.Entry, error) {
	c := &commit{s: s, guards: guards, ops: ops, nonces: make([]string, len(ops))}
	label, err := c.check()
	if err != nil {
		return nil, opError("commit", label, err)
	}
	if len(guards)+len(ops) == 0 {
		return nil, nil
	}
	made, err := c.run(ctx)
	return made, opError("commit", label, err)
}

// check looks at what was given, and returns the key that stands for it in errors.
func (c *commit) check() (label string, err error) {
	for _, g := range c.guards {
		if label == "" {
			label = g.Entry.Key
		}
		if err := backend.CheckKey(g.Entry.Key); err != nil {
			return g.Entry.Key, err
		}
	}
	for i, op := range c.ops {
		if i == 0 {
			label = op.Key
		}
		if err := backend.CheckKey(op.Key); err != nil {
			return op.Key, err
		}
		if op.Kind < backend.OpCreate || op.Kind > backend.OpDelete {
			return op.Key, fmt.Errorf("unknown operation %v", op.Kind)
		}
		c.nonces[i] = newNonce()
	}
	return label, nil
}

// A flight is a multi on its way.
type flight struct {
	m       *multi
	done    chan struct{}
	results []zk.MultiResponse // to be read after done
	err     error
}

func (c *commit) send(m *multi) (*flight, error) {
	s := c.s
	if !s.begin() {
		return nil, s.lostError()
	}
	f := &flight{m: m, done: make(chan struct{})}
	go func() {
		defer s.calls.Done()
		f.results, f.err = s.request(m)
		close(f.done)
	}()
	return f, nil
}

// request sends a multi, or the one request in it by itself: the server does that
// in less time (a tenth of a handover).
func (s *session) request(m *multi) ([]zk.MultiResponse, error) {
	if len(m.requests) == 1 {
		switch r := m.requests[0].(type) {
		case *zk.DeleteRequest:
			err := s.conn.Delete(r.Path, r.Version)
			return []zk.MultiResponse{{Error: err}}, err
		case *zk.SetDataRequest:
			stat, err := s.conn.Set(r.Path, r.Data, r.Version)
			return []zk.MultiResponse{{Stat: stat, Error: err}}, err
		}
	}
	return s.conn.Multi(m.requests...)
}

// run tries until there is an outcome.
func (c *commit) run(ctx context.Context) ([]backend.Entry, error) {
	s := c.s
	for {
		gen, err := s.awaitLive(ctx, 0)
		if err != nil {
			return nil, err
		}
		m, err := c.compile(ctx)
		if err != nil {
			return nil, err
		}
		f, err := c.send(m)
		if err != nil {
			return nil, err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, c.abandon(f, gen, ended(ctx))
		case <-s.lost:
			return nil, c.abandon(f, gen, s.lostError())
		}
		switch {
		case f.err == nil:
			return c.made(f), nil
		case errors.Is(f.err, zk.ErrNoServer):
			// Never sent.
		case transient(f.err):
			made, applied, err := c.resolve(ctx, m, gen)
			switch {
			case err != nil && (ctx.Err() != nil || errors.Is(err, backend.ErrSessionLost)):
				return nil, c.abandon(f, gen, err)
			case err != nil || applied:
				return made, err
			}
		default:
			if err := c.refused(ctx, f); err != nil {
				return nil, err
			}
		}
	}
}

// abandon gives up on a multi that may yet be, or have been, applied. What it may
// have made and nobody knows of is removed in the background.
func (c *commit) abandon(f *flight, gen uint64, err error) error {
	ephemeral := slices.ContainsFunc(c.ops, func(op backend.Op) bool {
		return op.Kind == backend.OpCreate || op.Kind == backend.OpEnqueue
	})
	// The ephemeral entries of a lost session go with it.
	if ephemeral && !errors.Is(err, backend.ErrSessionLost) {
		c.s.reap(func(ctx context.Context) error { return c.undo(ctx, f, gen) })
	}
	return fmt.Errorf("%w: %w", backend.ErrIndeterminate, err)
}

// undo removes the ephemeral entries of an abandoned multi, once it is known
// whether there are any.
func (c *commit) undo(ctx context.Context, f *flight, gen uint64) error {
	select {
	case <-f.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	var made []backend.Entry
	switch {
	case f.err == nil:
		made = c.made(f)
	case transient(f.err) && !errors.Is(f.err, zk.ErrNoServer):
		resolved, applied, err := c.resolve(ctx, f.m, gen)
		if err != nil || !applied {
			return err
		}
		made = resolved
	}
	for _, e := range made {
		if e.Session == "" || !e.Exists() {
			continue
		}
		if err := c.s.drop(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// made is the outcome of a multi that was applied.
func (c *commit) made(f *flight) []backend.Entry {
	s, m := c.s, f.m
	entries := make([]backend.Entry, len(c.ops))
	var zxid uint64
	if m.stat >= 0 && m.stat < len(f.results) && f.results[m.stat].Stat != nil {
		zxid = uint64(f.results[m.stat].Stat.Mzxid)
	}
	for i, r := range f.results {
		if i >= len(m.refs) || m.refs[i].op < 0 {
			continue
		}
		ref := m.refs[i]
		op := c.ops[ref.op]
		e := backend.Entry{Key: op.Key, Value: op.Value}
		switch {
		case ref.role == roleBump:
			// The parent's version right after the creation is the proof that
			// nothing was created there since.
			if r.Stat != nil {
				s.memory.setProof(op.Key, proof{rev: uint64(r.Stat.Mzxid), version: r.Stat.Version})
			}
			continue
		case ref.role != roleMain:
			continue
		case op.Kind == backend.OpCreate || op.Kind == backend.OpEnqueue:
			e.Key, e.Rev, e.Version, e.Session = s.key(r.String), zxid, 1, s.id
		case op.Kind == backend.OpPut && op.Version == 0:
			e.Rev, e.Version = zxid, 1
			s.memory.setDir(s.path(op.Key), len(op.Value) == 0)
		case op.Kind == backend.OpPut || op.Kind == backend.OpSet:
			if r.Stat != nil {
				e = s.entry(s.path(op.Key), node{op.Value, r.Stat})
			}
			s.memory.setDir(s.path(op.Key), false)
		case op.Kind == backend.OpDelete:
			e = backend.Entry{Key: op.Key}
			s.memory.bury(op.Key, op.Rev)
		}
		entries[ref.op] = e
	}
	for i, op := range c.ops {
		if op.Kind == backend.OpCreate && m.fresh[backend.Parent(s.path(op.Key))] {
			s.memory.setProof(op.Key, proof{rev: entries[i].Rev, version: 0})
		} else if op.Kind == backend.OpCreate && backend.Parent(s.path(op.Key)) == "/" {
			s.memory.setProof(op.Key, proof{rev: entries[i].Rev, root: true})
		}
	}
	return entries
}

// refused takes the server's refusal of a multi: nothing of it was applied. It
// returns nil when the multi is worth another attempt, since what was wrong was
// ours: outdated knowledge, or missing ancestors that it made.
func (c *commit) refused(ctx context.Context, f *flight) error {
	s := c.s
	at := -1
	for i, r := range f.results {
		if r.Error != nil {
			at = i // those after it are said to be rolled back
			break
		}
	}
	err := f.err
	if at < 0 || at >= len(f.m.refs) {
		return readError(err)
	}
	err = f.results[at].Error
	if denied(err) {
		return as(backend.ErrDenied, err)
	}
	if errors.Is(err, zk.ErrBadArguments) || errors.Is(err, zk.ErrInvalidPath) {
		return as(backend.ErrBadKey, err) // a path that the server cannot store
	}
	ref := f.m.refs[at]
	noNode, badVersion := errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion)
	switch ref.role {
	case roleGuard:
		if noNode || badVersion {
			return as(backend.ErrGuard, err)
		}
	case roleProof:
		if noNode || badVersion {
			s.memory.forget(ref.key)
			return nil
		}
	case roleBump:
		s.memory.setDir(backend.Parent(s.path(ref.key)), false)
		if badVersion {
			return nil
		}
		if noNode {
			return as(backend.ErrNoParent, err)
		}
	case roleTemp:
		if noNode || errors.Is(err, zk.ErrNoChildrenForEphemerals) {
			return as(backend.ErrNoParent, err)
		}
	case roleMain:
		return c.refusedOp(ctx, c.ops[ref.op], ref, err)
	}
	return err
}

func (c *commit) refusedOp(ctx context.Context, op backend.Op, ref ref, err error) error {
	s := c.s
	noNode := errors.Is(err, zk.ErrNoNode)
	switch {
	case errors.Is(err, zk.ErrNoChildrenForEphemerals):
		return as(backend.ErrNoParent, err)
	case op.Kind == backend.OpCreate && errors.Is(err, zk.ErrNodeExists):
		return as(backend.ErrExists, err)
	case (op.Kind == backend.OpCreate || op.Kind == backend.OpEnqueue) && noNode:
		s.memory.setDir(backend.Parent(s.path(op.Key)), false)
		return as(backend.ErrNoParent, err)
	case op.Kind == backend.OpPut && op.Version == 0 && noNode:
		if err := s.makeDirs(ctx, backend.Parent(s.path(op.Key))); err != nil {
			return fmt.Errorf("make ancestors: %w", err)
		}
		return nil
	case op.Kind == backend.OpPut && (noNode || errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrBadVersion)):
		return as(backend.ErrGuard, err)
	case noNode:
		s.memory.bury(op.Key, op.Rev)
		if ref.guarded {
			return as(backend.ErrGuard, err)
		}
		return as(backend.ErrNoEntry, err)
	case errors.Is(err, zk.ErrBadVersion) && ref.key != "":
		s.memory.forget(ref.key)
		return nil
	case errors.Is(err, zk.ErrNotEmpty):
		return as(backend.ErrGuard, err)
	}
	return err
}

// Drop implements backend.Session.
func (s *session) Drop(ctx context.Context, e backend.Entry) error {
	if err := backend.CheckKey(e.Key); err != nil {
		return opError("drop", e.Key, err)
	}
	if !e.Exists() {
		return nil
	}
	if e.Session != s.id {
		return opError("drop", e.Key, fmt.Errorf("it is of session %q, not of this one (%s)", e.Session, s.id))
	}
	err := s.drop(ctx, e)
	if err != nil && ctx.Err() != nil && !errors.Is(err, backend.ErrSessionLost) {
		s.reap(func(ctx context.Context) error { return s.drop(ctx, e) })
		err = fmt.Errorf("not confirmed yet: %w", err)
	}
	return opError("drop", e.Key, err)
}

// drop deletes an incarnation and returns nil once it is known to be gone.
func (s *session) drop(ctx context.Context, e backend.Entry) error {
	c := &commit{s: s, ops: []backend.Op{backend.Delete(e)}, nonces: []string{""}}
	_, err := c.run(ctx)
	if errors.Is(err, backend.ErrNoEntry) {
		return nil
	}
	return err
}
