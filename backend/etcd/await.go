package etcd

import (
	"context"
	"errors"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// Await implements backend.Driver. If all keys have the same parent, one watch covers them, and its
// events are returned without any read; the call then holds no goroutine of its own, and costs nothing
// while an earlier call's watch covers the keys. Keys in different directories take a read after each
// change.
func (s *session) Await(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
	keys := make([]string, len(known))
	for i, e := range known {
		keys[i] = e.Key
	}
	if err := s.Over(ctx); err != nil {
		return nil, err
	}
	slices.Sort(keys)
	groups := byParent(slices.Compact(keys))
	var seen []backend.Entry
	var err error
	if len(groups) == 1 {
		seen, err = s.await(ctx, known, groups[0])
	} else {
		seen, err = s.awaitApart(ctx, known, groups)
	}
	if err == nil {
		err = s.checkOwn(ctx, known, seen)
	}
	return seen, err
}

// checkOwn notes which entries of this session are gone: perhaps all are, with the session. If one is replaced
// by another session's, the service was restored.
func (s *session) checkOwn(ctx context.Context, known, seen []backend.Entry) error {
	gone := false
	for i, e := range known {
		switch {
		case e.Session != s.ID():
		case seen[i].Rev != e.Rev:
			s.ended(e.Key, e.Rev)
			gone = true
		case !seen[i].Is(e):
			return s.LostBy(errRewound)
		}
	}
	if gone {
		return s.checkLease(ctx)
	}
	return nil
}

// byParent groups sorted keys by their parent.
func byParent(keys []string) (groups [][]string) {
	for _, key := range keys {
		parent := backend.Parent(key)
		i := slices.IndexFunc(groups, func(group []string) bool { return backend.Parent(group[0]) == parent })
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], key)
	}
	return groups
}

// await waits for keys that one watch covers.
func (s *session) await(ctx context.Context, known []backend.Entry, keys []string) ([]backend.Entry, error) {
	w := newWaiter(known, s.shown.Load())
	t := s.watches.join(w, keys)
	defer func() { s.watches.leave(w, t) }()
	for {
		seen, look := s.watches.look(w, t)
		switch {
		case seen != nil:
			return seen, nil
		case look:
			if err := s.refresh(ctx, t, w.since); err != nil && !s.ridesOut(known, err) {
				return nil, err
			}
			continue
		}
		if seen, err := s.told(ctx, w, t); seen != nil || err != nil {
			return seen, err
		}
		t = s.watches.join(w, keys)
	}
}

// ridesOut reports whether a wait continues though its reads have been refused for a session timeout:
// heartbeats are not refused, and the caller may hold a seat, or a place, by this wait. A call that
// waits for an unknown entry has to read.
func (s *session) ridesOut(known []backend.Entry, err error) bool {
	if !refused(err) || slices.ContainsFunc(known, backend.Entry.IsUnknown) {
		return false
	}
	s.cfg.Logger.Warn("etcd: what is awaited cannot be read; trying again", "session", s.ID(), "error", err)
	return true
}

// refused reports whether a read was given up because of an error that is not etcd's, or without a
// reply.
func refused(err error) bool {
	switch {
	case err == nil, errors.Is(err, backend.ErrSessionLost), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	}
	return errors.Is(err, backend.ErrUnavailable) || mean(err).Is(driver.Unknown) && passing(err)
}

// told waits until a waiter gets a change. The watch may have been dropped right after the change,
// which must still be returned.
func (s *session) told(ctx context.Context, w *waiter, t *watch) ([]backend.Entry, error) {
	select {
	case seen := <-w.out:
		return seen, nil
	case <-t.ctx.Done():
		select {
		case seen := <-w.out:
			return seen, nil
		default:
			return nil, s.watches.reason(ctx, t)
		}
	case <-ctx.Done():
		return nil, s.Over(ctx)
	}
}

// refresh reads what a watch covers, unless that is already known as of the revision since or later.
func (s *session) refresh(ctx context.Context, t *watch, since int64) error {
	select {
	case t.reading <- struct{}{}:
		defer func() { <-t.reading }()
	case <-ctx.Done():
		return s.Over(ctx)
	case <-t.ctx.Done():
		return s.watches.reason(ctx, t)
	}
	if s.watches.has(t, since) {
		return nil
	}
	_, err := driver.Apart(func() (struct{}, error) { // the caller continues to wait
		found, rev, err := s.read(ctx, t.keys)
		if err == nil {
			s.watches.merge(t, found, rev)
		}
		return struct{}{}, err
	})
	return err
}

// read reads keys at one revision.
func (s *session) read(ctx context.Context, keys []string) (snapshot, int64, error) {
	gets := make([]clientv3.Op, len(keys))
	for i, key := range keys {
		gets[i] = clientv3.OpGet(key)
	}
	found, rev, err := s.snapshot(ctx, gets...)
	if err != nil {
		return nil, 0, err
	}
	now := make(snapshot, len(keys))
	for i, key := range keys {
		now[i] = toEntry(key, one(found[i]))
	}
	return now, rev, nil
}

// awaitApart waits for keys that no single watch covers. Two watches do not show what came first: only
// a read of all keys shows what existed at one instant.
func (s *session) awaitApart(ctx context.Context, known []backend.Entry, groups [][]string) ([]backend.Entry, error) {
	for {
		now, rev, err := s.read(ctx, slices.Concat(groups...))
		if err != nil {
			if s.ridesOut(known, err) {
				continue
			}
			return nil, err
		}
		if seen, differs := compare(known, now); differs {
			s.shows(rev)
			return seen, nil
		}
		if err := s.anyOf(ctx, groups, now, rev); err != nil {
			return nil, err
		}
	}
}

// anyOf blocks until one of several watches reports a change since rev.
func (s *session) anyOf(ctx context.Context, groups [][]string, now snapshot, rev int64) error {
	changed := make(chan []backend.Entry, len(groups))
	failed := make(chan error, len(groups))
	for _, keys := range groups {
		known := make([]backend.Entry, len(keys))
		for i, key := range keys {
			known[i] = now.at(key)
		}
		w := newWaiter(known, 0)
		w.out = changed
		t := s.watches.join(w, keys)
		defer s.watches.leave(w, t)
		if slices.Equal(t.keys, keys) {
			s.watches.merge(t, now, rev)
		} else if err := s.refresh(ctx, t, rev); err != nil { // it also covers others, which were not read
			if s.ridesOut(known, err) {
				return nil
			}
			return err
		}
		if seen, _ := s.watches.look(w, t); seen != nil {
			return nil
		}
		defer context.AfterFunc(t.ctx, func() { failed <- s.watches.reason(ctx, t) })()
	}
	select {
	case <-changed:
		return nil
	case err := <-failed:
		select {
		case <-changed: // as in told
			return nil
		default:
			return err
		}
	case <-ctx.Done():
	case <-s.Ctx.Done():
	}
	return s.Over(ctx)
}

// A snapshot is what exists under some keys at one instant, including those without an entry. It is no
// map, as it holds a few entries, and each watch has one.
type snapshot []backend.Entry

// index returns the index of a key, or -1.
func (v snapshot) index(key string) int {
	return slices.IndexFunc(v, func(e backend.Entry) bool { return e.Key == key })
}

// at returns what exists under a key, or the zero Entry if the key is not in the snapshot.
func (v snapshot) at(key string) backend.Entry {
	if i := v.index(key); i >= 0 {
		return v[i]
	}
	return backend.Entry{}
}

// compare returns the current state of what was known, and whether it differs.
func compare(known []backend.Entry, now snapshot) (seen []backend.Entry, differs bool) {
	seen = make([]backend.Entry, len(known))
	for i, e := range known {
		seen[i] = now.at(e.Key)
		differs = differs || !seen[i].Same(e)
	}
	return seen, differs
}

// AwaitList implements backend.Driver. Each caller has its own watch, from the revision of the listing
// that it knows, and lists when the directory has changed.
func (s *session) AwaitList(ctx context.Context, known backend.Listing) (backend.Listing, error) {
	l, err := s.awaitList(ctx, known)
	if err == nil && s.hasLeft(known, l) {
		err = s.checkLease(ctx)
	}
	return l, err
}

// hasLeft reports whether an entry of this session has left a listing.
func (s *session) hasLeft(known, now backend.Listing) bool {
	return slices.ContainsFunc(known.Keys, func(key string) bool {
		n, ok := parseName(key)
		return ok && n.lease == s.lease && !slices.Contains(now.Keys, key)
	})
}

func (s *session) awaitList(ctx context.Context, known backend.Listing) (backend.Listing, error) {
	bound, cancel := s.Bind(ctx)
	defer cancel()
	since, changed := int64(known.Rev), known.Rev == 0
	for pause := (driver.Pause{}); ; {
		if err := s.Over(ctx); err != nil {
			return backend.Listing{}, err
		}
		if changed {
			l, rev, err := s.list(ctx, known.Dir)
			if err != nil || known.Rev == 0 || !slices.Equal(l.Keys, known.Keys) { // at any revision: see history.go
				return l, err
			}
			since = rev // only the way to it has changed
		}
		var err error
		changed, err = s.listChanges(bound, known.Dir, since)
		switch {
		case changed || s.Over(ctx) != nil:
			continue
		case isForbidden(err):
			return backend.Listing{}, as(backend.ErrDenied, err)
		}
		// The watch was lost, or the revisions after since were compacted: list again.
		s.BeatSoon()
		pause.Wait(bound)
		changed = true
	}
}

// listChanges blocks until an entry is enqueued in dir, or goes, after the revision since.
func (s *session) listChanges(ctx context.Context, dir string, since int64) (changed bool, err error) {
	key, last := queueRange(dir)
	answers, end := s.watch(ctx, key, clientv3.WithRange(last), clientv3.WithRev(since+1))
	defer func() { end(err) }()
	for answer := range answers {
		if err := watchError(&answer); err != nil {
			return false, err
		}
		s.streams.heard.Add(1)
		s.saw(answer.Header.GetRevision())
		for _, event := range answer.Events {
			if changesList(dir, event) {
				return true, nil
			}
		}
	}
	return false, errWatchEnded
}

func changesList(dir string, event *clientv3.Event) bool {
	n, ok := parseName(string(event.Kv.Key))
	if !ok || !parentIs(dir, event.Kv) {
		return false
	}
	if event.Type == mvccpb.DELETE || event.IsModify() { // overwritten without its lease, it counts as gone
		return event.Kv.Lease != int64(n.lease)
	}
	_, ok = ticketOf(event.Kv)
	return ok
}
