package backend

import (
	"fmt"
	"slices"
	"strings"
)

// A Condition must hold at the instant of a Commit.
type Condition struct {
	// Entry names the incarnation by Key and Rev.
	Entry Entry
	// Exact requires the same Version, too.
	Exact bool
}

// IfExists is the condition that this incarnation of e still exists, with any value.
func IfExists(e Entry) Condition { return Condition{Entry: e} }

// IfUnchanged is the condition that e still exists at exactly this version.
func IfUnchanged(e Entry) Condition { return Condition{Entry: e, Exact: true} }

// Holds reports whether the condition holds if now is what its key has. It is for services that do not compare
// incarnations by themselves.
func (c Condition) Holds(now Entry) bool {
	return now.Exists() && now.Rev == c.Entry.Rev && (!c.Exact || now.Version == c.Entry.Version)
}

// CheckConditions returns ErrBadKey for the first condition whose key is not valid, or nil.
func CheckConditions(conditions []Condition) error {
	for _, g := range conditions {
		if err := CheckKey(g.Entry.Key); err != nil {
			return err
		}
	}
	return nil
}

// OpKind is the kind of an Op.
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
	// Rev names the incarnation for Update and Delete.
	Rev uint64
	// Version is the version that CompareAndSet expects.
	Version uint64
}

// Ephemeral reports whether the op creates an entry that dies with the session.
func (o Op) Ephemeral() bool { return o.Kind == OpCreateEphemeral || o.Kind == OpEnqueue }

// Check reports why no service can do the op, or nil. It checks the kind, the key (CheckKey) and, for
// Enqueue, that keys have room in the directory: at most MaxDir bytes and fewer than MaxSegments segments.
// The error is ErrBadKey, except for an unknown kind.
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

// checkOps reports the first op that no service can do, or that is about the same key as an earlier one.
func checkOps(ops []Op) error {
	type subject struct {
		key     string
		enqueue bool // an op that enqueues in key is not about key
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

// CreateEphemeral is the op that creates an ephemeral entry under key. The error is ErrExists if there is
// one, and ErrNoParent if the parent of key does not exist.
func CreateEphemeral(key string, value []byte) Op {
	return Op{Kind: OpCreateEphemeral, Key: key, Value: value}
}

// Enqueue is the op that creates an ephemeral entry in dir, under a new key that the backend chooses,
// younger than all entries there. dir must exist (ErrNoParent). From some moment on dir may take no more
// entries (ErrUsedUp).
func Enqueue(dir string, value []byte) Op {
	return Op{Kind: OpEnqueue, Key: dir, Value: value}
}

// CompareAndSet is the op that writes a persistent entry if the version under key is the given one, where 0
// means that key must not exist; otherwise the error is ErrConflict. Missing ancestors of key are created,
// and exist for the ops after it. If a lost reply must be told from another's write, the value must be
// unique, for example by a random part. An ephemeral entry under key is written like any other, and remains
// its session's.
func CompareAndSet(key string, value []byte, version uint64) Op {
	return Op{Kind: OpCompareAndSet, Key: key, Value: value, Version: version}
}

// Update is the op that writes a new value to this incarnation of e, at any version. An ephemeral entry
// remains its session's, whichever session writes.
func Update(e Entry, value []byte) Op {
	return Op{Kind: OpUpdate, Key: e.Key, Rev: e.Rev, Value: value}
}

// Delete is the op that removes this incarnation of e, unless it has children (ErrConflict).
func Delete(e Entry) Op { return Op{Kind: OpDelete, Key: e.Key, Rev: e.Rev} }

func cloned(ops []Op) []Op {
	ops = slices.Clone(ops)
	for i := range ops {
		ops[i].Value = slices.Clone(ops[i].Value)
	}
	return ops
}
