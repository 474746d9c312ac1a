package zookeeper

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
)

const (
	// maxChildren is how many names Survey and Children ask for: a longer list may be more than the
	// client accepts. The server sends their number with the entry.
	maxChildren = 1000
	// maxLooks is how many of them Survey looks at.
	maxLooks = 100
)

// Survey implements backend.Driver. It takes one request, as Get does, unless there are other children
// than the known one. Then it takes two, and one more for each of the others, all at once: the list of
// children has names only.
func (s *session) Survey(ctx context.Context, key string, known func(backend.Entry) string) (backend.Entry, []string, error) {
	n, err := s.get(ctx, s.path(key))
	if errors.Is(err, zk.ErrNoNode) {
		return backend.Entry{Key: key}, nil, nil // so it has no children
	}
	if err != nil {
		return backend.Entry{}, nil, readError(err)
	}
	e := s.entry(s.path(key), n)
	others, own := n.stat.NumChildren, known(e)
	if own != "" {
		others--
	}
	if others <= 0 || n.stat.NumChildren > maxChildren {
		return e, nil, nil
	}
	strangers, err := s.strangers(ctx, key, own)
	if err = readError(err); err != nil && !errors.Is(err, backend.ErrDenied) && !errors.Is(err, backend.ErrTooLarge) {
		return backend.Entry{}, nil, err
	}
	return e, strangers, nil
}

// strangers returns the keys of dir's ephemeral children except own. The error is the client library's.
func (s *session) strangers(ctx context.Context, dir, own string) ([]string, error) {
	names, _, err := s.list(ctx, dir)
	if err != nil {
		return nil, err
	}
	// The candidates of ZooKeeper recipes are sequential: they come first if there are many.
	var likely, others []string
	for _, name := range names {
		switch {
		case dir+"/"+name == own:
		case len(dir)+1+len(name) > backend.MaxKey: // somebody's data: no recipe has such names, and they would not fit into a small buffer
		case isSequential(name):
			likely = append(likely, name)
		default:
			others = append(others, name)
		}
	}
	names = append(likely, others...)
	names = names[:min(len(names), maxLooks)]
	stats, errs := make([]*zk.Stat, len(names)), make([]error, len(names))
	var looks sync.WaitGroup
	for i, name := range names {
		looks.Go(func() { stats[i], errs[i] = s.exists(ctx, s.path(dir+"/"+name)) })
	}
	looks.Wait()
	var keys []string
	for i, stat := range stats {
		switch {
		case errs[i] != nil:
			return nil, errs[i]
		case stat != nil && held(stat) && !isTimed(stat):
			keys = append(keys, dir+"/"+names[i])
		}
	}
	return keys, nil
}

// isSequential reports whether a name ends as the server ends those of sequential nodes.
func isSequential(name string) bool {
	const digits = 10
	return len(name) >= digits && strings.Trim(name[len(name)-digits:], "0123456789") == ""
}

// isTimed reports whether a node has a time to live, which the server notes where others have their
// session.
func isTimed(stat *zk.Stat) bool { return uint64(stat.EphemeralOwner)>>56 == 0xff }
