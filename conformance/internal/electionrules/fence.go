package electionrules

import (
	"errors"
	"fmt"
	"strings"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
)

var fenceRules = []rule{
	{
		Name: "fence/commit",
		Text: "A commit does all that it is made of at one instant and returns what there is then; every later leader sees it at once.",
		Need: []string{needCommit},
		Run:  fenceCommit,
	}, {
		Name: "fence/get",
		Text: "Get returns what the term has written, and at once what earlier leaders have; it is ErrDeposed once the term has ended.",
		Need: []string{"Delete", "Expire", needCommit},
		Run:  fenceGet,
	}, {
		Name: "fence/conflict",
		Text: "A commit that finds an entry other than it expects is refused as a whole, with ErrConflict or ErrNoEntry, and the term goes on.",
		Need: []string{needCommit},
		Run:  fenceConflict,
	}, {
		Name: "fence/bad-input",
		Text: "A commit that cannot be right is refused with an error that names the key, before anything is written, and the term goes on.",
		Need: []string{needCommit},
		Run:  fenceBadInput,
	}, {
		Name: "fence/too-large",
		Text: "A commit over the service's limit of bytes, or of ops, is refused with ErrTooLarge, which names it; nothing is written, and the term goes on.",
		Need: []string{needCommit},
		Run:  fenceTooLarge,
	}, {
		Name: "fence/guard",
		Text: "The conditions of Guard hold in anybody's commit for as long as the term does, and fail with ErrCondition afterwards.",
		Need: []string{"Delete", "Expire", needCommit},
		Run:  fenceGuard,
	}, {
		Name: "fence/ended",
		Text: "A Commit or Proclaim after the term has ended is refused with ErrDeposed and the cause of the end, and writes nothing.",
		Need: []string{"Delete", "Expire", needCommit},
		Run:  fenceEnded,
	}, {
		Name: "fence/frozen",
		Text: "A deposed leader that hears nothing of it cannot write: the first try is refused with ErrDeposed, and ends its term.",
		Need: []string{"Delete", "Expire", needCommit, needBackend},
		Run:  fenceFrozen,
	}, {
		Name: "fence/queued",
		Text: "Writes that wait for a link while leadership moves are not done when the link is back.",
		Need: []string{"Delete", "Suspend", needCommit, needBackend},
		Run:  fenceQueued,
	}, {
		Name: "fence/stalled",
		Text: "A commit that is stalled on its way while leadership moves is refused; one beside others of its own term succeeds.",
		Need: []string{"Delete", "Expire", needCommit, needBackend},
		Run:  fenceStalled,
	}, {
		Name: "fence/overdue",
		Text: "A leader whose window has passed does not write, though no timer has told it yet and the service would let it.",
		Need: []string{needCommit, needBackend},
		Run:  fenceOverdue,
	}, {
		Name: "fence/race",
		Text: "Of many commits beside the end of their term, those that succeed come before its end, and none after it.",
		Need: []string{needCommit, needBackend},
		Run:  fenceRace,
	}, {
		Name: "fence/lost-and-cut",
		Text: "A commit whose fate is unknown when its term ends returns ErrIndeterminate, not sooner, and is done once or not at all.",
		Need: []string{"CutReply", needCommit, needSuspend},
		Run:  fenceLostAndCut,
	}, {
		Name: "fence/cancel",
		Text: "A commit whose ctx ends returns ctx's error, or ErrIndeterminate if it may have been done, and the term goes on.",
		Need: []string{"Suspend", "CutReply", needCommit},
		Run:  fenceCancel,
	}, {
		Name: "fence/late",
		Text: "A Commit or Proclaim that was told as ErrIndeterminate is not done any more once a later write of the term to the same key has succeeded.",
		Need: []string{"DelayRequest", needCommit, needBackend},
		Run:  fenceLate,
	},
}

func fenceCommit(a *arena) {
	const leaders = 4
	_, t := a.lead()
	rest := a.queues(leaders)
	for len(rest) > 0 {
		var all shelf
		for i, w := range writes {
			s := a.stock(t, fmt.Sprintf("term-%d-%d", len(rest), i))
			seen := a.observeAll(s)
			made := a.commit(t, w.ops(s)...)
			a.effect(w, s, made)
			if now, ok := <-seen; ok {
				a.agree("another session that has seen a part of it", w.after(s, made), now)
			}
			all = append(all, w.after(s, made)...)
		}
		s := a.stock(t, fmt.Sprintf("term-%d-at-once", len(rest)))
		a.putAtOnce(t, s[0])
		a.holds(t)
		all = append(all, a.commit(t, elector.Create(a.own(fmt.Sprintf("last-%d", len(rest))), newValue))...)
		t = a.passOn(t, &rest)
		now, err := a.getAll(t.Guard().Session, all)
		a.Must("read by the next leader", err)
		a.agree("the next leader", all, now)
	}
}

// putAtOnce writes one key from several goroutines, of which none has to give way.
func (a *arena) putAtOnce(t *elector.Term, e backend.Entry) {
	var all []*committing
	for range 8 {
		all = append(all, a.startCommit(t, elector.Put(e.Key, newValue)))
	}
	versions := map[uint64]bool{e.Version: true}
	for _, p := range all {
		made, err := p.result()
		a.Must("one of several puts of one key at once", err)
		if versions[made[0].Version] {
			a.Failf("two puts of one key returned version %d", made[0].Version)
		}
		versions[made[0].Version] = true
	}
}

// observeAll waits in another session for a change of any of the entries, and then
// reads them all.
func (a *arena) observeAll(s shelf) <-chan shelf {
	a.seen(s...)
	session := a.operator.look()
	seen := make(chan shelf, 1)
	go func() {
		defer close(seen)
		_, err := session.Await(a.within(), s...)
		var now shelf
		if err == nil {
			now, err = a.getAll(session, s)
		}
		if err == nil { // else the operator's session was lost, which proves nothing
			seen <- now
		}
	}()
	return seen
}

// getAll reads what stands under the keys now.
func (a *arena) getAll(session *backend.Session, s shelf) (shelf, error) {
	ctx, now := a.within(), make(shelf, len(s))
	for i, e := range s {
		var err error
		if now[i], err = find(ctx, session, e.Key); err != nil {
			return nil, err
		}
	}
	return now, nil
}

func (a *arena) agree(who string, want, got shelf) {
	for i, e := range want {
		if !e.Same(got[i]) || string(e.Value) != string(got[i].Value) {
			a.Failf("%s sees %+v, want %+v", who, got[i], e)
		}
	}
}

func fenceGet(a *arena) {
	const leaders = 4
	_, t := a.lead()
	rest := a.queues(leaders)
	key, missing := a.own("state"), a.own("missing")
	for term := 1; ; term++ {
		for step := range 3 {
			value := fmt.Sprintf("term %d, step %d", term, step)
			made := a.commit(t, elector.Put(key, []byte(value)))
			a.reads(t, shelf{made[0], {Key: missing}})
		}
		last := a.commit(t, elector.Put(key, []byte("the end")), elector.Put(fmt.Sprintf("%s-%d", key, term), newValue))
		a.resign(t)
		if len(rest) == 0 {
			break
		}
		t = anyWins(a, &rest)
		a.reads(t, last)
	}
	for _, way := range []ending{resigned, closed, expired, overthrow} {
		a.in("the leader "+way.name, func(a *arena) {
			c, t := a.lead()
			s := a.stock(t, "shelf")
			a.reads(t, s)
			_, err := a.tryGet(t, "relative")
			a.Refused("Get of a bad key", err, backend.ErrBadKey)
			a.holds(t)
			way.end(a, c, t)
			a.ends(t, way.cause)
			for _, e := range s {
				_, err := a.tryGet(t, e.Key)
				a.Refused("Get", err, elector.ErrDeposed, way.cause)
				a.isNot("Get", err, backend.ErrNoEntry)
			}
		})
	}
}

// reads reads by the term, and compares.
func (a *arena) reads(t *elector.Term, want shelf) {
	for _, e := range want {
		now, err := a.tryGet(t, e.Key)
		if errors.Is(err, backend.ErrNoEntry) {
			now, err = backend.Entry{Key: e.Key}, nil
		}
		a.Must("Get", err)
		a.agree("Get", shelf{e}, shelf{now})
	}
}

// tryGet is Get with the rule's patience.
func (a *arena) tryGet(t *elector.Term, key string) (backend.Entry, error) {
	return t.Get(a.within(), key)
}

func fenceConflict(a *arena) {
	_, t := a.lead()
	s := a.stock(t, "shelf")
	below := a.commit(t, elector.Create(a.own("dir"), nil), elector.Create(a.own("dir/below"), nil))
	alien := a.ephemeral("alien")
	at := func(key string, version uint64) elector.Op { return elector.CompareAndSet(key, newValue, version) }
	for _, x := range []struct {
		what string
		op   func() elector.Op
		want error
	}{
		{"a create of a key that exists", func() elector.Op { return elector.Create(s[0].Key, newValue) }, elector.ErrConflict},
		{"a compare-and-set at an old version", func() elector.Op { return at(s[0].Key, s[0].Version-1) }, elector.ErrConflict},
		{"a compare-and-set at a version to come", func() elector.Op { return at(s[0].Key, s[0].Version+1) }, elector.ErrConflict},
		{"a compare-and-set of a missing key", func() elector.Op { return at(s[2].Key, 1) }, elector.ErrConflict},
		{"a delete of a missing key", func() elector.Op { return elector.Delete(s[2].Key) }, backend.ErrNoEntry},
		{"a delete of a key with others below it", func() elector.Op { return elector.Delete(below[0].Key) }, elector.ErrConflict},
		{"a put over an ephemeral entry", func() elector.Op { return elector.Put(alien.Key, newValue) }, elector.ErrConflict},
		{"a delete of an ephemeral entry", func() elector.Op { return elector.Delete(alien.Key) }, elector.ErrConflict},
	} {
		first, last := elector.Put(s[1].Key, newValue), elector.Create(s[3].Key, newValue)
		for _, ops := range [][]elector.Op{{x.op()}, {first, x.op(), last}} {
			what := fmt.Sprintf("%s, one of %d ops", x.what, len(ops))
			_, err := a.tryCommit(t, ops...)
			a.Refused(what, err, x.want)
			a.isNot(what, err, elector.ErrDeposed, elector.ErrIndeterminate)
			a.holds(t)
		}
		all := a.untouched(append(s[:4:4], below...)...)
		s, below = all[:4], all[4:]
	}
	w := writes[0]
	a.effect(w, s, a.commit(t, w.ops(s)...))
	a.holds(t)
}

// ephemeral has the operator make an ephemeral entry.
func (a *arena) ephemeral(name string) backend.Entry {
	made, err := a.operator.look().Commit(a.within(), nil, backend.CreateEphemeral(a.own(name), nil))
	a.Must("create "+a.own(name), err)
	return made[0]
}

func fenceBadInput(a *arena) {
	_, t := a.lead()
	a.speak(t)
	s := a.stock(t, "shelf")
	refused := func(what, says string, ops ...elector.Op) {
		_, err := a.tryCommit(t, ops...)
		if err == nil || !strings.Contains(err.Error(), says) {
			a.Failf("a commit with %s: error %s does not say %q", what, harness.Text(err), says)
		}
		a.isNot("a commit with "+what, err, elector.ErrDeposed, elector.ErrConflict, elector.ErrIndeterminate, backend.ErrNoEntry)
		a.holds(t)
	}
	good := elector.Create(s[2].Key, newValue)
	refused("nothing", "op")
	refused("an empty op", "Op", elector.Op{})
	refused("an empty op beside a good one", "Op", good, elector.Op{})
	refused("version 0", s[3].Key, good, elector.CompareAndSet(s[3].Key, newValue, 0))
	refused("two ops on one key", s[2].Key, good, elector.Put(s[2].Key, newValue))
	refused("two ops on one key", s[0].Key, elector.Delete(s[0].Key), good, elector.Create(s[0].Key, newValue))
	for key, says := range map[string]string{
		"": "key", "relative": "relative", "/": `"/"`, "/a//b": "/a//b", "/a/": "/a/", "/a/../b": "/a/../b", "/a\x00": "/a",
		"/" + strings.Repeat("x", backend.MaxKey): "key",
	} {
		for _, op := range []elector.Op{elector.Create(key, newValue), elector.Put(key, newValue), elector.CompareAndSet(key, newValue, 1), elector.Delete(key)} {
			refused(fmt.Sprintf("key %.20q", key), says, good, op)
			_, err := a.tryCommit(t, op)
			a.Refused(fmt.Sprintf("a commit with key %.20q", key), err, backend.ErrBadKey)
		}
	}
	reserved := a.reserved(t)
	before, err := a.getAll(t.Guard().Session, reserved)
	a.Must("read", err)
	for _, e := range reserved {
		for _, op := range []elector.Op{
			elector.Create(e.Key, newValue), elector.Put(e.Key, newValue),
			elector.CompareAndSet(e.Key, newValue, max(e.Version, 1)), elector.Delete(e.Key),
		} {
			refused("a key of the election's own", e.Key, op)
			refused("a key of the election's own beside a good one", e.Key, good, op)
		}
	}
	after, err := a.getAll(t.Guard().Session, reserved)
	a.Must("read", err)
	a.agree("the leader", before, after)
	a.effect(writes[0], s, a.commit(t, writes[0].ops(s)...))
	a.holds(t)
}

// reserved are keys of the election's own, as far as they are known.
func (a *arena) reserved(t *elector.Term) (own shelf) {
	for _, g := range t.Guard().Conditions {
		own = append(own, g.Entry)
	}
	if lacks(*a.cfg, rule{Need: []string{needLayout}}) == "" {
		own = append(own, a.get(a.path), a.get(a.dir()), backend.Entry{Key: a.dir() + "/new"})
	}
	return own
}

func fenceTooLarge(a *arena) {
	if limit := a.Service.MaxBytes; limit > 0 {
		a.in("bytes", func(a *arena) {
			several := make([][]byte, 11)
			for i := range several {
				several[i] = make([]byte, limit/10)
			}
			a.limited(limit, several[:8], several, [][]byte{make([]byte, limit)})
		})
	}
	if limit := a.Service.MaxOps; limit > 0 {
		a.in("ops", func(a *arena) {
			// The conditions of the term count, too.
			a.limited(limit, make([][]byte, limit*9/10), make([][]byte, limit), make([][]byte, 2*limit))
		})
	}
	if a.parts == 0 {
		a.NotApplicable = fmt.Sprintf("no MaxBytes: %s; no MaxOps: %s", a.Service.Reason("MaxBytes"), a.Service.Reason("MaxOps"))
	}
}

// limited tries commits of so many values: one within the limit, others over it.
func (a *arena) limited(limit int, within [][]byte, over ...[][]byte) {
	_, t := a.lead()
	s := a.stock(t, "shelf")
	ops := func(dir string, values [][]byte) []elector.Op {
		ops := []elector.Op{elector.Put(s[0].Key, newValue)}
		for i, value := range values {
			ops = append(ops, elector.Create(fmt.Sprintf("%s/%d", a.own(dir), i), value))
		}
		return ops
	}
	for _, values := range over {
		_, err := a.tryCommit(t, ops("over", values)...)
		a.Refused("a commit over the limit", err, backend.ErrTooLarge)
		a.isNot("a commit over the limit", err, elector.ErrDeposed, elector.ErrConflict, elector.ErrIndeterminate)
		if !strings.Contains(err.Error(), fmt.Sprint(limit)) {
			a.Failf("the limit is %d, and the error does not say so: %q", limit, err)
		}
		a.holds(t)
	}
	s = a.untouched(append(s, backend.Entry{Key: a.own("over")})...)
	a.commit(t, ops("within", within)...)
	a.holds(t)
}
