package backend

import (
	"fmt"
	"slices"
	"strings"
)

// A Condition is a condition that must hold at the instant of a Commit.
type Condition struct {
	// Entry names the incarnation by Key and Rev.
	Entry Entry
	// Exact asks for the same Version, too.
	Exact bool
}

// IfExists is the condition that this incarnation of e still exists, whatever its value.
func IfExists(e Entry) Condition { return Condition{Entry: e} }

// IfUnchanged is the condition that e still exists at this very version.
func IfUnchanged(e Entry) Condition { return Condition{Entry: e, Exact: true} }

// CheckConditions reports which condition no service can hold, as its key is none: ErrBadKey.
func CheckConditions(conditions []Condition) error {
	for _, g := range conditions {
		if err := CheckKey(g.Entry.Key); err != nil {
			return err
		}
	}
	return nil
}

// OpKind tells what an Op does.
type OpKind int

const (
	OpCreateEphemeral OpKind = iota + 1
	OpEnqueue
	OpCompareAndSet
	OpUpdate
	OpDelete
)

// String returns the kind's name.
func (k OpKind) String() string {
	switch k {
	case OpCreateEphemeral:
		return "create-ephemeral"
	case OpEnqueue:
		return "enqueue"
	case OpCompareAndSet:
		return "compare-and-set"
	case OpUpdate:
		return "update"
	case OpDelete:
		return "delete"
	}
	return fmt.Sprintf("OpKind(%d)", int(k))
}

// An Op is one write of a Commit. Make it with CreateEphemeral, Enqueue, CompareAndSet, Update or Delete.
type Op struct {
	Kind OpKind
	// Key is the entry's key; for Enqueue the directory's.
	Key   string
	Value []byte
	// Rev is the incarnation that Update and Delete are about.
	Rev uint64
	// Version is what CompareAndSet expects.
	Version uint64
}

// Ephemeral tells whether the op makes an entry that dies with the session.
func (o Op) Ephemeral() bool { return o.Kind == OpCreateEphemeral || o.Kind == OpEnqueue }

// Check reports why no service can do the op, or nil: its kind, its key (CheckKey) or,
// for Enqueue, a directory of more than MaxDir bytes or with MaxSegments segments, in which
// no key has room. The error is ErrBadKey, but for an unknown kind.
func (o Op) Check() error {
	if o.Kind < OpCreateEphemeral || o.Kind > OpDelete {
		return fmt.Errorf("unknown operation %v: make it with CreateEphemeral, Enqueue, CompareAndSet, Update or Delete", o.Kind)
	}
	if err := CheckKey(o.Key); err != nil || o.Kind != OpEnqueue {
		return err
	}
	if len(o.Key) > MaxDir {
		return fmt.Errorf("directory of %d bytes is too long to enqueue in: at most %d: %w", len(o.Key), MaxDir, ErrBadKey)
	}
	if strings.Count(o.Key, "/") == MaxSegments {
		return fmt.Errorf("directory %q has %d segments: at most %d to enqueue in: %w", o.Key, MaxSegments, MaxSegments-1, ErrBadKey)
	}
	return nil
}

// checkOps reports the first op that no service can do, and a key that two of them are about.
func checkOps(ops []Op) error {
	type subject struct {
		key     string
		enqueue bool // in it, which is not about it
	}
	about := make(map[subject]bool)
	for _, op := range ops {
		if err := op.Check(); err != nil {
			return err
		}
		of := subject{op.Key, op.Kind == OpEnqueue}
		switch {
		case about[of] && of.enqueue:
			return fmt.Errorf("two operations enqueue in %s: one commit can do one", op.Key)
		case about[of]:
			return fmt.Errorf("two operations are about %s: one commit can do one", op.Key)
		}
		about[of] = true
	}
	return nil
}

// CreateEphemeral makes an ephemeral entry under key, unless there is one (ErrExists). The
// parent of key must exist (ErrNoParent).
func CreateEphemeral(key string, value []byte) Op {
	return Op{Kind: OpCreateEphemeral, Key: key, Value: value}
}

// Enqueue makes an ephemeral entry in dir, under a new key chosen by the backend
// and younger than all entries there. dir must exist (ErrNoParent). From some moment
// on it may take no more entries (ErrUsedUp).
func Enqueue(dir string, value []byte) Op {
	return Op{Kind: OpEnqueue, Key: dir, Value: value}
}

// CompareAndSet writes a persistent entry by compare-and-set: version is the one that must
// be there, or 0 for a key that must not exist; ErrConflict otherwise. Missing
// ancestors of key are made, and stand for the ops after it. Where a lost reply must
// be told from another's write, the value has to be unique, for example by a random
// part. An ephemeral entry under key is written like any other, and stays its session's.
func CompareAndSet(key string, value []byte, version uint64) Op {
	return Op{Kind: OpCompareAndSet, Key: key, Value: value, Version: version}
}

// Update writes a new value to this incarnation of e, whatever its version. An ephemeral entry
// stays its session's, whichever session writes.
func Update(e Entry, value []byte) Op {
	return Op{Kind: OpUpdate, Key: e.Key, Rev: e.Rev, Value: value}
}

// Delete removes this incarnation of e, unless it has children (ErrConflict).
func Delete(e Entry) Op { return Op{Kind: OpDelete, Key: e.Key, Rev: e.Rev} }

func cloned(ops []Op) []Op {
	ops = slices.Clone(ops)
	for i := range ops {
		ops[i].Value = slices.Clone(ops[i].Value)
	}
	return ops
}
