package backendrules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
)

var readRules = []rule{
	promise("read/decided", readDecided,
		"After a commit, even a refused one, a session reads at least the state that the service decided it by, however new the session is."),
	promise("read/survey", readSurvey,
		"Survey returns an entry, or that there is none, with the keys of the ephemeral entries directly under it, and no other keys."),
	promise("read/children", readChildren,
		"Children returns the keys directly under a key, of all kinds of entries, up to a maximum, and reports whether there are more."),
	promise("read/list", readList,
		"List returns the enqueued entries directly in the directory, oldest first, and no others. The list of a directory that does not exist is empty."),
	promise("read/foreign", readForeign,
		"Children that somebody else put, under any name, are left out of List and Predecessor, and do no harm.",
		"Put"),
	promise("read/predecessor", readPredecessor,
		"Predecessor returns the youngest enqueued entry that is older, the zero Entry for the oldest, and ErrNoEntry if the given entry is gone."),
}

func readDecided(r *run) {
	s := r.session()
	dir := s.dir("d")
	rounds := r.times(10, 40)
	for range rounds {
		// The server of a new session may not know the latest of these changes.
		e := s.enqueue(dir, "1")
		gone := s.enqueue(dir, "1")
		s.delete(gone)
		seat := s.create(dir+"/seat", "1")
		e = s.set(e, "2")
		for _, by := range []struct {
			what   string
			guards []backend.Condition
			ops    []backend.Op
			err    error
		}{
			{"a commit under a condition on an entry that never existed", []backend.Condition{backend.IfExists(backend.Unknown(dir))}, nil, backend.ErrCondition},
			{"a commit under a condition on an entry that is gone", []backend.Condition{backend.IfExists(gone)}, nil, backend.ErrCondition},
			{"a CreateEphemeral of an entry that exists", nil, []backend.Op{backend.CreateEphemeral(seat.Key, nil)}, backend.ErrExists},
		} {
			other := r.session()
			other.refused(by.what, by.err, by.guards, by.ops...)
			other.has("get after "+by.what+" was refused", e)
			other.none("get of a deleted entry after "+by.what+" was refused", gone.Key)
			other.close()
		}
		s.delete(e, seat)
	}
}

func readSurvey(r *run) {
	s, other := r.session(), r.session()
	shows := func(key, known string, want ...backend.Entry) {
		have, asked := s.peek(key), backend.Entry{}
		e, strangers, err := s.Survey(r.ctx, key, func(e backend.Entry) string { asked = e; return known })
		r.Must("survey "+key, err)
		r.FailIf(e.Key != key || e.Rev != have.Rev || e.Version != have.Version || string(e.Value) != string(have.Value),
			"survey of %s returned %+v, but get returned %+v", key, e, have)
		r.FailIf(asked.Exists() && !asked.Same(e), "survey of %s called its function with %+v, but returned %+v", key, asked, e)
		slices.Sort(strangers)
		keys := harness.Keys(want)
		r.FailIf(!slices.Equal(strangers, slices.Sorted(slices.Values(keys))), "strangers under %s are %q, want %q", key, strangers, keys)
	}
	shows(r.key("never"), "")
	shows(r.key("never/there"), r.key("never/there/known"))
	dir := s.dir("d")
	shows(dir, "")
	near := s.dir("d2") // its key begins with dir
	s.enqueue(near, "x")
	known := s.put(dir+"/known", "x", 0)
	shows(dir, "")
	shows(dir, known.Key)
	s.enqueue(known.Key, "x") // a grandchild of dir
	s.put(dir+"/notes", "x", 0)
	shows(dir, known.Key)
	shows(dir, "")
	a, b := s.enqueue(dir, "x"), other.enqueue(dir, "x")
	s.sees(b)
	shows(dir, known.Key, a, b)
	c := s.create(dir+"/seat", "x")
	shows(dir, known.Key, a, b, c)
	shows(dir, "", a, b, c)
	s.delete(a, c)
	shows(dir, known.Key, b)
	other.delete(b)
	s.misses(b.Key)
	shows(dir, known.Key)
	var many []backend.Entry
	for range 12 {
		many = append(many, s.enqueue(dir, "x"))
	}
	shows(dir, known.Key, many...)
	// A crowd below the known key, and elections beside it, are no strangers.
	for range 150 {
		s.enqueue(known.Key, "x")
	}
	for i := range 20 {
		s.create(s.put(fmt.Sprintf("%s/m%02d/e", dir, i), "", 0).Key+"/seat", "x")
	}
	shows(dir, known.Key, many...)
	strange := []backend.Entry{other.create(dir+"/694d", "x"), other.create(dir+"/mmm", "x"), other.create(dir+"/zz", "x")}
	s.sees(strange...)
	shows(dir, known.Key, append(many, strange...)...)
}

func readChildren(r *run) {
	s := r.session()
	shows := func(key string, want ...backend.Entry) {
		all := slices.Sorted(slices.Values(harness.Keys(want)))
		for most := len(want) + 1; most > 0; most-- {
			keys, more, err := s.Children(r.ctx, key, most)
			r.Must("children of "+key, err)
			slices.Sort(keys)
			switch {
			case most >= len(want) && (more || !slices.Equal(keys, all)):
				r.Failf("children of %s, %d at most, are %q, with more: %t; want %q", key, most, keys, more, all)
			case most < len(want) && (!more || len(keys) > most || slices.ContainsFunc(keys, func(key string) bool { return !slices.Contains(all, key) })):
				r.Failf("children of %s, %d at most, are %q, with more: %t; all children are %q", key, most, keys, more, all)
			}
		}
	}
	shows(r.key("never"))
	shows(r.key("never/there"))
	dir := s.dir("d")
	shows(dir)
	near := s.dir("d2") // its key begins with dir
	s.enqueue(near, "x")
	queued := s.enqueue(dir, "x")
	notes := s.put(dir+"/notes", "x", 0)
	shows(dir, queued, notes)
	seat := s.create(dir+"/seat", "x")
	s.enqueue(notes.Key, "x") // a grandchild of dir
	shows(dir, queued, notes, seat)
	before := s.put(dir+"/n", "x", 0) // its key is a prefix of other keys
	deep := s.put(before.Key+"/o/p", "x", 0)
	shows(dir, queued, notes, seat, before)
	shows(backend.Parent(deep.Key), deep)
	shows(deep.Key)
	s.delete(seat, queued)
	shows(dir, notes, before)
	first := dir[:1+strings.IndexByte(dir[1:], '/')]
	keys, more, err := s.Children(r.ctx, "/", 1000)
	r.Must("children of /", err)
	r.FailIf(!more && !slices.Contains(keys, first), "children of / are %q, without %s", keys, first)
	for _, key := range keys {
		r.FailIf(backend.CheckKey(key) != nil || backend.Parent(key) != "/", "children of / include %q", key)
	}
}

func readList(r *run) {
	s, other := r.session(), r.session()
	l := s.list(r.key("never"))
	r.FailIf(len(l.Keys) != 0 || l.Dir != r.key("never"), "list of a directory that does not exist is %+v", l)
	dir := s.dir("d")
	last := s.list(dir)
	r.FailIf(len(last.Keys) != 0 || last.Dir != dir, "list of an empty directory is %+v", last)
	change := func(what string) {
		now := s.list(dir)
		r.FailIf(now.Rev <= last.Rev, "%s: the listing's revision was %d, and %d is not higher", what, last.Rev, now.Rev)
		last = now
	}
	a := s.enqueue(dir, "x")
	change("enqueue")
	s.create(dir+"/seat", "x")
	s.put(dir+"/record", "x", 0)
	near := s.dir("d2") // its key begins with dir
	s.enqueue(near, "x")
	last = s.list(dir)
	b := other.enqueue(dir, "x")
	s.sees(b)
	change("enqueue by another session")
	c := s.enqueue(dir, "x")
	change("enqueue")
	s.lists(dir, a, b, c)
	if now := s.list(dir); now.Rev != last.Rev {
		r.Failf("nothing changed, but the listing's revision went from %d to %d", last.Rev, now.Rev)
	}
	s.set(a, "y") // a new value does not make it younger
	s.lists(dir, a, b, c)
	last = s.list(dir)
	s.delete(b)
	change("delete")
	s.lists(dir, a, c)
	d := s.enqueue(dir, "x")
	s.lists(dir, a, c, d)
	other.lists(dir, a, c, d)
}

func readForeign(r *run) {
	s := r.session()
	dir := s.dir("d")
	put := func(key string) {
		r.Must(fmt.Sprintf("foreign put of %q", key), r.Service.Put(key, []byte("\xfffo\x00reign")))
	}
	names := []string{"x", "-", "_", "_c_", "_c_short-lock-", "n_0000000001", "lock-0000000000", "0000000000", "-0000000001",
		"9999999999", "-2147483648", "99999999999999999999999", "%zz", "s1-", "a b", "ünï", "leader", "~"}
	for _, name := range names {
		put(dir + "/" + name)
	}
	a := s.enqueue(dir, "x")
	name := a.Key[len(dir)+1:]
	for _, odd := range []string{"~" + name, name + "~", name + "-", name[1:] + "!"} {
		put(dir + "/" + odd)
	}
	put(dir + "/deep/" + name)
	put(dir + "x/" + name)
	b := s.enqueue(dir, "y")
	c := s.enqueue(dir, "z")
	for _, name := range names {
		put(dir + "/" + name + ".late")
	}
	r.Until(dir+" lists only the enqueued entries", func() bool {
		return slices.Equal(s.list(dir).Keys, []string{a.Key, b.Key, c.Key})
	})
	s.comesAfter(a, backend.Entry{})
	s.comesAfter(b, a)
	s.comesAfter(c, b)
	waiting, listing := s.await(b), s.awaitList(s.list(dir))
	put(dir + "/another")
	waiting.blocked("only a foreign entry was put")
	s.discard(b)
	isGone(waiting)
	listing.value()
	s.comesAfter(c, a)
	// A foreign entry that a strategy reads may hold anything, too.
	got := s.get(dir + "/leader")
	r.FailIf(string(got.Value) != "\xfffo\x00reign" || got.Session != "", "get of a foreign entry returned %+v", got)
}

func readPredecessor(r *run) {
	s, other, dir := r.pair()
	is := s.comesAfter
	none := backend.Entry{}
	s.create(dir+"/older", "x")
	a := s.enqueue(dir, "a")
	is(a, none)
	s.create(dir+"/seat", "x")
	s.put(dir+"/record", "x", 0)
	s.enqueue(s.dir("d2"), "x")
	b, c := other.enqueue(dir, "b"), s.enqueue(dir, "c")
	d := s.enqueue(dir, "d")
	s.sees(b)
	is(a, none)
	is(c, b)
	is(d, c)
	is(b, a)
	s.delete(c)
	is(d, b)
	other.delete(b)
	s.misses(b.Key)
	is(d, a)
	a = s.set(a, "new value")
	is(d, a)
	s.delete(a)
	is(d, none)
	another := d // an incarnation that never existed
	another.Rev++
	for _, gone := range []backend.Entry{a, b, c, another} {
		_, err := s.Predecessor(r.ctx, gone)
		r.Refused("predecessor of an entry that is gone", err, backend.ErrNoEntry)
	}
	// One of many, which go in any order.
	queue := []backend.Entry{d}
	for i := range 30 {
		queue = append(queue, s.enqueue(dir, fmt.Sprint(i)))
	}
	for i := 0; len(queue) > 1; i += 7 {
		last := len(queue) - 1
		at := i % last
		is(queue[last], queue[last-1])
		s.delete(queue[at])
		queue = slices.Delete(queue, at, at+1)
	}
	is(queue[0], none)
}

// comesAfter checks that before is the predecessor of e.
func (s sess) comesAfter(e, before backend.Entry) {
	if got := s.predecessor(e); !got.Same(before) || string(got.Value) != string(before.Value) || got.Session != before.Session {
		s.r.Failf("predecessor of %s is %+v, want %+v", e.Key, got, before)
	}
}
