package electionrules

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
)

// own returns a key of the rule's own, outside of the election.
func (a *arena) own(name string) string { return a.path + "-data/" + name }

// A shelf is what a rule writes to: four keys, of which the first two exist. It holds the entries as they
// are known to be.
type shelf []backend.Entry

// stock makes a shelf.
func (a *arena) stock(t *elector.Term, name string) shelf {
	at := func(i int) string { return fmt.Sprintf("%s/%d", a.own(name), i) }
	a.commit(t, elector.Create(at(0), []byte("old")))
	other := a.commit(t, elector.Create(at(1), []byte("old"))) // a write in between: see effect
	again := a.commit(t, elector.Put(at(0), []byte("old")))
	return shelf{again[0], other[0], {Key: at(2)}, {Key: at(3)}}
}

// A write is a commit that a rule tries on a new shelf.
type write struct {
	name    string
	kind    backend.OpKind // its kind in the contract
	changes []change
}

func (w write) String() string { return w.name }

// A change is one op on the shelf's entry number at.
type change struct {
	at int
	op func(e backend.Entry) elector.Write
	// gone says that the op deletes the entry.
	gone bool
}

var newValue = []byte("new")

func create(at int) change {
	return change{at: at, op: func(e backend.Entry) elector.Write { return elector.Create(e.Key, newValue) }}
}

func put(at int) change {
	return change{at: at, op: func(e backend.Entry) elector.Write { return elector.Put(e.Key, newValue) }}
}

func set(at int) change {
	return change{at: at, op: func(e backend.Entry) elector.Write {
		return elector.CompareAndSet(e.Key, newValue, e.Version)
	}}
}

func remove(at int) change {
	return change{at: at, gone: true, op: func(e backend.Entry) elector.Write { return elector.Delete(e.Key) }}
}

// writes has one write of each op, and several ops in one commit.
var writes = []write{
	{"a create", backend.OpCompareAndSet, []change{create(2)}},
	{"a put over an entry", backend.OpCompareAndSet, []change{put(0)}},
	{"a put of a new entry", backend.OpCompareAndSet, []change{put(3)}},
	{"a compare-and-set", backend.OpCompareAndSet, []change{set(0)}},
	{"a delete", backend.OpDelete, []change{remove(1)}},
	{"two deletes", backend.OpDelete, []change{remove(1), remove(0)}},
	{"one of each", backend.OpCompareAndSet, []change{create(2), set(0), put(3), remove(1)}},
}

func (w write) ops(s shelf) []elector.Write {
	ops := make([]elector.Write, len(w.changes))
	for i, c := range w.changes {
		ops[i] = c.op(s[c.at])
	}
	return ops
}

// after returns the shelf after the write has made these entries.
func (w write) after(s shelf, made []backend.Entry) shelf {
	s = slices.Clone(s)
	for i, c := range w.changes {
		s[c.at] = made[i]
	}
	return s
}

// effect checks that the write has had its effect on the shelf exactly once, and that others see what it
// returned.
func (a *arena) effect(w write, s shelf, made []backend.Entry) {
	a.FailIf(len(made) != len(w.changes), "%s of %d ops returned %d entries", w.name, len(w.changes), len(made))
	// If versions count the writes to an entry, and not writes to others in between, a repeated write
	// shows.
	counted := s[0].Version == 2
	var rev uint64
	for i, c := range w.changes {
		old, now := s[c.at], made[i]
		right := now.Key == old.Key && now.Session == ""
		switch {
		case c.gone:
			right = right && !now.Exists() && now.Version == 0
		case old.Exists():
			right = right && now.Rev == old.Rev && now.Version > old.Version && (!counted || now.Version == old.Version+1)
		default:
			right = right && now.Exists() && now.Version == 1 && (rev == 0 || now.Rev == rev)
			rev = now.Rev
		}
		a.FailIf(!right || !c.gone && string(now.Value) != string(newValue), "%s turned %+v into %+v", w.name, old, now)
	}
	a.seen(made...)
}

// seen checks that others see the entries.
func (a *arena) seen(want ...backend.Entry) {
	a.agree("another session", want, a.present(want...))
}

// tryCommit is Commit with the rule's patience.
func (a *arena) tryCommit(t *elector.Term, ops ...elector.Write) ([]backend.Entry, error) {
	made, err := t.Commit(a.within(), ops...)
	a.hist.note("Commit of %d ops in term %d: %v", len(ops), t.Token(), err)
	return made, err
}

// commit is a Commit that must succeed.
func (a *arena) commit(t *elector.Term, ops ...elector.Write) []backend.Entry {
	made, err := a.tryCommit(t, ops...)
	a.Must(fmt.Sprintf("Commit in term %d", t.Token()), err)
	a.FailIf(len(made) != len(ops), "Commit of %d ops returned %d entries", len(ops), len(made))
	return made
}

// proclaim makes the leader publish a value.
func (a *arena) proclaim(t *elector.Term, value string) {
	a.Must("Proclaim", t.Proclaim(a.within(), []byte(value)))
}

// speak makes the leader publish a value, so that no write of the elector's own is still to come.
func (a *arena) speak(t *elector.Term) {
	a.proclaim(t, string(newValue))
}

// isNot fails the rule if err is one of these.
func (a *arena) isNot(what string, err error, none ...error) {
	for _, n := range none {
		a.FailIf(errors.Is(err, n), "%s: error %s is %q, which it must not be", what, harness.Text(err), n)
	}
}

// untouched proves that the entries are as given, and returns them as they are afterwards. The service
// itself compares them, as a read may be outdated.
func (a *arena) untouched(want ...backend.Entry) shelf {
	now := slices.Clone(want)
	a.operate("write over entries that must be unchanged", func(ctx context.Context, s *backend.Session) error {
		ops := make([]backend.Op, len(want))
		for i, e := range want {
			ops[i] = backend.CompareAndSet(e.Key, e.Value, e.Version)
		}
		made, err := s.Commit(ctx, nil, ops...)
		if errors.Is(err, backend.ErrConflict) {
			have, _ := a.getAll(s, want) // only for the failure text
			a.Failf("entries were %+v and are %+v", want, have)
		}
		if err != nil {
			return err
		}
		for i, e := range want {
			if e.Exists() {
				now[i] = made[i]
			} else if _, err = s.Commit(ctx, nil, backend.Delete(made[i])); err != nil {
				return err
			}
		}
		return nil
	})
	return now
}

// present reads the entries of the keys after all earlier writes.
func (a *arena) present(s ...backend.Entry) shelf {
	return readNow(a, "the current entries", func(ctx context.Context, o *backend.Session) (shelf, error) {
		return a.getAll(o, s)
	})
}

// operate does something in the operator's session.
func (a *arena) operate(what string, do func(ctx context.Context, s *backend.Session) error) {
	a.Must(what, do(a.within(), a.operator.look()))
}

// made commits in the operator's session, and returns the entries.
func (a *arena) made(what string, ops ...backend.Op) (made []backend.Entry) {
	a.operate(what, func(ctx context.Context, s *backend.Session) (err error) {
		made, err = s.Commit(ctx, nil, ops...)
		return err
	})
	return made
}

// A committing is a pending Commit.
type committing struct {
	*call
	made []backend.Entry
	held bool // the term was still valid when Commit returned
}

func (a *arena) startCommit(t *elector.Term, ops ...elector.Write) *committing {
	p := &committing{}
	p.call = a.begin(fmt.Sprintf("Commit of %d ops in term %d", len(ops), t.Token()), func(ctx context.Context) (err error) {
		p.made, err = t.Commit(ctx, ops...)
		p.held = t.Valid()
		return err
	})
	return p
}

// startAll starts all the writes on a shelf.
func (a *arena) startAll(t *elector.Term, s shelf) (queue []*committing) {
	for _, w := range writes {
		queue = append(queue, a.startCommit(t, w.ops(s)...))
	}
	a.Settle()
	return queue
}

// result waits for Commit to return.
func (p *committing) result() ([]backend.Entry, error) {
	err := p.call.result()
	return p.made, err
}
