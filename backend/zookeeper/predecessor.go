package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper/internal/wire"
)

// remembered is how many of the names before an entry are kept: that many candidates may withdraw
// one after the other before the directory is listed again. Keeping all would make the memory of N
// candidates quadratic in N.
const remembered = 8

// ahead is what was before an entry when the directory was last listed.
type ahead struct {
	names []string // oldest first; only the nearest, once it is remembered
	all   bool     // there were no others
}

// Predecessor implements backend.Driver. It lists the directory the first time, and then goes back
// through the names that it remembers, none of which can ever come again. A watch stays on the entry
// that it returns, and on e.
func (s *session) Predecessor(ctx context.Context, e backend.Entry) (backend.Entry, error) {
	if !isEnqueued(e.Key) {
		return backend.Entry{}, fmt.Errorf("%w that was enqueued", backend.ErrNoEntry)
	}
	p, err := s.predecessor(ctx, e)
	if errors.Is(err, backend.ErrNoEntry) {
		s.learned.forget(e.Key)
	}
	return p, readError(err)
}

// predecessor lists again only if candidates before e have gone since the last time. There are never
// more of those than at first, so the loop ends.
func (s *session) predecessor(ctx context.Context, e backend.Entry) (backend.Entry, error) {
	dir := backend.Parent(e.Key)
	for {
		before, ok := s.learned.before.Get(e.Key)
		if !ok {
			s.watches.ahead(s.path(e.Key))
			names, all, err := s.listBefore(ctx, dir, strings.TrimPrefix(e.Key, dir+"/"))
			if err != nil {
				return backend.Entry{}, err
			}
			before = s.candidates(dir, names)
			before.all = all
		}
		found, err := s.lastOf(ctx, dir, &before)
		if err != nil {
			return backend.Entry{}, err
		}
		if !found.Exists() && !(before.all && len(before.names) == 0) {
			s.learned.forget(e.Key)
			continue // list again
		}
		s.learned.before.Put(e.Key, before.nearest())
		// A caller that learns its predecessor, or that there is none, must exist itself. The watch
		// that this leaves is the one that the wait needs.
		own, err := s.now(ctx, e.Key)
		if err != nil {
			return backend.Entry{}, err
		}
		if own.Rev != e.Rev {
			return backend.Entry{}, backend.ErrNoEntry
		}
		return found, nil
	}
}

// listBefore returns the names before an own one in a directory, oldest first, and whether these are
// all. If no lookalike is known (there may be many), they are only the nearest.
func (s *session) listBefore(ctx context.Context, dir, own string) (names []name, all bool, err error) {
	if len(own) == nameLength && s.learned.alike.Len() == 0 {
		names, err := s.listNearest(ctx, dir, own)
		return names, len(names) <= remembered, err
	}
	children, _, err := s.list(ctx, dir)
	if err != nil {
		return nil, false, err
	}
	names = parseNames(children)
	i := slices.IndexFunc(names, func(n name) bool { return n.text == own })
	if i < 0 {
		return nil, false, backend.ErrNoEntry
	}
	return names[:i], true, nil
}

// queueNames are the names of which listNearest gets the nearest: one more than are remembered tells
// that there are others.
var queueNames = wire.Queue{Length: nameLength, Counts: isCounted, Wanted: remembered + 1}

// listNearest returns the names nearest before an own one in a directory, oldest first: one more than
// are remembered, if there are so many. It returns ErrNoEntry if the own name is not listed.
func (s *session) listNearest(ctx context.Context, dir, own string) ([]name, error) {
	names, err := read(ctx, s, func() ([]string, error) {
		path, done := s.pin.Nearest(s.path(dir), own)
		defer done()
		names, _, err := s.conn.Children(path)
		return names, err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode), err == nil && !slices.Contains(names, own):
		return nil, backend.ErrNoEntry
	case err != nil:
		return nil, err
	}
	before := parseNames(names)
	return before[:slices.IndexFunc(before, func(n name) bool { return n.text == own })], nil
}

// lastOf returns the last of the names under which a candidate's entry exists, and removes the names
// after it. It returns the zero Entry when none is left, or one turns out to be gone that nobody has waited
// for: then others may be, as after terms that were too short for the leader's mark, and one list shows all.
//
// Lookalikes do not count as gone: they are in every list, so listing again would never end. Each is
// read once, in one walk, and then remembered.
func (s *session) lastOf(ctx context.Context, dir string, before *ahead) (backend.Entry, error) {
	among := false // lookalikes
	for gone := false; !gone && len(before.names) > 0; before.names = before.names[:len(before.names)-1] {
		key := dir + "/" + before.names[len(before.names)-1]
		if s.learned.gone.Has(key) || s.learned.alike.Has(key) {
			continue // a handover finds the first this way: the wait has shown it
		}
		if among {
			// A watch on each would stay at the server for as long as the session exists.
			stat, err := s.exists(ctx, s.path(key))
			if err != nil {
				return backend.Entry{}, err
			}
			if stat != nil && s.isLookalike(key, stat) {
				continue
			}
		}
		p, err := s.now(ctx, key)
		switch {
		case err != nil:
			return backend.Entry{}, err
		case !p.Exists():
			gone = true
		case p.Session == "":
			among = true
		default:
			return p, nil
		}
	}
	return backend.Entry{}, nil
}

// candidates returns all names except those of known lookalikes.
func (s *session) candidates(dir string, names []name) ahead {
	names = s.learned.candidates(dir, names)
	a := ahead{names: make([]string, len(names))}
	for i, n := range names {
		a.names[i] = n.text
	}
	return a
}

// nearest keeps the last names, in memory of its own.
func (a ahead) nearest() ahead {
	first := max(0, len(a.names)-remembered)
	return ahead{names: slices.Clone(a.names[first:]), all: a.all && first == 0}
}
