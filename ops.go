package elector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/elector-go/elector/backend"
)

// An Op is one write of Term.Commit to one persistent key. Make it with Create, Put, CompareAndSet or
// Delete.
type Op struct {
	kind    OpKind
	key     string
	value   []byte
	version uint64
}

// An OpKind says what an Op does.
type OpKind int

const (
	OpCreate OpKind = iota + 1
	OpPut
	OpCompareAndSet
	OpDelete
)

// Kind, Key, Value and Version return the arguments of the function that made the op, for fakes and
// recorders of Term.Commit. What was not given is zero.
func (o Op) Kind() OpKind    { return o.kind }
func (o Op) Key() string     { return o.key }
func (o Op) Value() []byte   { return o.value }
func (o Op) Version() uint64 { return o.version }

// Create writes a key that must not exist (ErrConflict). Missing ancestors are made.
func Create(key string, value []byte) Op {
	return Op{kind: OpCreate, key: key, value: value}
}

// Put writes a key, whether or not it exists. Missing ancestors are made. It needs a read before the
// commit; CompareAndSet does not.
func Put(key string, value []byte) Op {
	return Op{kind: OpPut, key: key, value: value}
}

// CompareAndSet writes a key that must be at this version (ErrConflict): the backend.Entry.Version that a
// read or an earlier Commit returned. A key that was deleted and made again has its first versions again:
// change a key by writing to it. If several writers may write the same value over the same version, one
// that lost its reply may mistake another's write for its own: make values unique, for example with a
// random part.
func CompareAndSet(key string, value []byte, version uint64) Op {
	return Op{kind: OpCompareAndSet, key: key, value: value, version: version}
}

// Delete removes a key that must exist (backend.ErrNoEntry) and have no keys below it (ErrConflict). It
// needs a read before the commit.
func Delete(key string) Op {
	return Op{kind: OpDelete, key: key}
}

// check validates an op before anything is read or sent.
func (o Op) check() error {
	if o.kind == 0 {
		return errors.New("empty Op: make it with Create, Put, CompareAndSet or Delete")
	}
	if o.kind == OpCompareAndSet && o.version == 0 {
		return fmt.Errorf("%s: version 0 is that of no entry: use Create for a key that must not exist", o.key)
	}
	return backend.CheckKey(o.key)
}

// checkOps validates the ops of a commit.
func (t *seat) checkOps(ops []Op) error {
	if len(ops) == 0 {
		return errors.New("no ops given")
	}
	keys := make(map[string]bool, len(ops))
	for _, op := range ops {
		if err := op.check(); err != nil {
			return err
		}
		if keys[op.key] {
			return fmt.Errorf("%s: two ops on one key: a commit may write each key once", op.key)
		}
		keys[op.key] = true
		if t.reserved(op.key) {
			return fmt.Errorf("%s belongs to the election itself: write to keys of your own", op.key)
		}
	}
	return nil
}

// reserved reports whether a key is part of the election's layout.
func (t *seat) reserved(key string) bool {
	if key == t.e.cfg.Election {
		return true
	}
	if t.e.foreign {
		return key == t.claim.Entry.Key || slices.ContainsFunc(t.claim.Conditions, func(g backend.Condition) bool { return g.Entry.Key == key })
	}
	dir := backend.Parent(t.claim.Entry.Key)
	return key == dir || strings.HasPrefix(key, dir+"/")
}

// inOrder sorts ops so that none needs the effect of a later one: a Put of a key makes its missing
// ancestors, and a Delete needs the keys below to be gone.
func inOrder(ops []Op) []Op {
	return slices.SortedFunc(slices.Values(ops), func(a, b Op) int {
		switch deletes := b.kind == OpDelete; {
		case (a.kind == OpDelete) != deletes:
			if deletes {
				return -1
			}
			return 1
		case deletes:
			a, b = b, a
		}
		return strings.Compare(a.key, b.key)
	})
}

// plan turns ops into those of the contract, each with its version or incarnation. It reads what an op
// does not specify. With again, it also reads and compares what an op specifies: a commit was refused,
// perhaps because of that.
func plan(ctx context.Context, s *backend.Session, ops []Op, again bool) ([]backend.Op, error) {
	planned := make([]backend.Op, len(ops))
	for i, op := range ops {
		says := op.kind == OpCreate || op.kind == OpCompareAndSet
		if says && !again {
			planned[i] = backend.CompareAndSet(op.key, op.value, op.version)
			continue
		}
		e, err := s.Get(ctx, op.key)
		if err != nil && !(errors.Is(err, backend.ErrNoEntry) && op.kind != OpDelete) {
			return nil, err
		}
		switch {
		case op.kind == OpCreate && e.Exists():
			return nil, fmt.Errorf("%s exists already, at version %d: %w", op.key, e.Version, backend.ErrConflict)
		case op.kind == OpCompareAndSet && !e.Exists():
			return nil, fmt.Errorf("%s does not exist, and is to be at version %d: %w", op.key, op.version, backend.ErrConflict)
		case op.kind == OpCompareAndSet && e.Version != op.version:
			return nil, fmt.Errorf("%s is at version %d, not %d: %w", op.key, e.Version, op.version, backend.ErrConflict)
		case !says && e.Session != "":
			return nil, fmt.Errorf("%s is an ephemeral entry, of session %s: %w", op.key, e.Session, backend.ErrConflict)
		case op.kind == OpDelete:
			planned[i] = backend.Delete(e)
		default:
			planned[i] = backend.CompareAndSet(op.key, op.value, e.Version)
		}
	}
	return planned, nil
}

// samePlan reports whether nothing that was read has changed between two plans.
func samePlan(a, b []backend.Op) bool {
	return slices.EqualFunc(a, b, func(x, y backend.Op) bool { return x.Rev == y.Rev && x.Version == y.Version })
}
