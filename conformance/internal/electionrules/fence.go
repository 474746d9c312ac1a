package electionrules

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
)

var fenceRules = []rule{
	promise("fence/commit", fenceCommit, needs{needCommit},
		"A commit does all its ops at one instant and returns the entries as they are then. Get returns at once what this term and earlier leaders have written."),
	promise("fence/conflict", fenceConflict, needs{needCommit},
		"A commit that finds an entry in another state than it expects is refused as a whole, with ErrConflict or ErrNoEntry, and the term continues."),
	promise("fence/bad-input", fenceBadInput, needs{needCommit},
		"A commit that cannot be right is refused before anything is written, with an error that names the key, and the term continues."),
	promise("fence/too-large", fenceTooLarge, needs{needCommit},
		"A commit over the service's limit of bytes or ops is refused with ErrTooLarge, which names the limit. Nothing is written, and the term continues."),
	promise("fence/ended", fenceEnded, needs{"Delete", "Expire", needCommit},
		"Once a term has ended, Commit, Proclaim and Get return ErrDeposed and the cause of the end. In a commit of any session, the conditions of Guard hold until then, and return ErrCondition afterwards."),
	promise("fence/frozen", fenceFrozen, needs{"Delete", "Expire", needCommit, needBackend},
		"A deposed leader that does not know of its end cannot write: its first write is refused with ErrDeposed, and ends its term."),
	promise("fence/queued", fenceQueued, needs{"Delete", "Suspend", needCommit, needBackend},
		"Writes that wait for the link while leadership moves are not done when the link is back."),
	promise("fence/stalled", fenceStalled, needs{"Delete", "Expire", needCommit, needBackend},
		"A commit that is delayed on its way while leadership moves is refused. A commit that others of its own term overtake succeeds."),
	promise("fence/overdue", fenceOverdue, needs{needCommit, needBackend},
		"A leader whose window has passed does not write, even if no timer has told it yet and the service would accept the write."),
	promise("fence/race", fenceRace, needs{needCommit, needBackend},
		"Of many commits that race with the end of their term, those that succeed come before the end, and none comes after it."),
	promise("fence/lost-and-cut", fenceLostAndCut, needs{"CutReply", needCommit, needSuspend},
		"A commit whose outcome is unknown when its term ends returns ErrIndeterminate, not sooner, and is done once or not at all."),
	promise("fence/cancel", fenceCancel, needs{"Suspend", "CutReply", needCommit},
		"A commit whose ctx ends returns ctx's error, with ErrIndeterminate if it may have been done, and the term continues."),
	promise("fence/late", fenceLate, needs{"DelayRequest", needCommit, needBackend},
		"If a Commit or Proclaim returned ErrIndeterminate, it is no longer applied once a later write of the term to the same key has succeeded."),
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
			a.reads(t, w.after(s, made))
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
		a.reads(t, all)
	}
}

// putAtOnce writes one key from several goroutines. All writes must succeed.
func (a *arena) putAtOnce(t *elector.Term, e backend.Entry) {
	var all []*committing
	for range 8 {
		all = append(all, a.startCommit(t, elector.Put(e.Key, newValue)))
	}
	versions := map[uint64]bool{e.Version: true}
	for _, p := range all {
		made, err := p.result()
		a.Must("one of several puts of one key at once", err)
		a.FailIf(versions[made[0].Version], "two puts of one key returned version %d", made[0].Version)
		versions[made[0].Version] = true
	}
}

// observeAll waits in another session for a change of any of the entries, and then reads them all.
func (a *arena) observeAll(s shelf) <-chan shelf {
	a.seen(s...)
	session, ctx := a.operator.look(), a.within()
	seen := make(chan shelf, 1)
	go func() {
		defer close(seen)
		_, err := session.Await(ctx, s...)
		var now shelf
		if err == nil {
			now, err = a.getAll(session, s)
		}
		if err == nil { // on an error the operator's session was lost, which proves nothing
			seen <- now
		}
	}()
	return seen
}

// getAll reads the current entries of the keys.
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
		a.FailIf(!e.Same(got[i]) || string(e.Value) != string(got[i].Value), "%s sees %+v, want %+v", who, got[i], e)
	}
}

// reads reads with the term's Get, and compares.
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

// refused tries a commit that must be refused with want, if it is not nil, and with an error that
// contains says. The term continues.
func (a *arena) refused(t *elector.Term, what string, want error, says string, ops ...elector.Write) {
	_, err := a.tryCommit(t, ops...)
	a.FailIf(err == nil || !strings.Contains(err.Error(), says), "%s: error %s does not say %q", what, harness.Text(err), says)
	a.isNot(what, err, elector.ErrDeposed, elector.ErrIndeterminate)
	if conflicts := []error{elector.ErrConflict, backend.ErrNoEntry}; !slices.Contains(conflicts, want) {
		a.isNot(what, err, conflicts...)
	}
	if want != nil {
		a.Refused(what, err, want)
	}
	a.holds(t)
}

func fenceConflict(a *arena) {
	_, t := a.lead()
	s := a.stock(t, "shelf")
	below := a.commit(t, elector.Create(a.own("dir"), nil), elector.Create(a.own("dir/below"), nil))
	alien := a.made("create an ephemeral entry", backend.CreateEphemeral(a.own("alien"), nil))[0]
	at := func(key string, version uint64) elector.Write { return elector.CompareAndSet(key, newValue, version) }
	for _, x := range []struct {
		what string
		op   func() elector.Write
		want error
	}{
		{"a create of a key that exists", func() elector.Write { return elector.Create(s[0].Key, newValue) }, elector.ErrConflict},
		{"a compare-and-set at an old version", func() elector.Write { return at(s[0].Key, s[0].Version-1) }, elector.ErrConflict},
		{"a compare-and-set at a future version", func() elector.Write { return at(s[0].Key, s[0].Version+1) }, elector.ErrConflict},
		{"a compare-and-set of a missing key", func() elector.Write { return at(s[2].Key, 1) }, elector.ErrConflict},
		{"a delete of a missing key", func() elector.Write { return elector.Delete(s[2].Key) }, backend.ErrNoEntry},
		{"a delete of a key with others below it", func() elector.Write { return elector.Delete(below[0].Key) }, elector.ErrConflict},
		{"a put over an ephemeral entry", func() elector.Write { return elector.Put(alien.Key, newValue) }, elector.ErrConflict},
		{"a delete of an ephemeral entry", func() elector.Write { return elector.Delete(alien.Key) }, elector.ErrConflict},
	} {
		first, last := elector.Put(s[1].Key, newValue), elector.Create(s[3].Key, newValue)
		a.refused(t, x.what, x.want, "", x.op())
		a.refused(t, x.what+", one of 3 ops", x.want, "", first, x.op(), last)
		all := a.untouched(append(s[:4:4], below...)...)
		s, below = all[:4], all[4:]
	}
	a.effect(writes[0], s, a.commit(t, writes[0].ops(s)...))
	a.holds(t)
}

func fenceBadInput(a *arena) {
	_, t := a.lead()
	a.speak(t)
	s := a.stock(t, "shelf")
	refused := func(what, says string, ops ...elector.Write) { a.refused(t, "a commit with "+what, nil, says, ops...) }
	_, err := a.tryGet(t, "relative")
	a.Refused("Get of a bad key", err, backend.ErrBadKey)
	a.holds(t)
	good := elector.Create(s[2].Key, newValue)
	refused("no write", "writes")
	refused("an empty write", "Write", elector.Write{})
	refused("an empty write beside a good one", "Write", good, elector.Write{})
	refused("version 0", s[3].Key, good, elector.CompareAndSet(s[3].Key, newValue, 0))
	refused("two writes on one key", s[2].Key, good, elector.Put(s[2].Key, newValue))
	refused("two writes on one key", s[0].Key, elector.Delete(s[0].Key), good, elector.Create(s[0].Key, newValue))
	for key, says := range map[string]string{
		"": "key", "relative": "relative", "/": `"/"`, "/a//b": "/a//b", "/a/": "/a/", "/a/../b": "/a/../b", "/a\x00": "/a",
		"/" + strings.Repeat("x", backend.MaxKey): "key",
	} {
		for _, op := range []elector.Write{elector.Create(key, newValue), elector.Put(key, newValue), elector.CompareAndSet(key, newValue, 1), elector.Delete(key)} {
			what := fmt.Sprintf("a commit with key %.20q", key)
			a.refused(t, what, nil, says, good, op)
			a.refused(t, what, backend.ErrBadKey, says, op)
		}
	}
	reserved := a.reserved(t)
	before, err := a.getAll(t.Guard().Session, reserved)
	a.Must("read", err)
	for _, e := range reserved {
		for _, op := range []elector.Write{
			elector.Create(e.Key, newValue), elector.Put(e.Key, newValue),
			elector.CompareAndSet(e.Key, newValue, max(e.Version, 1)), elector.Delete(e.Key),
		} {
			refused("a key of the election itself", e.Key, op)
			refused("a key of the election itself beside a good one", e.Key, good, op)
		}
	}
	after, err := a.getAll(t.Guard().Session, reserved)
	a.Must("read", err)
	a.agree("the leader", before, after)
	a.effect(writes[0], s, a.commit(t, writes[0].ops(s)...))
	a.holds(t)
}

// reserved returns the known keys of the election's own.
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

// limited tries commits of these values: one within the limit, others over it.
func (a *arena) limited(limit int, within [][]byte, over ...[][]byte) {
	_, t := a.lead()
	s := a.stock(t, "shelf")
	ops := func(dir string, values [][]byte) []elector.Write {
		ops := []elector.Write{elector.Put(s[0].Key, newValue)}
		for i, value := range values {
			ops = append(ops, elector.Create(fmt.Sprintf("%s/%d", a.own(dir), i), value))
		}
		return ops
	}
	for _, values := range over {
		a.refused(t, "a commit over the limit", backend.ErrTooLarge, fmt.Sprint(limit), ops("over", values)...)
	}
	s = a.untouched(append(s, backend.Entry{Key: a.own("over")})...)
	a.commit(t, ops("within", within)...)
	a.holds(t)
}
