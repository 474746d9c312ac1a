package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/elector-go/elector/backend"
)

// Get implements backend.Driver.
func (n *session) Get(ctx context.Context, key string) (backend.Entry, error) {
	e, err := ask(ctx, n, Step{Kind: StepGet, Key: key}, func() backend.Entry {
		n.svc.stats.Gets++
		return n.view().lookup(key)
	})
	switch {
	case err != nil:
		return backend.Entry{}, err
	case !e.Exists():
		return backend.Entry{}, backend.ErrNoEntry
	}
	return e, nil
}

// Survey implements backend.Driver.
func (n *session) Survey(ctx context.Context, key string, _ func(backend.Entry) string) (backend.Entry, []string, error) {
	type answer struct {
		entry     backend.Entry
		strangers []string
	}
	a, err := ask(ctx, n, Step{Kind: StepGet, Key: key}, func() answer {
		n.svc.stats.Gets++
		return answer{n.view().lookup(key), n.view().strangers(key)}
	})
	return a.entry, a.strangers, err
}

// strangers returns the keys of the ephemeral entries directly under key.
func (t *tree) strangers(key string) (keys []string) {
	for child := range t.dir(key).children() {
		if child.owner != nil {
			keys = append(keys, child.entry.Key)
		}
	}
	return keys
}

// Children implements backend.Driver.
func (n *session) Children(ctx context.Context, key string, most int) ([]string, bool, error) {
	type answer struct {
		keys []string
		more bool
	}
	a, err := ask(ctx, n, Step{Kind: StepList, Key: key}, func() (a answer) {
		n.svc.stats.Lists++
		a.keys, a.more = n.view().under(key, most)
		return a
	})
	return a.keys, a.more, err
}

// under returns the keys directly under key, up to most.
func (t *tree) under(key string, most int) (keys []string, more bool) {
	for child := range t.dir(key).children() {
		switch {
		case !child.entry.Exists():
			continue // somebody only waits for it
		case len(keys) == most:
			return keys, true
		}
		keys = append(keys, child.entry.Key)
	}
	return keys, false
}

// List implements backend.Driver.
func (n *session) List(ctx context.Context, dir string) (backend.Listing, error) {
	return ask(ctx, n, Step{Kind: StepList, Key: dir}, func() backend.Listing {
		n.svc.stats.Lists++
		return n.view().list(dir)
	})
}

// listRev returns the Rev of dir's listing. A directory that is gone lists like an empty one, at a revision
// that no earlier listing of it exceeds.
func (t *tree) listRev(dir string) (rev uint64, exists bool) {
	at := t.nodes[dir]
	if at == nil || !at.entry.Exists() {
		return t.listGone, false
	}
	if at.dir == nil {
		return at.entry.Rev, true
	}
	return max(at.dir.rev, at.entry.Rev), true
}

// list returns dir's listing. All listings of one revision share their keys, so that a crowd that lists a
// directory at each change needs memory for it once.
func (t *tree) list(dir string) backend.Listing {
	rev, exists := t.listRev(dir)
	l := backend.Listing{Dir: dir, Rev: rev}
	d := t.dir(dir)
	if !exists || d == nil {
		return l
	}
	if d.keys == nil && d.queue.first != nil {
		keys := make([]string, 0, d.n)
		for at := range d.queue.all() {
			keys = append(keys, at.entry.Key)
		}
		d.keys = slices.Clip(keys) // an append makes a copy
	}
	l.Keys = d.keys
	return l
}

// Predecessor implements backend.Driver. It takes constant time for an enqueued entry.
func (n *session) Predecessor(ctx context.Context, e backend.Entry) (backend.Entry, error) {
	type answer struct {
		entry backend.Entry
		err   error
	}
	got, err := ask(ctx, n, Step{Kind: StepPredecessor, Key: e.Key}, func() answer {
		n.svc.stats.Predecessors++
		before, err := n.view().predecessor(e)
		return answer{before, err}
	})
	if err = cmp.Or(err, got.err); err != nil {
		return backend.Entry{}, err
	}
	return got.entry, nil
}

func (t *tree) predecessor(e backend.Entry) (backend.Entry, error) {
	own := t.nodes[e.Key]
	if own == nil || !own.entry.Exists() || own.entry.Rev != e.Rev {
		return backend.Entry{}, backend.ErrNoEntry
	}
	before := own.sibling.prev
	if !own.queued {
		before = own.parent.dir.queue.last
		for before != nil && before.of.entry.Rev >= e.Rev {
			before = before.prev
		}
	}
	if before == nil {
		return backend.Entry{}, nil
	}
	return before.of.entry, nil
}
