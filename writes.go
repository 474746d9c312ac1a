package elector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/elector-go/elector/backend"
)

// A Write is one change of Term.Commit to one persistent key. Make it with Create, Put, CompareAndSet or
// Delete.
type Write struct {
	kind    WriteKind
	key     string
	value   []byte
	version uint64
}

// A WriteKind says what a Write does.
type WriteKind int

const (
	WriteCreate WriteKind = iota + 1
	WritePut
	WriteCompareAndSet
	WriteDelete
)

// Kind, Key, Value and Version return the arguments of the function that made the write, for fakes and
// recorders of Term.Commit. What was not given is zero.
func (w Write) Kind() WriteKind { return w.kind }
func (w Write) Key() string     { return w.key }
func (w Write) Value() []byte   { return w.value }
func (w Write) Version() uint64 { return w.version }

// Create writes a key that must not exist (ErrConflict). Missing ancestors are made.
func Create(key string, value []byte) Write {
	return Write{kind: WriteCreate, key: key, value: value}
}

// Put writes a key, whether or not it exists. Missing ancestors are made. It needs a read before the
// commit; CompareAndSet does not.
func Put(key string, value []byte) Write {
	return Write{kind: WritePut, key: key, value: value}
}

// CompareAndSet writes a key that must be at this version (ErrConflict): the backend.Entry.Version that a
// read or an earlier Commit returned. A key that was deleted and made again has its first versions again:
// change a key by writing to it. If several writers may write the same value over the same version, one
// that lost its reply may mistake another's write for its own: make values unique, for example with a
// random part.
func CompareAndSet(key string, value []byte, version uint64) Write {
	return Write{kind: WriteCompareAndSet, key: key, value: value, version: version}
}

// Delete removes a key that must exist (backend.ErrNoEntry) and have no keys below it (ErrConflict). It
// needs a read before the commit.
func Delete(key string) Write {
	return Write{kind: WriteDelete, key: key}
}

// check validates a write before anything is read or sent.
func (w Write) check() error {
	if w.kind == 0 {
		return errors.New("empty Write: make it with Create, Put, CompareAndSet or Delete")
	}
	if w.kind == WriteCompareAndSet && w.version == 0 {
		return fmt.Errorf("%s: version 0 is that of no entry: use Create for a key that must not exist", w.key)
	}
	return backend.CheckKey(w.key)
}

// checkWrites validates the writes of a commit.
func (t *tenure) checkWrites(writes []Write) error {
	if len(writes) == 0 {
		return errors.New("no writes given")
	}
	keys := make(map[string]bool, len(writes))
	for _, w := range writes {
		if err := w.check(); err != nil {
			return err
		}
		if keys[w.key] {
			return fmt.Errorf("%s: two writes on one key: a commit may write each key once", w.key)
		}
		keys[w.key] = true
		if t.reserved(w.key) {
			return fmt.Errorf("%s belongs to the election itself: write to keys of your own", w.key)
		}
	}
	return nil
}

// reserved reports whether a key is part of the election's layout.
func (t *tenure) reserved(key string) bool {
	if key == t.e.cfg.Election {
		return true
	}
	if t.e.election.Foreign {
		return key == t.claim.Entry.Key || slices.ContainsFunc(t.claim.Conditions, func(g backend.Condition) bool { return g.Entry.Key == key })
	}
	dir := backend.Parent(t.claim.Entry.Key)
	return key == dir || strings.HasPrefix(key, dir+"/")
}

// inOrder sorts writes so that none needs the effect of a later one: a Put of a key makes its missing
// ancestors, and a Delete needs the keys below to be gone.
func inOrder(writes []Write) []Write {
	return slices.SortedFunc(slices.Values(writes), func(a, b Write) int {
		switch deletes := b.kind == WriteDelete; {
		case (a.kind == WriteDelete) != deletes:
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

// plan turns writes into ops of the backend, each with its version or incarnation. It reads what a
// write does not specify. With again, it also reads and compares what a write specifies: a commit was refused,
// perhaps because of that.
func plan(ctx context.Context, s *backend.Session, writes []Write, again bool) ([]backend.Op, error) {
	planned := make([]backend.Op, len(writes))
	for i, w := range writes {
		says := w.kind == WriteCreate || w.kind == WriteCompareAndSet
		if says && !again {
			planned[i] = backend.CompareAndSet(w.key, w.value, w.version)
			continue
		}
		e, err := s.Get(ctx, w.key)
		if err != nil && !(errors.Is(err, backend.ErrNoEntry) && w.kind != WriteDelete) {
			return nil, err
		}
		switch {
		case w.kind == WriteCreate && e.Exists():
			return nil, fmt.Errorf("%s exists already, at version %d: %w", w.key, e.Version, backend.ErrConflict)
		case w.kind == WriteCompareAndSet && !e.Exists():
			return nil, fmt.Errorf("%s does not exist, and is to be at version %d: %w", w.key, w.version, backend.ErrConflict)
		case w.kind == WriteCompareAndSet && e.Version != w.version:
			return nil, fmt.Errorf("%s is at version %d, not %d: %w", w.key, e.Version, w.version, backend.ErrConflict)
		case !says && e.Session != "":
			return nil, fmt.Errorf("%s is an ephemeral entry, of session %s: %w", w.key, e.Session, backend.ErrConflict)
		case w.kind == WriteDelete:
			planned[i] = backend.Delete(e)
		default:
			planned[i] = backend.CompareAndSet(w.key, w.value, e.Version)
		}
	}
	return planned, nil
}

// samePlan reports whether nothing that was read has changed between two plans.
func samePlan(a, b []backend.Op) bool {
	return slices.EqualFunc(a, b, func(x, y backend.Op) bool { return x.Rev == y.Rev && x.Version == y.Version })
}
