package register

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector/backend"
)

// format is the version of the document's format.
const format = 1

// A document is all that the object holds.
type document struct {
	// Elector is the format. It is also the mark by which a document is known.
	Elector int `json:"elector"`
	// Seq is the number of the swap that wrote this document, and Nonce makes its text unique: a store may
	// answer a swap that changes nothing without looking at the tag.
	Seq   uint64 `json:"seq"`
	Nonce uint64 `json:"nonce"`
	// Rev is the revision of the last commit.
	Rev      uint64            `json:"rev"`
	Sessions map[string]record `json:"sessions"`
	Entries  map[string]entry  `json:"entries"`
}

// A record is a session. The session is over when its record is gone, and only then.
type record struct {
	TTL time.Duration `json:"ttl"`
	// Beat rises with each swap of the session.
	Beat uint64 `json:"beat"`
	// Slot is the nonce of the session's last swap: it tells whether a swap without a reply was done.
	Slot uint64 `json:"slot"`
}

// An entry is a backend.Entry without its key.
type entry struct {
	Value   []byte `json:"value,omitempty"`
	Rev     uint64 `json:"rev"`
	Version uint64 `json:"version"`
	Session string `json:"session,omitempty"`
	Queued  bool   `json:"queued,omitempty"` // its name sorts by age
}

// decode returns the document in an object; nil, if there is none.
func decode(object []byte) (*document, error) {
	if object == nil {
		return nil, nil
	}
	var d document
	if err := json.Unmarshal(object, &d); err != nil {
		return nil, fmt.Errorf("%w: %w: give this election an object of its own", ErrForeign, err)
	}
	switch {
	case d.Elector <= 0:
		return nil, fmt.Errorf("%w: it has no format: give this election an object of its own", ErrForeign)
	case d.Elector > format:
		return nil, fmt.Errorf("%w: it has format %d; this program knows formats up to %d: run the same release everywhere", errLater, d.Elector, format)
	case max(d.Seq, d.Rev) == math.MaxUint64:
		return nil, fmt.Errorf("%w: there is no number after its seq or rev: delete it", ErrForeign)
	}
	maps.DeleteFunc(d.Entries, func(_ string, e entry) bool { return e.Rev == 0 || e.Version == 0 })
	return &d, nil
}

// errLater means that a later release has written the object.
var errLater = errors.New("the object is of a later release")

// encode returns the document's text.
func (d *document) encode() ([]byte, error) { return json.Marshal(d) }

// next returns a copy for the next swap. d may be nil: there is no object.
func (d *document) next(nonce uint64, now time.Time) *document {
	n := &document{Elector: format, Seq: 1, Nonce: nonce, Sessions: make(map[string]record), Entries: make(map[string]entry)}
	if d != nil {
		n.Seq, n.Rev = d.Seq+1, d.Rev
		maps.Copy(n.Sessions, d.Sessions)
		for key, e := range d.Entries {
			if _, lives := n.Sessions[e.Session]; lives || e.Session == "" { // else an operator has removed the record only
				n.Entries[key] = e
			}
		}
	}
	// Not below a clock: so revisions rise even if an operator deletes the object or restores an old one.
	n.Rev = max(n.Rev+1, uint64(max(now.UnixMilli(), 0))<<10)
	return n
}

// drop removes a session and its entries.
func (d *document) drop(id string) {
	delete(d.Sessions, id)
	maps.DeleteFunc(d.Entries, func(_ string, e entry) bool { return e.Session == id })
}

// at returns the entry under a key.
func (d *document) at(key string) backend.Entry {
	if d == nil {
		return backend.Entry{Key: key}
	}
	e := d.Entries[key]
	return backend.Entry{Key: key, Value: e.Value, Rev: e.Rev, Version: e.Version, Session: e.Session}
}

// below returns the keys directly under key that satisfy is, sorted.
func (d *document) below(key string, is func(entry) bool) (keys []string) {
	if d == nil {
		return nil
	}
	for k, e := range d.Entries {
		if backend.Parent(k) == key && is(e) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

func (d *document) list(dir string) backend.Listing {
	l := backend.Listing{Dir: dir, Keys: d.below(dir, func(e entry) bool { return e.Queued })}
	if d != nil {
		l.Rev = d.Seq
	}
	return l
}

// predecessor returns the youngest enqueued entry in e's directory that is older than e.
func (d *document) predecessor(e backend.Entry) (before backend.Entry, err error) {
	if d.at(e.Key).Rev != e.Rev || !e.Exists() {
		return before, backend.ErrNoEntry
	}
	for _, key := range d.list(backend.Parent(e.Key)).Keys {
		if at := d.at(key); at.Rev < e.Rev {
			before = at
		}
	}
	return before, nil
}

// holds returns nil if all conditions hold.
func (d *document) holds(conditions []backend.Condition) error {
	for _, c := range conditions {
		if !c.Holds(d.at(c.Entry.Key)) {
			return of(c.Entry.Key, backend.ErrCondition)
		}
	}
	return nil
}

// A keyError is about another key than the call.
type keyError struct {
	key string
	err error
}

func (e *keyError) Error() string { return fmt.Sprintf("of %s: %v", e.key, e.err) }
func (e *keyError) Unwrap() error { return e.err }

func of(key string, err error) error { return &keyError{key, err} }

// commit applies ops in the name of a session, at d's revision, and returns the entry that each leaves. After
// an error d is of no use.
func (d *document) commit(session string, ops []backend.Op) ([]backend.Entry, error) {
	out := make([]backend.Entry, len(ops))
	for i, op := range ops {
		e, err := d.apply(session, op)
		if err != nil {
			return nil, of(op.Key, err)
		}
		out[i] = e
	}
	return out, nil
}

func (d *document) apply(session string, op backend.Op) (backend.Entry, error) {
	e, queued := d.at(op.Key), d.Entries[op.Key].Queued
	switch op.Kind {
	case backend.OpCreateEphemeral:
		if err := d.mayHold(backend.Parent(op.Key)); err != nil {
			return e, err
		}
		if e.Exists() {
			return e, backend.ErrExists
		}
		e.Session = session
	case backend.OpEnqueue:
		if err := d.mayHold(op.Key); err != nil {
			return e, err
		}
		// One commit enqueues once in a directory, so the revision makes the name unique.
		e, queued = backend.Entry{Key: fmt.Sprintf("%s/n%016x", op.Key, d.Rev), Session: session}, true
	case backend.OpCompareAndSet:
		if e.Version != op.Version {
			return e, fmt.Errorf("version is %d, not %d: %w", e.Version, op.Version, backend.ErrConflict)
		}
		if !e.Exists() {
			if err := d.makeParents(op.Key); err != nil {
				return e, err
			}
		}
	case backend.OpUpdate, backend.OpDelete:
		if !e.Exists() || e.Rev != op.Rev {
			return e, backend.ErrNoEntry
		}
		if op.Kind == backend.OpDelete {
			return d.remove(op.Key)
		}
	}
	e.Value, e.Version = bytes.Clone(op.Value), e.Version+1
	if e.Rev == 0 {
		e.Rev = d.Rev
	}
	d.Entries[e.Key] = entry{e.Value, e.Rev, e.Version, e.Session, queued}
	return e, nil
}

func (d *document) remove(key string) (backend.Entry, error) {
	for other := range d.Entries {
		if strings.HasPrefix(other, key+"/") {
			return backend.Entry{}, fmt.Errorf("%s is below it: %w", other, backend.ErrConflict)
		}
	}
	delete(d.Entries, key)
	return backend.Entry{Key: key}, nil
}

// mayHold returns nil if entries can be made directly under key.
func (d *document) mayHold(key string) error {
	switch e := d.at(key); {
	case key == "/":
	case !e.Exists():
		return backend.ErrNoParent
	case e.Session != "":
		return fmt.Errorf("%s is ephemeral and cannot have children: %w", key, backend.ErrNoParent)
	}
	return nil
}

// makeParents makes the missing ancestors of a key.
func (d *document) makeParents(key string) error {
	parent := backend.Parent(key)
	if parent != "/" && !d.at(parent).Exists() {
		if err := d.makeParents(parent); err != nil {
			return err
		}
		d.Entries[parent] = entry{Rev: d.Rev, Version: 1}
	}
	return d.mayHold(parent)
}
