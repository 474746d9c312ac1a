package backendrules

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
)

var awaitRules = []rule{
	promise("await/wakes", awaitWakes,
		"Await returns when one of its entries is created, changed, deleted or created again, by this session or another. If that happened before the call, it returns at once."),
	promise("await/blocks", awaitBlocks,
		"Await blocks while its entries do not change, even if others change and many session timeouts pass, and ends with its context. An old wait and an old session work like new ones."),
	promise("await/several", awaitSeveral,
		"When any of its entries changes, even the last of many, Await returns the current state of each entry, in the order given. So do many waits of one session at once."),
	promise("await/in-order", awaitInOrder,
		"Await never shows a later change without the earlier changes of its other entries: if the own entry was deleted before its predecessor, it never shows the own entry and no predecessor."),
	promise("await/snapshot", awaitSnapshot,
		"The states of several entries that Await returns all existed at one moment, however fast the entries change."),
	promise("await/nothing-missed", awaitNothingMissed,
		"No change between a read and the Await that follows is missed."),
	promise("await/again", awaitAgain,
		"Await works again after another Await of the entry was cancelled or has returned, and shows what exists then. Many Awaits may wait for the same entry."),
	promise("await/own-writes", awaitOwnWrites,
		"An Await that gets its notices late does not return a state that a later write of its session has ended.",
		"HoldWakeups"),
	promise("await/operator", awaitOperator,
		"When an operator deletes a directory with everything in it, every Await of an entry there returns.",
		"Delete"),
}

func awaitWakes(r *run) {
	s, other, dir := r.pair()
	for _, by := range []sess{other, s} {
		for _, before := range []bool{true, false} {
			made := false // again, and another session may be told of the deletion first
			wakes := func(known backend.Entry, change func() backend.Entry) (now backend.Entry) {
				if known.Exists() {
					s.sees(known)
				}
				var waiting *task[[]backend.Entry]
				if before {
					now = change()
					waiting = s.await(known)
				} else {
					waiting = s.waits(known)
					now = change()
				}
				got := one(waiting)
				if made && by != s && !got.Exists() {
					got = one(s.await(got))
				}
				if got.Key != now.Key || !got.Same(now) || string(got.Value) != string(now.Value) || got.Session != now.Session {
					r.Failf("await of %+v, which became %+v, returned %+v", known, now, got)
				}
				return now
			}
			delete := func(e backend.Entry) backend.Entry {
				return wakes(e, func() backend.Entry { by.delete(e); return backend.Entry{Key: e.Key} })
			}
			for _, e := range by.threeKinds(dir) {
				e = wakes(e, func() backend.Entry { return by.set(e, string(e.Value)) }) // the same value is a change, too
				delete(wakes(e, func() backend.Entry { return by.set(e, "y") }))
			}
			// Absent: in a directory, and in one that does not exist yet.
			for _, key := range []string{dir + "/new", r.key(fmt.Sprintf("not-yet-%s-%t/new", by.ID(), before))} {
				put := func() backend.Entry { return by.put(key, "x", 0) }
				e := wakes(backend.Entry{Key: key}, put)
				if before {
					made = true
					by.delete(wakes(e, func() backend.Entry { by.delete(e); return put() }))
					made = false
				} else {
					delete(e)
				}
				s.misses(key)
			}
		}
	}
}

func awaitBlocks(r *run) {
	s, other := r.open(r.client()), r.session()
	dir := s.dir("d")
	e, absent := s.enqueue(dir, "x"), backend.Entry{Key: dir + "/seat"}
	waiting, cancelled := s.await(e), s.await(e, absent)
	other.sees(e)
	f := other.enqueue(dir, "y")
	other.set(f, "z")
	other.delete(f, other.create(dir+"/seat2", "x"))
	cancelled.blocked("only other entries changed")
	s.misses(f.Key) // a list may be older than that
	coming, listing := s.waits(absent), s.waitsList(s.list(dir))
	time.Sleep(max(time.Duration(r.times(0, 250))*r.Service.TTL, s.TTL()*5/4)) // on fake time: hours
	cancelled.blocked("only time passed")
	cancelled.stop()
	cancelled.fails("await with a context that ended", context.Canceled)
	for _, t := range []*task[[]backend.Entry]{waiting, coming} {
		t.blocked("only time passed")
	}
	listing.blocked("only time passed")
	second := other.enqueue(dir, "x")
	got := listing.value()
	r.FailIf(!slices.Equal(got.Keys, []string{e.Key, second.Key}), "an old AwaitList returned %q", got.Keys)
	became(coming, other.create(absent.Key, "x")) // after that, as it may change the directory's list, too
	other.delete(e)
	isGone(waiting)
	s.lives()
}

func awaitSeveral(r *run) {
	s, other, dir := r.pair()
	var known []backend.Entry
	const many = 20
	for i := range many {
		known = append(known, s.enqueue(dir, fmt.Sprint(i)))
	}
	known = append(known, backend.Entry{Key: dir + "/seat"}, known[0]) // the same entry twice is allowed
	shows := func(waiting *task[[]backend.Entry], want ...backend.Entry) {
		now := waiting.value()
		is := func(a, b backend.Entry) bool { return a.Same(b) && string(a.Value) == string(b.Value) }
		r.FailIf(!slices.EqualFunc(now, want, is), "the entries are %+v, but await returned %+v", want, now)
	}
	other.sees(known[:many]...)
	for _, i := range []int{2, many - 1, 1, many * 3 / 4} {
		var each []*task[[]backend.Entry]
		for _, e := range known {
			each = append(each, s.await(e))
		}
		bare := slices.Clone(known) // the known entries stay as they are, and need no values
		for k := range bare {
			bare[k].Value = nil
		}
		waiting := s.waits(bare...)
		other.delete(known[i])
		known[i] = backend.Entry{Key: known[i].Key}
		shows(waiting, known...)
		isGone(each[i])
		for k, one := range each {
			if k != i {
				one.blocked("another entry has changed")
				one.stop()
			}
		}
	}

	// One waits for two entries of a directory; another for one of them, and one elsewhere.
	near, next, far := s.enqueue(dir, "near"), s.enqueue(dir, "next"), s.enqueue(s.dir("e"), "far")
	other.sees(far)
	together, apart := s.waits(near, next), s.waits(near, far)
	shows(together, near, other.set(next, "changed"))
	apart.blocked("neither of its entries has changed")
	shows(apart, near, other.set(far, "changed"))
}

func awaitInOrder(r *run) {
	s, other, dir := r.pair()
	rounds := r.times(30, 200)
	for i := range rounds {
		before := other.enqueue(dir, "predecessor")
		own := s.enqueue(dir, "own")
		s.sees(before)
		other.sees(own)
		// Two orders; the deletes come while the calls begin, or when they wait.
		var waiting []*task[[]backend.Entry]
		for k := range 4 {
			waiting = append(waiting, s.await([][]backend.Entry{{own, before}, {before, own}}[k%2]...))
		}
		if i%4 == 0 {
			waiting[0].blocked("nothing happened")
		}
		for range i % 16 {
			runtime.Gosched()
		}
		other.delete(own, before)
		for k, w := range waiting {
			now := w.value()
			r.FailIf(len(now) != 2, "await of 2 entries returned %d", len(now))
			o, b := now[k%2], now[1-k%2]
			r.FailIf(o.Exists(), "the own entry was deleted before its predecessor; await shows it as %+v, and the predecessor as %+v", o, b)
		}
	}
}

// awaitSnapshot changes entries as fast as possible. Each commit also makes a mark, whose revision shows
// the order. What Await shows must have existed at one moment.
func awaitSnapshot(r *run) {
	s, other := r.session(), r.session()
	dirs := []string{s.dir("a"), s.dir("b")}
	other.sees(s.get(dirs[1]))
	rounds := r.times(5, 30)
	for i := range rounds {
		// Two exist and will be deleted, two do not and will be made.
		known := append(other.commit(backend.Enqueue(dirs[0], nil), backend.CompareAndSet(fmt.Sprintf("%s/c%d", dirs[1], i), nil, 0)),
			backend.Entry{Key: fmt.Sprintf("%s/d%d", dirs[0], i)}, backend.Entry{Key: fmt.Sprintf("%s/e%d", dirs[1], i)})
		s.sees(known[1])
		var watching []*task[[][]backend.Entry]
		for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}} {
			watching = append(watching, start(r, "await of entries that change", func(ctx context.Context) ([][]backend.Entry, error) {
				return s.follow(ctx, known, order)
			}))
		}
		if i%2 == 0 {
			watching[0].blocked("nothing happened")
		}
		var writing []*task[life]
		for k, e := range known {
			writing = append(writing, start(r, "changes of an entry", func(ctx context.Context) (life, error) {
				return other.live(ctx, e, fmt.Sprintf("%s/mark%d-%d-", dirs[0], i, k))
			}))
		}
		var lives []life
		for _, w := range writing {
			lives = append(lives, w.value())
		}
		for _, w := range watching {
			for _, seen := range w.value() {
				r.stood(seen, lives)
			}
		}
	}
}

// A life is the states of an entry, one after the other, each with the revision of its beginning.
type life []stage

type stage struct {
	entry backend.Entry
	since uint64
}

// lastValue is the value of an entry that does not change any more.
const lastValue = "last"

// live changes an entry several times, and deletes it in the end if it existed at first.
func (s sess) live(ctx context.Context, e backend.Entry, mark string) (life, error) {
	const changes = 12
	all := life{{entry: e}}
	for i := range changes {
		op := backend.Update(e, nil)
		switch end := i == changes-1; {
		case i == 0 && !e.Exists():
			op = backend.CreateEphemeral(e.Key, nil)
		case end && all[0].entry.Exists():
			op = backend.Delete(e)
		case end:
			op.Value = []byte(lastValue)
		}
		made, err := s.Commit(ctx, nil, op, backend.CreateEphemeral(mark+fmt.Sprint(i), nil))
		if err != nil {
			return nil, err
		}
		e = made[0]
		all = append(all, stage{e, made[1].Rev})
	}
	return all, nil
}

// follow awaits entries, in this order, until they do not change any more. It returns the entries that
// each Await returned, in the order of known.
func (s sess) follow(ctx context.Context, known []backend.Entry, order []int) (seen [][]backend.Entry, err error) {
	at := make([]backend.Entry, len(known))
	for i, k := range order {
		at[i] = known[k]
	}
	for over := false; !over; {
		if at, err = s.Await(ctx, at...); err != nil {
			return nil, err
		}
		over = true
		now := make([]backend.Entry, len(known))
		for i, k := range order {
			now[k] = at[i]
			over = over && (known[k].Exists() && !at[i].Exists() || string(at[i].Value) == lastValue)
		}
		seen = append(seen, now)
	}
	return seen, nil
}

// stood checks that there was a moment at which these entries all existed as they are here.
func (r *run) stood(seen []backend.Entry, lives []life) {
	from, until := uint64(0), uint64(math.MaxUint64)
	for k, e := range seen {
		at := slices.IndexFunc(lives[k], func(was stage) bool { return was.entry.Same(e) })
		r.FailIf(at < 0, "await returned %+v, a state that never existed", e)
		from = max(from, lives[k][at].since)
		if at+1 < len(lives[k]) {
			until = min(until, lives[k][at+1].since)
		}
	}
	r.FailIf(from >= until, "await returned %+v, states that never existed at the same time: one began at revision %d, and another ended at %d", seen, from, until)
}

func awaitNothingMissed(r *run) {
	s, other, dir := r.pair()
	flag := s.put(r.key("flag"), "0", 0)
	other.sees(flag)
	changes := r.times(40, 400)
	writer := start(r, "writer", func(ctx context.Context) (backend.Entry, error) {
		e := flag
		for i := range changes {
			out, err := other.Commit(ctx, nil, backend.CompareAndSet(e.Key, fmt.Append(nil, i+1), e.Version))
			if err != nil {
				return e, err
			}
			e = out[0]
		}
		return e, nil
	})
	for last := fmt.Sprint(changes); string(flag.Value) != last; {
		// If a change is missed, this hangs at the last one at the latest.
		next := one(s.await(flag))
		r.FailIf(next.Rev != flag.Rev || next.Same(flag), "await of %+v returned %+v", flag, next)
		flag = next
	}
	want := writer.value()
	r.FailIf(!flag.Same(want), "the last change that await returned is %+v, but the last one written is %+v", flag, want)
	// The predecessor goes while its successor is about to wait for it.
	for range changes / 4 {
		e := other.enqueue(dir, "x")
		s.sees(e)
		gone := other.committing("delete", backend.Delete(e))
		isGone(s.await(e))
		gone.value()
	}
}

func awaitAgain(r *run) {
	s, other, dir := r.pair()
	e := other.enqueue(dir, "x")
	s.sees(e)
	cancel := func(t *task[[]backend.Entry]) {
		t.stop()
		t.fails("await with a context that ended", context.Canceled)
	}
	for i := range 20 {
		waiting := s.await(e)
		if i%4 == 0 {
			waiting.blocked("nothing happened")
		}
		cancel(waiting)
	}
	var all []*task[[]backend.Entry]
	for range 20 {
		all = append(all, s.waits(e))
	}
	for _, t := range all[:10] { // the end of some does not end the others
		cancel(t)
	}
	f := other.set(e, "y")
	for _, t := range all[10:] {
		became(t, f)
	}
	last := s.waits(f)
	other.delete(f)
	isGone(last)
	seat := other.create(dir+"/seat", "x")
	for range 3 {
		s.sees(seat)
		waiting := s.waits(seat)
		other.delete(seat)
		isGone(waiting)
		seat = other.create(seat.Key, "x")
		s.refused("CreateEphemeral of an entry that exists again", backend.ErrExists, nil, backend.CreateEphemeral(seat.Key, nil))
		became(s.await(backend.Unknown(seat.Key)), seat)
	}
}

func awaitOwnWrites(r *run) {
	c := r.client()
	s := r.open(c)
	seat := s.create(s.dir("d")+"/seat", "x")
	waiting := s.waits(seat)
	release := sync.OnceFunc(c.HoldWakeups())
	defer release() // if the rule fails before
	s.delete(seat)
	again := s.create(seat.Key, "x")
	next := s.await(seat)
	r.Settle()
	release()
	became(next, again)
	waiting.value()
}

func awaitOperator(r *run) {
	s := r.session()
	dir := s.dir("d")
	a, b, seat := s.enqueue(dir, "x"), s.enqueue(dir, "y"), s.create(dir+"/seat", "x")
	var all []*task[[]backend.Entry]
	for _, known := range [][]backend.Entry{{a}, {b, a}, {seat}, {s.get(dir)}} {
		all = append(all, s.waits(known...))
	}
	before := s.list(dir)
	listing := s.waitsList(before)
	r.Must("operator's delete", r.Service.Delete(dir))
	for _, t := range all {
		now := t.value()
		r.FailIf(!slices.ContainsFunc(now, func(e backend.Entry) bool { return !e.Exists() }), "%s returned %+v after the operator's delete", t.what, now)
	}
	listing.value()
	s.misses(dir)
	s.lives()
	s.refused("enqueue in the deleted directory", backend.ErrNoParent, nil, backend.Enqueue(dir, nil))
	// In the new directory of the same name, nothing of the old one counts.
	s.dir("d")
	c := s.enqueue(dir, "z")
	s.lists(dir, c)
	if now := s.list(dir); now.Rev <= before.Rev {
		r.Failf("the listing of the old directory was %+v, and the listing of the new one, %+v, has no higher revision", before, now)
	}
	s.comesAfter(c, backend.Entry{})
	_, err := s.Predecessor(r.ctx, b)
	r.Refused("predecessor of an entry of the old directory", err, backend.ErrNoEntry)
	s.guarded("an entry of the old directory", backend.IfExists(a), false)
}
