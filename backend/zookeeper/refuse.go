package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
)

// refused handles the server's refusal of a multi: nothing of it was applied. It returns nil if the
// multi deserves another attempt, because the error was ours: outdated knowledge, or missing ancestors,
// which it creates.
func (c *commit) refused(ctx context.Context, f *flight) error {
	s, at := c.s, f.refusedPart()
	if at < 0 || at >= len(f.m.parts) {
		return readError(f.err)
	}
	err, p := f.results[at].Error, f.m.parts[at]
	path, version := p.about()
	if denied(err) {
		return fmt.Errorf("%s: %w", path, as(backend.ErrDenied, s.explain(err)))
	}
	if why := mean(err).Sentinel; why == errors.ErrUnsupported {
		return as(why, err)
	}
	if errors.Is(err, zk.ErrBadArguments) || errors.Is(err, zk.ErrInvalidPath) {
		return as(backend.ErrBadKey, err) // a path that the server cannot store
	}
	ref := p.ref
	noNode, badVersion := errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion)
	switch ref.role {
	case roleGuard:
		if noNode || badVersion {
			return as(backend.ErrCondition, err)
		}
	case roleOwn:
		if noNode {
			return as(backend.ErrCondition, err)
		}
		if badVersion {
			s.learned.outdate(ref.key, version)
			return nil
		}
	case roleProof:
		if noNode || badVersion {
			s.learned.forget(ref.key)
			s.learned.outdate(ref.key, version)
			return nil
		}
	case roleBump:
		s.learned.setDir(backend.Parent(s.path(ref.key)), false)
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
	case roleDir:
		if noNode || errors.Is(err, zk.ErrNodeExists) {
			return readError(s.sync(ctx, "/")) // somebody has created or deleted some of them
		}
		if errors.Is(err, zk.ErrNoChildrenForEphemerals) {
			return as(backend.ErrNoParent, err)
		}
	case roleMain:
		return c.refusedOp(ctx, f.m, p, err)
	}
	return err
}

func (c *commit) refusedOp(ctx context.Context, m *multi, p part, err error) error {
	s, ref, op := c.s, p.ref, c.ops[p.ref.op]
	noNode := errors.Is(err, zk.ErrNoNode)
	_, exact := m.exact[ref.op]
	switch {
	case errors.Is(err, zk.ErrNoChildrenForEphemerals):
		return as(backend.ErrNoParent, err)
	case op.Kind == backend.OpCreateEphemeral && errors.Is(err, zk.ErrNodeExists):
		return as(backend.ErrExists, err)
	case op.Ephemeral() && noNode:
		s.learned.setDir(backend.Parent(s.path(op.Key)), false)
		return as(backend.ErrNoParent, err)
	case op.Kind == backend.OpCompareAndSet && op.Version == 0 && noNode:
		if !c.deep {
			c.deep = true
			return nil
		}
		return readError(s.sync(ctx, "/")) // it was said to exist
	case op.Kind == backend.OpCompareAndSet && (noNode || errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrBadVersion)):
		return as(backend.ErrConflict, err)
	case noNode:
		s.buried(op.Key, op.Rev)
		if slices.Contains(m.guarded, ref.op) {
			return as(backend.ErrCondition, err)
		}
		return as(backend.ErrNoEntry, err)
	case errors.Is(err, zk.ErrBadVersion) && exact:
		return as(backend.ErrCondition, err)
	case errors.Is(err, zk.ErrBadVersion) && ref.key != "":
		_, version := p.about()
		s.learned.forget(ref.key)
		s.learned.outdate(ref.key, version)
		return nil
	case errors.Is(err, zk.ErrNotEmpty):
		return as(backend.ErrConflict, err)
	}
	return err
}
