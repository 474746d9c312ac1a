package consul

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
)

// A tree is a watch on all keys that begin with a prefix: one recursive query, for a session that awaits many
// entries. It replaces their own queries, each of which takes a connection, and it shows all of them at one
// instant. Each change of any key below the prefix brings all keys and values, so there is none if few entries
// are awaited, or if most of what is there is not. Changes that come while one is read are read together.
//
// An entry that a tree watches is what it was when its own query was last answered, or later. Everything that
// the tree shows has the index of its write, so it is known which of the two is later.
const (
	// treeFrom is how many entries a session awaits by queries of their own, at most, if a tree can replace them
	// that brings no more than treeKeys keys for each.
	treeFrom = 32
	treeKeys = 8
	// scarceFrom is the same for a tree that brings up to scarceKeys keys for each: an agent has no connections
	// for many more.
	scarceFrom = 128
	scarceKeys = 64
	// treeBytes is how much a tree may bring for each of those keys.
	treeBytes = 512
	// treeBreath is how long a tree waits after it was read, for each key.
	treeBreath = 20 * time.Microsecond
	// treeGrows is how long a session that is about to await more entries has for some.
	treeGrows = 100 * time.Millisecond
	// bareFor is how long there is no tree after one that did not do.
	bareFor = 10 * longPoll
)

var errWide = errors.New("most of what is below the prefix is not awaited")

func (t *watch) covers(o *watch) bool {
	return !o.tree && !o.list && !t.dropped && strings.HasPrefix(o.key, t.key)
}

// waits reports whether a watch waits for a change of one entry.
func (t *watch) waits() bool {
	return !t.tree && !t.list && (t.of != nil || t.running && t.since != 0)
}

// unread reports whether a watch relies on a tree that is yet to be read.
func (t *watch) unread() bool { return t.of != nil && !t.of.known }

// attach makes a tree watch for t, if there is one, or should be. What the tree has shown counts if it is later.
// Caller holds mu.
func (r *registry) attach(t *watch) bool {
	if t.tree || t.list || !t.known {
		return false
	}
	if r.tree == nil || !r.tree.covers(t) {
		r.plant(t)
	}
	g := r.tree
	if g == nil || !g.covers(t) {
		return false
	}
	t.of, t.since = g, 0
	g.members++
	if g.known {
		e, index := g.shown(t)
		if index > t.index && !e.Same(t.entry) && g.index < r.s.learned.newest.Load() {
			t.known = false // other calls may have shown what is later still
			r.detach(t)
			return false
		}
		r.show(t, 0)
	}
	return t.of != nil
}

// detach undoes attach. Caller holds mu.
func (r *registry) detach(t *watch) {
	g := t.of
	if g == nil {
		return
	}
	t.of = nil
	if g.members--; g.members == 0 {
		r.drop(g)
		if r.tree == g {
			r.tree = nil
		}
	}
}

// plant makes a tree for t and all that waits, if that is enough. Caller holds mu.
func (r *registry) plant(t *watch) {
	enough := treeFrom
	if time.Now().Before(r.bare) {
		enough = r.enough
	}
	if len(r.watches) < enough {
		return
	}
	prefix, alone := backend.Parent(t.key), 1
	for _, o := range r.watches {
		if o == t || !o.waits() {
			continue
		}
		for prefix != "/" && !strings.HasPrefix(o.key, prefix+"/") {
			prefix = backend.Parent(prefix)
		}
		if o.of == nil && (r.tree == nil || !r.tree.covers(o)) {
			alone++
		}
	}
	switch {
	case alone < enough:
		return
	case prefix == "/": // all of Consul's keys
		r.bare, r.enough = time.Now().Add(bareFor), math.MaxInt
		return
	}
	g := &watch{watchKey: watchKey{key: prefix + "/", tree: true}, planted: alone}
	r.tree, r.watches[g.watchKey] = g, g
	for _, o := range r.watches {
		if o.of != nil {
			r.detach(o)
			o.of = g
			g.members++
		}
	}
	r.ensure(g)
}

// fell ends a tree that does not do. Caller holds mu.
func (r *registry) fell(g *watch, why error) {
	r.tree, r.bare, r.enough = nil, time.Now().Add(bareFor), math.MaxInt
	if errors.Is(why, errWide) && g.size() < scarceFrom {
		r.enough = scarceFrom
	}
	for _, t := range r.watches {
		if t.of != g {
			continue
		}
		r.detach(t)
		if len(t.waiters) > 0 {
			r.ensure(t)
		} else {
			r.drop(t)
		}
	}
}

// harvest shows what a tree has brought. Caller holds mu.
func (r *registry) harvest(g *watch, a answer) {
	g.known, g.index, g.pairs = true, a.index, make(map[string]*api.KVPair, len(a.pairs))
	for _, p := range a.pairs {
		g.pairs[p.Key] = p
	}
	r.s.learned.saw(a.index)
	for _, t := range r.watches {
		if t.of == g {
			r.show(t, a.sure)
		}
	}
}

// shown returns what a tree shows of t, and from which index on that is so.
func (g *watch) shown(t *watch) (backend.Entry, uint64) {
	if e := entryAt(t.key, g.pairs[path(t.key)]); e.Exists() {
		return e, indexOf(e)
	}
	return backend.Entry{Key: t.key}, g.index
}

// show makes t show what its tree shows, if that is later. What the session has seen up to the index sure cannot be
// later, unless the service was restored. Caller holds mu.
func (r *registry) show(t *watch, sure uint64) {
	g := t.of
	e, index := g.shown(t)
	switch {
	case t.known && e.Same(t.entry) && t.floor <= max(index, t.index):
		return
	case index > t.index && index >= t.floor && (t.known || !e.Exists()):
	case t.known && max(t.index, t.floor) > max(g.index, sure):
		return // the tree has yet to show that
	default: // another call has shown it to be gone, or the service was restored: read it
		t.known = false
		r.detach(t)
		if len(t.waiters) > 0 {
			r.ensure(t)
		}
		return
	}
	t.known, t.entry, t.index = true, e, index
	r.s.learned.note(e)
	t.notify()
	if len(t.waiters) == 0 {
		r.drop(t)
	}
}

// whole reports whether what the watches show is from one answer of a tree, not older than newest. Caller holds
// mu.
func (r *registry) whole(all []*watch, newest uint64) bool {
	g := all[0].of
	if g == nil || !g.known || g.index < newest {
		return false
	}
	for _, t := range all {
		if t.of != g || !t.shows() || t.index > g.index {
			return false
		}
	}
	return true
}

// askTree sends a tree's query. Before the first one it asks how much there is. A session that takes many
// elections has more entries to await soon.
func (r *registry) askTree(g *watch, o *api.QueryOptions) (api.KVPairs, uint64, error) {
	for last, tries := 0, 0; !g.fits; tries++ {
		names, _, err := r.s.b.kvKeys(r.s.b.client, path(g.key), "", consistent(o.Context()))
		if err != nil {
			return nil, 0, err
		}
		size, wide := r.wide(g, len(names), 0)
		if size > last {
			last, tries = size, 0
		}
		if wide && (tries > 4 || !sleep(o.Context(), treeGrows)) {
			return nil, 0, errWide
		}
		g.fits = !wide
	}
	pairs, index, err := r.s.b.kvList(path(g.key), o)
	bytes := 0
	for _, p := range pairs {
		bytes += len(p.Key) + len(p.Value)
	}
	if _, wide := r.wide(g, len(pairs), bytes); err == nil && wide {
		err = errWide
	}
	return pairs, index, err
}

// wide reports how many entries a tree watches, or will, and whether it brings too much for them.
func (r *registry) wide(g *watch, keys, bytes int) (size int, wide bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	size = g.size()
	most := size * treeKeys
	if size >= scarceFrom {
		most = size * scarceKeys
	}
	return size, keys > most || bytes > most*treeBytes
}

// size returns how many entries a tree watches, or will. Caller holds mu.
func (g *watch) size() int { return g.planted + g.members }

// lookAt is the look at what a tree watches: it reads all of it.
func (r *registry) lookAt(ctx context.Context, g *watch) error {
	r.mu.Lock()
	since, sure := g.index, r.s.learned.newest.Load()
	r.mu.Unlock()
	pairs, index, err := r.s.b.kvList(path(g.key), consistent(ctx))
	if err != nil {
		err = r.unseen(silent(ctx, err))
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil && !g.dropped {
			r.miss(g, err)
		}
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	g.missed = 0
	hangs := index != g.index
	switch {
	case g.dropped, !g.known, index >= since && index < g.index: // it was answered meanwhile
		return nil
	case index < since: // the service was restored, or has forgotten deletions
		g.known = false
	default:
		r.harvest(g, answer{pairs: pairs, index: index, sure: sure})
	}
	if hangs && g.stop != nil {
		g.stop()
	}
	return nil
}

// miss is for a look that could not read a tree. Until it is read again, looks are at what it watches. If it cannot be
// read in the time for a look, while all else can, it must not end the session. Caller holds mu.
func (r *registry) miss(g *watch, why error) {
	g.known = false
	if g.missed++; g.missed > 1 {
		r.fell(g, why)
	} else if g.stop != nil {
		g.stop()
	}
}

// breathe waits before a tree that is large asks again: then more changes come at once.
func (r *registry) breathe(g *watch) {
	r.mu.Lock()
	keys := len(g.pairs)
	r.mu.Unlock()
	sleep(r.s.Ctx, time.Duration(keys)*treeBreath)
}

// sleep returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
