package mutants

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/memtest"
)

// writeMutants break rules about what a commit does.
var writeMutants = []Mutant{
	mutant("own entry taken for the new one",
		rules{Backend: {"write/create-ephemeral", "lost-reply/refused"}, "unfair": {"sharing/one-election"}},
		"CreateEphemeral of a key that this session has created before succeeds and returns the existing entry.",
		ofSession(refused(backend.ErrExists, func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			if e, err := s.Get(ctx, c.ops[0].Key); err == nil && e.Session == s.ID() && len(c.ops) == 1 {
				return []backend.Entry{e}, nil
			}
			return c.by(ctx, s)
		}))),
	mutant("enqueued entry looked up by age", rules{Backend: {"write/enqueue"}},
		"Enqueue returns the youngest entry of the directory, which may be another session's.",
		ofSession(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			made, err := c.by(ctx, s)
			if err != nil || !c.is(backend.OpEnqueue) {
				return made, err
			}
			gap()
			if l, err := s.List(ctx, c.ops[0].Key); err == nil && len(l.Keys) > 0 {
				if e, err := s.Get(ctx, l.Keys[len(l.Keys)-1]); err == nil {
					made[0] = e
				}
			}
			return made, nil
		}))),
	mutant("missing parent made", rules{Backend: {"write/atomic", "await/operator"}},
		"CreateEphemeral and Enqueue create a missing directory.",
		ofSession(refused(backend.ErrNoParent, func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			dir := c.ops[0].Key
			if c.ops[0].Kind == backend.OpCreateEphemeral {
				dir = backend.Parent(dir)
			}
			_, _ = s.Commit(ctx, nil, backend.CompareAndSet(dir, nil, 0)) // if this fails, c is refused again
			return c.by(ctx, s)
		}))),
	mutant("put over any version", rules{Backend: {"write/compare-and-set", "lost-reply/refused"}, "fair": {"fence/conflict"}},
		"CompareAndSet writes over any version.",
		ofSession(asks(overwrite))),
	mutant("version compared before the write", rules{Backend: {"write/compare-and-set"}},
		"CompareAndSet compares the version first and writes in a second step.",
		ofSession(asks(func(ctx context.Context, s *backend.Session, c *commit) {
			asked := slices.Clone(c.ops)
			overwrite(ctx, s, c)
			for i, op := range asked {
				if op.Version != c.ops[i].Version {
					c.ops = asked // the service refuses it
					return
				}
			}
			gap()
			overwrite(ctx, s, c)
		}))),
	mutant("set brings back what is gone", rules{Backend: {"write/update"}},
		"Update of an entry that is gone creates a new one.",
		ofSession(refused(backend.ErrNoEntry, func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			if c.is(backend.OpUpdate) {
				c.ops = []backend.Op{backend.CompareAndSet(c.ops[0].Key, c.ops[0].Value, 0)}
			}
			return c.by(ctx, s)
		}))),
	mutant("update takes the entry over", rules{Backend: {"write/update-of-anothers"}},
		"Update of another session's ephemeral entry makes it the writer's.",
		ofSession(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			if !c.is(backend.OpUpdate) {
				return c.by(ctx, s)
			}
			e, err := s.Get(ctx, c.ops[0].Key)
			if err != nil || e.Session == "" || e.Session == s.ID() {
				return c.by(ctx, s)
			}
			if _, err := s.Commit(ctx, c.conditions, backend.Delete(e)); err != nil {
				return nil, err
			}
			return s.Commit(ctx, nil, backend.CreateEphemeral(e.Key, c.ops[0].Value))
		}))),
	mutant("delete of what is gone succeeds", rules{Backend: {"write/update", "lost-reply/refused"}, "fair": {"fence/stalled"}},
		"Delete of an entry that is gone returns no error.",
		ofSession(refused(backend.ErrNoEntry, func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			if c.is(backend.OpDelete) {
				return []backend.Entry{{Key: c.ops[0].Key}}, nil
			}
			return c.by(ctx, s)
		}))),
	mutant("deletes done last", rules{Backend: {"write/atomic"}},
		"The Deletes of a commit are done after its other ops.",
		ofSession(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			last := func(op backend.Op) int { return max(0, int(op.Kind-backend.OpUpdate)) }
			ops := slices.SortedStableFunc(slices.Values(c.ops), func(a, b backend.Op) int { return last(a) - last(b) })
			made, err := s.Commit(ctx, c.conditions, ops...)
			if err != nil {
				return nil, err
			}
			var inOrder []backend.Entry
			for _, op := range c.ops {
				inOrder = append(inOrder, made[slices.IndexFunc(ops, func(o backend.Op) bool { return o.Kind == op.Kind && o.Key == op.Key })])
			}
			return inOrder, nil
		}))),
	mutant("ops done one by one",
		rules{
			Backend: {"write/atomic", "write/compare-and-set-parent", "write/conflict", "write/too-large"},
			"fair":  {"fence/commit", "fence/conflict", "fence/too-large"},
		},
		"The ops of a commit are done one after the other. If one fails, those before it stay done.",
		ofSession(commits(inParts(1)))),
	mutant("half of the limit of bytes", rules{Backend: {"write/too-large"}, "fair": {"fence/too-large"}},
		"Commits of more than half of the service's limit of bytes are refused.",
		ofSession(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			size := 0
			for _, op := range c.ops {
				size += len(op.Value)
			}
			if size > memtest.MaxBytes/2 {
				return nil, backend.ErrTooLarge
			}
			return c.by(ctx, s)
		}))),
	mutant("long value cut off", rules{Backend: {"write/values"}},
		"Only the first 300,000 bytes of a value are stored.",
		ofSession(asks(func(_ context.Context, _ *backend.Session, c *commit) {
			for i, op := range c.ops {
				c.ops[i].Value = op.Value[:min(len(op.Value), 300_000)]
			}
		}))),
	mutant("value ends at the first zero", rules{Backend: {"write/values"}},
		"A value is stored only up to its first zero byte.",
		ofSession(asks(func(_ context.Context, _ *backend.Session, c *commit) {
			for i := range c.ops {
				c.ops[i].Value, _, _ = bytes.Cut(c.ops[i].Value, []byte{0})
			}
		}))),
	mutant("keys silently cleaned", rules{Backend: {"write/keys"}},
		"A key that cannot be stored is rewritten instead of refused.",
		ofSession(on(backend.CallGet, func(ctx context.Context, s *backend.Session, c *backend.Call) (err error) {
			c.Found, err = s.Get(ctx, path.Join("/", c.Key))
			return err
		}))),
	mutant("no more than 32 segments", rules{Backend: {"write/key-limits"}},
		"A commit that must create a key of more than 32 segments, with its ancestors, returns ErrTooLarge.",
		ofSession(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			for _, op := range c.ops {
				if op.Kind == backend.OpCompareAndSet && op.Version == 0 && op.Check() == nil && strings.Count(op.Key, "/") > 32 {
					return nil, fmt.Errorf("%.40q: %w", op.Key, backend.ErrTooLarge)
				}
			}
			return c.by(ctx, s)
		}))),
	mutant("end of the numbers is the end", rules{Backend: {"write/used-up"}, "fair": {"data/used-up"}},
		"Enqueue in a directory that is used up returns an error that matches no sentinel, which ends the campaign.",
		ofSession(told(backend.ErrUsedUp, errors.New("no number left")))),
	mutant("removed with all in it", rules{"fair": {"remove/in-use", "remove/any-time"}},
		"Delete of a directory first deletes the entries in it.",
		ofSession(refused(backend.ErrConflict, func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			if c.is(backend.OpDelete) {
				l, _ := s.List(ctx, c.ops[0].Key) // c is refused again if an entry remains
				for _, key := range l.Keys {
					if e, err := s.Get(ctx, key); err == nil {
						_, _ = s.Commit(ctx, nil, backend.Delete(e))
					}
				}
			}
			return c.by(ctx, s)
		}))),
	mutant("emptied and not deleted", rules{"fair": {"remove/leaves-nothing"}},
		"Delete of a persistent entry only removes its value.",
		ofSession(asks(func(ctx context.Context, s *backend.Session, c *commit) {
			for i, op := range c.ops {
				if e, err := s.Get(ctx, op.Key); op.Kind == backend.OpDelete && err == nil && e.Session == "" {
					c.ops[i] = backend.Update(e, nil)
				}
			}
		}))),
	mutant("revisions that do not rise", rules{Backend: {"write/revisions"}},
		"Commit returns revisions of which every second is lower than the one before.",
		ofSession(tellsRevision(func(rev uint64) uint64 { return (rev - 1) ^ 1 + 1 }))),
	mutant("revisions as floating point", rules{Backend: {"write/revisions"}},
		"Commit returns revisions that were converted to float64 and back, as in JSON of other languages.",
		ofSession(tellsRevision(func(rev uint64) uint64 { return uint64(float64(rev)) }))),
}

// tellsRevision makes Commit return a wrong revision for what it has made.
func tellsRevision(other func(uint64) uint64) worsening {
	return answering(func(c *backend.Call) {
		for i, e := range c.Entries {
			if e.Exists() {
				c.Entries[i].Rev = other(e.Rev)
			}
		}
	}, backend.CallCommit)
}

// overwrite makes CompareAndSets expect the current version.
func overwrite(ctx context.Context, s *backend.Session, c *commit) {
	for i, op := range c.ops {
		if op.Kind != backend.OpCompareAndSet {
			continue
		}
		if e, err := s.Get(ctx, op.Key); err == nil || isNoEntry(err) {
			c.ops[i].Version = e.Version
		}
	}
}

// inParts splits a commit of more than size ops into several.
func inParts(size int) func(context.Context, *backend.Session, commit) ([]backend.Entry, error) {
	return func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
		if len(c.ops) <= size {
			return c.by(ctx, s)
		}
		var made []backend.Entry
		for part := range slices.Chunk(c.ops, size) {
			some, err := s.Commit(ctx, c.conditions, part...)
			if err != nil {
				return nil, err
			}
			made = append(made, some...)
		}
		return made, nil
	}
}

// guardMutants break rules about conditions, and about the removal of entries.
var guardMutants = []Mutant{
	mutant("held asks for the version", rules{Backend: {"condition/holds"}, "fair": {"fence/ended"}},
		"The condition that an entry exists fails if the entry has a new value.",
		ofSession(exact(true))),
	mutant("unchanged asks for no version", rules{Backend: {"condition/holds"}, "kafka": {"epoch/raised"}},
		"The condition that an entry is unchanged holds as long as the entry exists.",
		ofSession(exact(false))),
	mutant("existence checked by the version that was read", rules{Backend: {"condition/own-writes"}},
		"The condition that an entry exists fails if the entry is written to after the commit has read its version.",
		ofSession(asks(func(ctx context.Context, s *backend.Session, c *commit) {
			for i, of := range c.conditions {
				if e, err := s.Get(ctx, of.Entry.Key); err == nil && !of.Exact && e.Rev == of.Entry.Rev {
					c.conditions[i] = backend.IfUnchanged(e)
				}
			}
			gap()
		}))),
	mutant("question not asked", rules{Backend: {"condition/holds"}, "fair": {"fence/ended"}},
		"A commit of conditions without ops always succeeds.",
		ofSession(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			if len(c.ops) == 0 {
				return nil, nil
			}
			return c.by(ctx, s)
		}))),
	mutant("ten conditions at most", rules{Backend: {"condition/holds"}},
		"Commit checks only its first ten conditions.",
		ofSession(asks(func(_ context.Context, _ *backend.Session, c *commit) {
			c.conditions = c.conditions[:min(10, len(c.conditions))]
		}))),
	mutant("drop not confirmed", rules{Backend: {"discard/confirmed"}, "fair": {"leave/withdraw", "cancel/every-stage"}},
		"Discard returns at once and removes the entry a little later.",
		ofSession(drops(func(ctx context.Context, s *backend.Session, e backend.Entry) error {
			time.AfterFunc(s.TTL()/20, func() { _ = s.Discard(context.WithoutCancel(ctx), e) })
			return nil
		}))),
	mutant("drop of anybody's", rules{Backend: {"discard/confirmed"}},
		"Discard removes an entry of another session, or a persistent one.",
		ofSession(drops(func(ctx context.Context, s *backend.Session, e backend.Entry) error {
			if e.Session == s.ID() {
				return s.Discard(ctx, e)
			}
			_, err := s.Commit(ctx, nil, backend.Delete(e))
			return err
		}))),
	mutant("drop given up with its context", rules{Backend: {"discard/background"}, "fair": {"cancel/out-of-touch"}},
		"A Discard whose context ends before it was sent is not done in the background.",
		ofSession(drops(func(ctx context.Context, s *backend.Session, e backend.Entry) error {
			if _, err := s.Get(ctx, e.Key); err != nil && !isNoEntry(err) {
				return err
			}
			return s.Discard(ctx, e)
		}))),
	mutant("withdrawn entry forgotten",
		rules{Backend: {"discard/confirmed"}, "fair": {"leave/withdraw", "cancel/handover", "sharing/close-one"}},
		"Discard returns nil and removes nothing.",
		ofSession(drops(func(ctx context.Context, s *backend.Session, e backend.Entry) error {
			_, err := s.Get(ctx, e.Key) // for the errors of the call itself
			if isNoEntry(err) {
				return nil
			}
			return err
		}))),
}

// exact makes all guards require the version, or none.
func exact(all bool) worsening {
	return asks(func(_ context.Context, _ *backend.Session, c *commit) {
		for i := range c.conditions {
			c.conditions[i].Exact = all
		}
	})
}
