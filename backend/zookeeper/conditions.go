package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// Checks returns the conditions as check operations for a transaction of the user's own: its writes are
// applied only if the conditions hold at that instant.
//
//	checks, err := zookeeper.Checks(ctx, g.Session, g.Conditions...)
//	…
//	_, err = conn.Multi(append(checks, &zk.SetDataRequest{Path: "/jobs/state", …})...)
//
// conn may be any connection to the same ensemble, such as the user's own, if it may read the entries.
// Each check is a *zk.CheckVersionRequest with the server's path, which includes Config.Chroot.
//
// The session must be of this package (one behind backend.Share is). Entries that were enqueued, and
// have not been written to since, cost no round trip. Other entries are distinguished from their
// successors by a version, which is read on each call: call Checks right before each transaction.
//
// ErrCondition means that a condition does not hold now. If a check fails in the transaction
// (zk.ErrNoNode or zk.ErrBadVersion), a condition does not hold, or meanwhile somebody has written to
// its entry, or created another in the same directory: try again, with fresh checks, until Checks or
// the transaction decides. Checks blocks while the session is suspended, until ctx ends.
func Checks(ctx context.Context, s *backend.Session, guards ...backend.Condition) ([]any, error) {
	return driver.Conditions(ctx, "zookeeper: checks", s, guards, func(own *session) ([]any, error) {
		gen, err := own.awaitLive(ctx, 0)
		if err != nil {
			return nil, err
		}
		c, m := &commit{s: own, guards: guards, reread: true, gen: gen}, newMulti()
		for _, g := range guards {
			if err := c.guard(ctx, m, g); err != nil {
				return nil, fmt.Errorf("%s: %w", g.Entry.Key, err)
			}
		}
		return m.requests(), nil
	})
}

// implied returns the op that cannot be done unless the condition holds, or -1. It is the first op on
// the condition's entry, if that is an Update or a Delete of the same incarnation. What proves the
// incarnation for the op proves it for the condition, and the op itself requires that the entry exists.
// So a leader that resigns, or writes to its own entry, sends nothing for the condition. That is the
// handover: if one request is left, it is sent without a multi, see session.request.
//
// An IfUnchanged on an enqueued entry is implied, too: the op checks its version. Other entries are proven by
// other versions.
func (c *commit) implied(m *multi, g backend.Condition) int {
	e := g.Entry
	if !e.Exists() || g.Exact && !isEnqueued(e.Key) {
		return -1
	}
	i := slices.IndexFunc(c.ops, func(op backend.Op) bool {
		return op.Key == e.Key && op.Kind != backend.OpEnqueue // whose key is the directory's
	})
	if i < 0 || c.ops[i].Rev != e.Rev || c.ops[i].Kind != backend.OpUpdate && c.ops[i].Kind != backend.OpDelete {
		return -1
	}
	if g.Exact {
		version, ok := fromVersion(e.Version)
		if other, twice := m.exact[i]; !ok || twice && other != version {
			return -1 // guard says so
		}
		note(&m.exact, i, version)
	}
	return i
}

// guard adds the checks for one condition.
func (c *commit) guard(ctx context.Context, m *multi, g backend.Condition) error {
	e := g.Entry
	if !e.Exists() {
		return fmt.Errorf("%w: there is no entry in the guard for %s", backend.ErrCondition, e.Key)
	}
	path, hard := c.s.path(e.Key), ref{role: roleGuard, op: -1}
	if g.Exact {
		version, ok := fromVersion(e.Version)
		if !ok {
			return fmt.Errorf("%w: version %d cannot be there", backend.ErrCondition, e.Version)
		}
		m.check(path, version, hard)
		if e.Session == "" {
			return nil
		}
	} else if err := c.stands(ctx, m, e); err != nil {
		return guardError(err)
	}
	version, key, err := c.incarnation(ctx, m, e)
	if err != nil {
		return guardError(err)
	}
	if version != anyVersion {
		m.check(path, version, ref{role: roleProof, op: -1, key: key})
	}
	return nil
}

// stands adds the check that e exists under its key.
func (c *commit) stands(ctx context.Context, m *multi, e backend.Entry) error {
	version, err := c.ownVersion(ctx, e)
	if err != nil {
		return err
	}
	r := ref{role: roleGuard, op: -1}
	switch version {
	case 0:
		version = anyVersion // 0 tells nothing
	case anyVersion:
	default:
		r = ref{role: roleOwn, op: -1, key: e.Key}
	}
	m.check(c.s.path(e.Key), version, r)
	return nil
}

// ownVersion returns the version of an own entry. Unless it is 0, it distinguishes e from anything that
// somebody else puts in its place. For other sessions' entries ownVersion returns anyVersion.
//
// This package does not use an enqueued key again. But anybody who may write there can delete the entry
// and create a node of its name in one transaction. Neither the parent nor the node's existence at the
// instant of a commit shows that. But the new node's version is 0. So if this session's own entry has
// been written to, which raises its version, its conditions check that version; a leader of the fair
// strategy writes to its entry as soon as it leads. The version is known without a read: from the reply
// to the session's own write, or from its watch. If somebody has written to the entry since, the
// version is outdated: it is read again and the commit is sent again. A transaction still passes if it
// also writes to the new node, as often as needed: a forgery. An entry that nobody has written to yet
// cannot be distinguished from one.
//
// An Update of it checks its version even so: an Update that is done late, after a later one, would
// undo that one (see expectLate).
func (c *commit) ownVersion(ctx context.Context, e backend.Entry) (int32, error) {
	s := c.s
	if s.learned.isGone(e) {
		return 0, backend.ErrNoEntry
	}
	o, ok := s.learned.own(e)
	if !ok {
		return anyVersion, nil
	}
	for attempt := 0; o.old || c.reread && o.version != 0; attempt++ {
		n, err := s.get(ctx, s.path(e.Key))
		switch {
		case errors.Is(err, zk.ErrNoNode) || err == nil && !s.entry(s.path(e.Key), n).Is(e):
			s.buriedBy(e, n, err)
			return 0, backend.ErrNoEntry
		case err != nil:
			return 0, readError(err)
		}
		if s.learned.setOwn(e.Key, e.Rev, n.stat.Version); n.stat.Version-o.version > 0 || !o.old || attempt > 0 {
			return n.stat.Version, nil
		}
		// The server lags behind the one that has found it outdated.
		if err := s.sync(ctx, s.path(e.Key)); err != nil {
			return 0, readError(err)
		}
	}
	return o.version, nil
}

// guardError returns the condition's error for an entry that is gone.
func guardError(err error) error {
	if errors.Is(err, backend.ErrNoEntry) {
		return fmt.Errorf("%w: %v", backend.ErrCondition, err)
	}
	return err
}

// prove adds the proof that the entry of an Update or a Delete is the incarnation that exists under its
// key. It returns the version that the request itself must check, and the key whose proof that is.
func (c *commit) prove(ctx context.Context, m *multi, op backend.Op) (version int32, key string, err error) {
	e := backend.Entry{Key: op.Key, Rev: op.Rev}
	if _, own := c.s.learned.own(e); own {
		e.Session = c.s.ID()
	}
	if version, err = c.ownVersion(ctx, e); err != nil {
		return 0, "", err
	}
	asked, key, err := c.incarnation(ctx, m, e)
	if err == nil && asked == anyVersion && version != anyVersion && (version != 0 || op.Kind == backend.OpUpdate) {
		return version, e.Key, nil
	}
	return asked, key, err
}

// incarnation adds what distinguishes e from other entries that this package makes under its key, as
// prove does.
func (c *commit) incarnation(ctx context.Context, m *multi, e backend.Entry) (version int32, key string, err error) {
	s := c.s
	if s.learned.isGone(e) {
		return 0, "", backend.ErrNoEntry
	}
	if isEnqueued(e.Key) {
		return anyVersion, "", nil
	}
	p, ok := s.learned.proof(e, c.gen)
	if !ok || c.reread {
		if p, err = s.learn(ctx, e); err != nil {
			return 0, "", err
		}
		p.gen = c.gen
	}
	if p.own {
		// Not kept: a successor begins with the same versions.
		return p.version, e.Key, nil
	}
	s.learned.proofs.Put(e.Key, p)
	m.check(backend.Parent(s.path(e.Key)), p.version, ref{role: roleProof, op: -1, key: e.Key})
	return anyVersion, "", nil
}

// learn reads what proves an incarnation. It reads the parent's version BEFORE the entry: any later
// creation there changes the version, so a commit that finds it unchanged finds the entry that was
// read.
func (s *session) learn(ctx context.Context, e backend.Entry) (proof, error) {
	path := s.path(e.Key)
	parent := backend.Parent(path)
	for attempt := 0; ; attempt++ {
		p := proof{rev: e.Rev, own: parent == "/"}
		if !p.own {
			stat, err := s.exists(ctx, parent)
			if err != nil {
				return proof{}, readError(err)
			}
			if stat != nil {
				p.version = stat.Version
			}
		}
		n, err := s.get(ctx, path)
		switch {
		case err == nil && s.entry(path, n).Is(e):
			if n.stat.EphemeralOwner == 0 {
				p.own = true
			}
			if p.own {
				p.version = n.stat.Version
			}
			return p, nil
		case err != nil && !errors.Is(err, zk.ErrNoNode):
			return proof{}, readError(err)
		case attempt > 0:
			s.buriedBy(e, n, err)
			return proof{}, backend.ErrNoEntry
		}
		// A server that lags behind may not have it yet.
		if err := s.sync(ctx, path); err != nil {
			return proof{}, readError(err)
		}
	}
}

// buriedBy notes that an incarnation is gone if a younger one exists, or nothing. If an older one
// exists, it has never existed, or only in the history before the service was restored.
func (s *session) buriedBy(e backend.Entry, now node, absent error) {
	if absent != nil || uint64(now.stat.Czxid) > e.Rev {
		s.buried(e.Key, e.Rev)
	}
}

// buried notes that an incarnation is gone, if there can have been one: an invented revision, such as
// that of backend.Unknown, may be higher than any yet to come.
func (s *session) buried(key string, rev uint64) {
	if rev <= s.pin.Newest() {
		s.gone(key, rev)
	}
}

// sync makes the server catch up with the leader.
func (s *session) sync(ctx context.Context, path string) error {
	_, err := read(ctx, s, func() (string, error) { return s.conn.Sync(path) })
	return err
}
