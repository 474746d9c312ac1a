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
	{
		Name:   "own entry taken for the new one",
		Breaks: "Create of a key that this session has made before succeeds, with the entry that stands there.",
		Rules:  rules{Backend: {"write/create-ephemeral", "lost-reply/refused"}, "unfair": {"sharing/one-election"}},
		session: calls(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			made, err := c.by(ctx, s)
			if isExists(err) && len(c.ops) == 1 {
				if e, got := s.Get(ctx, c.ops[0].Key); got == nil && e.Session == s.ID() {
					return []backend.Entry{e}, nil
				}
			}
			return made, err
		})),
	}, {
		Name:   "enqueued entry looked up by age",
		Breaks: "Enqueue returns the youngest entry of the directory, which may be another's by then.",
		Rules:  rules{Backend: {"write/enqueue"}},
		session: calls(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
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
		})),
	}, {
		Name:   "missing parent made",
		Breaks: "Create and Enqueue make the directory where it is missing.",
		Rules:  rules{Backend: {"write/atomic", "await/operator"}},
		session: calls(refused(backend.ErrNoParent, func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			dir := c.ops[0].Key
			if c.ops[0].Kind == backend.OpCreateEphemeral {
				dir = backend.Parent(dir)
			}
			_, _ = s.Commit(ctx, nil, backend.CompareAndSet(dir, nil, 0)) // otherwise it is refused again
			return c.by(ctx, s)
		})),
	}, {
		Name:    "put over any version",
		Breaks:  "Put writes over whatever version there is.",
		Rules:   rules{Backend: {"write/compare-and-set", "lost-reply/refused"}, "fair": {"fence/conflict"}},
		session: calls(asks(overwrite)),
	}, {
		Name:   "version compared before the write",
		Breaks: "Put compares the version first and writes then, in two steps.",
		Rules:  rules{Backend: {"write/compare-and-set"}},
		session: calls(asks(func(ctx context.Context, s *backend.Session, c *commit) {
			asked := slices.Clone(c.ops)
			overwrite(ctx, s, c)
			for i, op := range asked {
				if op.Version != c.ops[i].Version {
					c.ops = asked // which is refused
					return
				}
			}
			gap()
			overwrite(ctx, s, c)
		})),
	}, {
		Name:   "set brings back what is gone",
		Breaks: "Set of an entry that is gone makes a new one.",
		Rules:  rules{Backend: {"write/update"}},
		session: calls(refused(backend.ErrNoEntry, func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			if c.is(backend.OpUpdate) {
				c.ops = []backend.Op{backend.CompareAndSet(c.ops[0].Key, c.ops[0].Value, 0)}
			}
			return c.by(ctx, s)
		})),
	}, {
		Name:   "update takes the entry over",
		Breaks: "Update of another session's ephemeral entry makes it the writer's.",
		Rules:  rules{Backend: {"write/update-of-anothers"}},
		session: calls(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
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
		})),
	}, {
		Name:   "delete of what is gone succeeds",
		Breaks: "Delete of an entry that is gone returns no error.",
		Rules:  rules{Backend: {"write/update", "lost-reply/refused"}, "fair": {"fence/stalled"}},
		session: calls(refused(backend.ErrNoEntry, func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			if c.is(backend.OpDelete) {
				return []backend.Entry{{Key: c.ops[0].Key}}, nil
			}
			return c.by(ctx, s)
		})),
	}, {
		Name:   "ops done one by one",
		Breaks: "The ops of a commit are done one after the other, and those before one that fails stay done.",
		Rules: rules{
			Backend: {"write/atomic", "write/compare-and-set-parent", "write/conflict", "write/too-large"},
			"fair":  {"fence/commit", "fence/conflict", "fence/too-large"},
		},
		session: calls(commits(inParts(1))),
	}, {
		Name:   "half of the limit of bytes",
		Breaks: "Commits of more than half of the bytes that the service takes are refused.",
		Rules:  rules{Backend: {"write/too-large"}, "fair": {"fence/too-large"}},
		session: calls(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			size := 0
			for _, op := range c.ops {
				size += len(op.Value)
			}
			if size > memtest.MaxBytes/2 {
				return nil, backend.ErrTooLarge
			}
			return c.by(ctx, s)
		})),
	}, {
		Name:   "value ends at the first zero",
		Breaks: "Values are stored up to their first zero byte.",
		Rules:  rules{Backend: {"write/values"}},
		session: calls(asks(func(_ context.Context, _ *backend.Session, c *commit) {
			for i := range c.ops {
				c.ops[i].Value, _, _ = bytes.Cut(c.ops[i].Value, []byte{0})
			}
		})),
	}, {
		Name:   "keys silently cleaned",
		Breaks: "A key that cannot be stored is rewritten instead of refused.",
		Rules:  rules{Backend: {"write/keys"}},
		session: calls(gets(func(ctx context.Context, s *backend.Session, key string) (backend.Entry, error) {
			return s.Get(ctx, path.Join("/", key))
		})),
	}, {
		Name:   "no more than 32 segments",
		Breaks: "A key of more than 32 segments is ErrTooLarge where it has to be made with all above it.",
		Rules:  rules{Backend: {"write/key-limits"}},
		session: calls(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			for _, op := range c.ops {
				if op.Kind == backend.OpCompareAndSet && op.Version == 0 && op.Check() == nil && strings.Count(op.Key, "/") > 32 {
					return nil, fmt.Errorf("%.40q: %w", op.Key, backend.ErrTooLarge)
				}
			}
			return c.by(ctx, s)
		})),
	}, {
		Name:    "end of the numbers is the end",
		Breaks:  "That a directory takes no more is an error like any other, and ends the campaign.",
		Rules:   rules{Backend: {"write/used-up"}, "fair": {"data/used-up"}},
		session: calls(told(backend.ErrUsedUp, errors.New("no number left"))),
	}, {
		Name:   "removed with all in it",
		Breaks: "Delete of a directory first deletes what stands in it.",
		Rules:  rules{"fair": {"remove/in-use", "remove/any-time"}},
		session: calls(refused(backend.ErrConflict, func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			if c.is(backend.OpDelete) {
				l, _ := s.List(ctx, c.ops[0].Key) // what is not deleted has it refused again
				for _, key := range l.Keys {
					if e, err := s.Get(ctx, key); err == nil {
						_, _ = s.Commit(ctx, nil, backend.Delete(e))
					}
				}
			}
			return c.by(ctx, s)
		})),
	}, {
		Name:   "emptied and not deleted",
		Breaks: "Delete of a persistent entry only takes its value away.",
		Rules:  rules{"fair": {"remove/leaves-nothing"}},
		session: calls(asks(func(ctx context.Context, s *backend.Session, c *commit) {
			for i, op := range c.ops {
				if e, err := s.Get(ctx, op.Key); op.Kind == backend.OpDelete && err == nil && e.Session == "" {
					c.ops[i] = backend.Update(e, nil)
				}
			}
		})),
	}, {
		Name:    "revisions that do not rise",
		Breaks:  "Commit tells of revisions of which every other is lower than the one before.",
		Rules:   rules{Backend: {"write/revisions"}},
		session: calls(tellsRevision(func(rev uint64) uint64 { return (rev - 1) ^ 1 + 1 })),
	}, {
		Name:    "revisions as floating point",
		Breaks:  "Commit tells of revisions that have gone through a float64, as those of JSON in other languages do.",
		Rules:   rules{Backend: {"write/revisions"}},
		session: calls(tellsRevision(func(rev uint64) uint64 { return uint64(float64(rev)) })),
	},
}

// tellsRevision has Commit tell of another revision of what it has made.
func tellsRevision(other func(uint64) uint64) worsening {
	return answering(func(c *backend.Call) {
		for i, e := range c.Entries {
			if e.Exists() {
				c.Entries[i].Rev = other(e.Rev)
			}
		}
	}, backend.CallCommit)
}

// overwrite lets CompareAndSets expect the version that is there now.
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

// inParts does a commit of more ops than that in several.
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
	{
		Name:    "held asks for the version",
		Breaks:  "The condition that an entry exists fails when it has a new value.",
		Rules:   rules{Backend: {"condition/holds"}, "fair": {"fence/guard"}},
		session: calls(exact(true)),
	}, {
		Name:    "unchanged asks for no version",
		Breaks:  "The condition that an entry is unchanged holds as long as there is the entry.",
		Rules:   rules{Backend: {"condition/holds"}, "kafka": {"epoch/raised"}},
		session: calls(exact(false)),
	}, {
		Name:   "question not asked",
		Breaks: "A commit of guards without ops always succeeds.",
		Rules:  rules{Backend: {"condition/holds"}, "fair": {"fence/guard"}},
		session: calls(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			if len(c.ops) == 0 {
				return nil, nil
			}
			return c.by(ctx, s)
		})),
	}, {
		Name:   "drop not confirmed",
		Breaks: "Drop returns at once and does its work a little later.",
		Rules:  rules{Backend: {"discard/confirmed"}, "fair": {"leave/withdraw", "cancel/every-stage"}},
		session: calls(drops(func(ctx context.Context, s *backend.Session, e backend.Entry) error {
			time.AfterFunc(s.TTL()/20, func() { _ = s.Discard(context.WithoutCancel(ctx), e) })
			return nil
		})),
	}, {
		Name:   "drop of anybody's",
		Breaks: "Drop removes an entry that is another session's, or nobody's.",
		Rules:  rules{Backend: {"discard/confirmed"}},
		session: calls(drops(func(ctx context.Context, s *backend.Session, e backend.Entry) error {
			if e.Session == s.ID() {
				return s.Discard(ctx, e)
			}
			_, err := s.Commit(ctx, nil, backend.Delete(e))
			return err
		})),
	}, {
		Name:   "drop given up with its context",
		Breaks: "A Drop whose context ends before it could be sent is not done in the background.",
		Rules:  rules{Backend: {"discard/background"}, "fair": {"cancel/out-of-touch"}},
		session: calls(drops(func(ctx context.Context, s *backend.Session, e backend.Entry) error {
			if _, err := s.Get(ctx, e.Key); err != nil && !isNoEntry(err) {
				return err
			}
			return s.Discard(ctx, e)
		})),
	}, {
		Name:   "withdrawn entry forgotten",
		Breaks: "Drop says that the entry is gone, and removes nothing.",
		Rules:  rules{Backend: {"discard/confirmed"}, "fair": {"leave/withdraw", "cancel/handover", "sharing/close-one"}},
		session: calls(drops(func(ctx context.Context, s *backend.Session, e backend.Entry) error {
			_, err := s.Get(ctx, e.Key) // for the errors of the call itself
			if isNoEntry(err) {
				return nil
			}
			return err
		})),
	},
}

// exact has all guards ask for the version, or none.
func exact(all bool) worsening {
	return asks(func(_ context.Context, _ *backend.Session, c *commit) {
		for i := range c.conditions {
			c.conditions[i].Exact = all
		}
	})
}
