package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/elector-go/elector/backend"
)

const (
	// remembered is how many of the names before an entry are kept: as many candidates
	// may withdraw one after the other before the directory is listed again. Keeping all
	// would make the memory of N candidates quadratic in N.
	remembered = 8
	// readBack is how many of them may turn out gone, each for the price of a
	// read, before listing again is the better choice.
	readBack = 3
)

// ahead is what stood before an entry when the directory was last listed.
type ahead struct {
	names []string // the nearest, oldest first
	all   bool     // there were no others
}

// Predecessor implements backend.Session. It lists the directory the first time,
// and then goes back through the names that it remembers, none of which can ever come
// anew. A watch stays on what it returns, and on e.
func (s *session) Predecessor(ctx context.Context, e backend.Entry) (backend.Entry, error) {
	if err := backend.CheckKey(e.Key); err != nil {
		return backend.Entry{}, opError("predecessor", e.Key, err)
	}
	if !isEnqueued(e.Key) {
		return backend.Entry{}, opError("predecessor", e.Key,
			fmt.Errorf("%w that was enqueued", backend.ErrNoEntry))
	}
	p, err := s.predecessor(ctx, e)
	if err != nil {
		if errors.Is(err, backend.ErrNoEntry) {
			s.memory.forget(e.Key)
		}
		return backend.Entry{}, opError("predecessor", e.Key, readError(err))
	}
	return p, nil
}

func (s *session) predecessor(ctx context.Context, e backend.Entry) (backend.Entry, error) {
	dir := backend.Parent(e.Key)
	for {
		before, ok := s.memory.ahead(e.Key)
		if !ok {
			children, _, err := s.list(ctx, dir)
			if err != nil {
				return backend.Entry{}, err
			}
			names := parseNames(children)
			own := strings.TrimPrefix(e.Key, dir+"/")
			i := slices.IndexFunc(names, func(n name) bool { return n.text == own })
			if i < 0 {
				return backend.Entry{}, backend.ErrNoEntry
			}
			before = nearest(names[:i])
		}
		var found backend.Entry
		for tries := 0; tries < readBack && len(before.names) > 0; tries++ {
			last := len(before.names) - 1
			if s.memory.isBuried(dir + "/" + before.names[last]) {
				// Waiting has shown it: this is what a handover finds.
				before.names = before.names[:last]
				tries--
				continue
			}
			p, err := s.now(ctx, dir+"/"+before.names[last])
			if err != nil {
				return backend.Entry{}, err
			}
			if p.Session != "" {
				found = p
				break
			}
			// Gone; or somebody else made it, persistent, and it would never go.
			before.names = before.names[:last]
		}
		if !found.Exists() && !(before.all && len(before.names) == 0) {
			s.memory.forget(e.Key)
			continue // list again
		}
		s.memory.setAhead(e.Key, before)
		// Whoever is told who is before it, or that nobody is, must be there itself.
		// The watch that this leaves is the one that waiting needs.
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

// nearest keeps the last names, in memory of its own.
func nearest(names []name) ahead {
	a := ahead{all: len(names) <= remembered}
	names = names[max(0, len(names)-remembered):]
	a.names = make([]string, len(names))
	for i, n := range names {
		a.names[i] = n.text
	}
	return a
}
