package mutants

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/memtest"
)

// writeMutants break rules about what a commit does.
func writeMutants() []Mutant {
	return []Mutant{
		{
			Name:   "own entry taken for the new one",
			Breaks: "Create of a key that this session has made before succeeds, with the entry that stands there.",
			Rules:  map[string][]string{Backend: {"write/create-ephemeral", "lost-reply/refused"}, "unfair": {"sharing/one-election"}},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					made, err := s.Commit(ctx, guards, ops...)
					if isExists(err) && len(ops) == 1 {
						if e, got := s.Get(ctx, ops[0].Key); got == nil && e.Session == s.ID() {
							return []backend.Entry{e}, nil
						}
					}
					return made, err
				}
			}),
		},
		{
			Name:   "enqueued entry looked up by age",
			Breaks: "Enqueue returns the youngest entry of the directory, which may be another's by then.",
			Rules:  map[string][]string{Backend: {"write/enqueue"}},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					made, err := s.Commit(ctx, guards, ops...)
					if err != nil {
						return made, err
					}
					gap()
					for i, op := range ops {
						if op.Kind != backend.OpEnqueue {
							continue
						}
						if l, err := s.List(ctx, op.Key); err == nil && len(l.Keys) > 0 {
							if e, err := s.Get(ctx, l.Keys[len(l.Keys)-1]); err == nil {
								made[i] = e
							}
						}
					}
					return made, nil
				}
			}),
		},
		{
			Name:   "missing parent made",
			Breaks: "Create and Enqueue make the directory where it is missing.",
			Rules:  map[string][]string{Backend: {"write/no-parent", "await/operator"}},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					made, err := s.Commit(ctx, guards, ops...)
					if !errors.Is(err, backend.ErrNoParent) {
						return made, err
					}
					dir := ops[0].Key
					if ops[0].Kind == backend.OpCreateEphemeral {
						dir = backend.Parent(dir)
					}
					if _, put := s.Commit(ctx, nil, backend.CompareAndSet(dir, nil, 0)); put != nil {
						return made, err
					}
					return s.Commit(ctx, guards, ops...)
				}
			}),
		},
		{
			Name:   "put over any version",
			Breaks: "Put writes over whatever version there is.",
			Rules:  map[string][]string{Backend: {"write/compare-and-set", "write/compare-and-set-race", "lost-reply/refused"}, "fair": {"fence/conflict"}},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					return s.Commit(ctx, guards, versioned(ctx, s, ops, func(backend.Op, backend.Entry) bool { return true })...)
				}
			}),
		},
		{
			Name:   "version compared before the write",
			Breaks: "Put compares the version first and writes then, in two steps.",
			Rules:  map[string][]string{Backend: {"write/compare-and-set-race"}},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					same := true
					versioned(ctx, s, ops, func(op backend.Op, e backend.Entry) bool {
						same = same && op.Version == e.Version
						return false
					})
					if !same {
						return s.Commit(ctx, guards, ops...)
					}
					gap()
					return s.Commit(ctx, guards, versioned(ctx, s, ops, func(backend.Op, backend.Entry) bool { return true })...)
				}
			}),
		},
		{
			Name:   "set brings back what is gone",
			Breaks: "Set of an entry that is gone makes a new one.",
			Rules:  map[string][]string{Backend: {"write/update"}},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					made, err := s.Commit(ctx, guards, ops...)
					if isNoEntry(err) && len(ops) == 1 && ops[0].Kind == backend.OpUpdate {
						return s.Commit(ctx, guards, backend.CompareAndSet(ops[0].Key, ops[0].Value, 0))
					}
					return made, err
				}
			}),
		},
		{
			Name:   "update takes the entry over",
			Breaks: "Update of another session's ephemeral entry makes it the writer's.",
			Rules:  map[string][]string{Backend: {"write/update-of-anothers"}},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					if len(ops) != 1 || ops[0].Kind != backend.OpUpdate {
						return s.Commit(ctx, guards, ops...)
					}
					e, err := s.Get(ctx, ops[0].Key)
					if err != nil || e.Session == "" || e.Session == s.ID() {
						return s.Commit(ctx, guards, ops...)
					}
					if _, err := s.Commit(ctx, guards, backend.Delete(e)); err != nil {
						return nil, err
					}
					return s.Commit(ctx, nil, backend.CreateEphemeral(e.Key, ops[0].Value))
				}
			}),
		},
		{
			Name:   "delete of what is gone succeeds",
			Breaks: "Delete of an entry that is gone returns no error.",
			Rules:  map[string][]string{Backend: {"write/delete", "lost-reply/refused"}, "fair": {"fence/stalled"}},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					made, err := s.Commit(ctx, guards, ops...)
					if isNoEntry(err) && len(ops) == 1 && ops[0].Kind == backend.OpDelete {
						return []backend.Entry{{Key: ops[0].Key}}, nil
					}
					return made, err
				}
			}),
		},
		{
			Name:   "ops done one by one",
			Breaks: "The ops of a commit are done one after the other, and those before one that fails stay done.",
			Rules: map[string][]string{
				Backend: {"write/atomic", "write/compare-and-set-parent", "write/conflict"},
				"fair":  {"fence/conflict"},
			},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					if len(ops) < 2 {
						return s.Commit(ctx, guards, ops...)
					}
					var made []backend.Entry
					for _, op := range ops {
						one, err := s.Commit(ctx, guards, op)
						if err != nil {
							return nil, err
						}
						made = append(made, one...)
					}
					return made, nil
				}
			}),
		},
		{
			Name:   "ancestors made before the commit",
			Breaks: "The missing ancestors of a Put are made beforehand, and stay when the commit is refused.",
			Rules:  map[string][]string{Backend: {"write/compare-and-set-parent"}},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					for _, op := range ops {
						if op.Kind == backend.OpCompareAndSet && strings.Count(op.Key, "/") > 2 {
							// There may be one already.
							_, _ = s.Commit(ctx, nil, backend.CompareAndSet(backend.Parent(op.Key), nil, 0))
						}
					}
					return s.Commit(ctx, guards, ops...)
				}
			}),
		},
		{
			Name:   "conflict told as a failed guard",
			Breaks: "A commit that finds an entry other than its ops expect returns ErrCondition.",
			Rules:  map[string][]string{Backend: {"write/conflict", "write/compare-and-set", "write/compare-and-set-race"}, "fair": {"fence/conflict"}},
			session: calls(func(s *backend.Session, o *over) {
				o.mapErrors(func(err error) error {
					if errors.Is(err, backend.ErrConflict) {
						return backend.ErrCondition
					}
					return err
				})
			}),
		},
		{
			Name:   "half of the limit of bytes",
			Breaks: "Commits of more than half of the bytes that the service takes are refused.",
			Rules:  map[string][]string{Backend: {"write/too-large"}, "fair": {"fence/too-large"}},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					size := 0
					for _, op := range ops {
						size += len(op.Value)
					}
					if size > memtest.MaxBytes/2 {
						return nil, backend.ErrTooLarge
					}
					return s.Commit(ctx, guards, ops...)
				}
			}),
		},
		{
			Name:   "large commit sent in parts",
			Breaks: "A commit of more ops than the service takes is done in several.",
			Rules:  map[string][]string{Backend: {"write/too-many"}, "fair": {"fence/too-many"}},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					var made []backend.Entry
					for rest := ops; len(made) == 0 || len(rest) > 0; {
						part := rest[:min(len(rest), memtest.MaxOps/2)]
						rest = rest[len(part):]
						some, err := s.Commit(ctx, guards, part...)
						if err != nil || len(ops) == 0 {
							return some, err
						}
						made = append(made, some...)
					}
					return made, nil
				}
			}),
		},
		{
			Name:   "value ends at the first zero",
			Breaks: "Values are stored up to their first zero byte.",
			Rules:  map[string][]string{Backend: {"write/values"}},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					ops = slices.Clone(ops)
					for i := range ops {
						ops[i].Value, _, _ = bytes.Cut(ops[i].Value, []byte{0})
					}
					return s.Commit(ctx, guards, ops...)
				}
			}),
		},
		{
			Name:   "keys silently cleaned",
			Breaks: "A key that cannot be stored is rewritten instead of refused.",
			Rules:  map[string][]string{Backend: {"write/keys"}},
			session: calls(func(s *backend.Session, o *over) {
				o.get = func(ctx context.Context, key string) (backend.Entry, error) {
					return s.Get(ctx, path.Join("/", key))
				}
			}),
		},
		{
			Name:   "no more than 32 segments",
			Breaks: "A key of more than 32 segments is ErrTooLarge where it has to be made with all above it.",
			Rules:  map[string][]string{Backend: {"write/key-limits"}},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					for _, op := range ops {
						if op.Kind == backend.OpCompareAndSet && op.Version == 0 && op.Check() == nil && strings.Count(op.Key, "/") > 32 {
							return nil, fmt.Errorf("%.40q: %w", op.Key, backend.ErrTooLarge)
						}
					}
					return s.Commit(ctx, guards, ops...)
				}
			}),
		},
		{
			Name:   "a character refused",
			Breaks: "Get does not take one of the characters that CheckKey accepts.",
			Rules:  map[string][]string{Backend: {"write/key-limits"}},
			session: calls(func(s *backend.Session, o *over) {
				o.get = func(ctx context.Context, key string) (backend.Entry, error) {
					if strings.ContainsRune(key, '\u2800') {
						return backend.Entry{}, backend.ErrBadKey
					}
					return s.Get(ctx, key)
				}
			}),
		},
		{
			Name:   "removed with all in it",
			Breaks: "Delete of a directory first deletes what stands in it.",
			Rules:  map[string][]string{"fair": {"remove/in-use", "remove/any-time"}},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					made, err := s.Commit(ctx, guards, ops...)
					if !errors.Is(err, backend.ErrConflict) || len(ops) != 1 || ops[0].Kind != backend.OpDelete {
						return made, err
					}
					l, listed := s.List(ctx, ops[0].Key)
					for _, key := range l.Keys {
						if e, got := s.Get(ctx, key); got == nil {
							_, listed = s.Commit(ctx, nil, backend.Delete(e))
						}
					}
					if listed != nil {
						return made, err
					}
					return s.Commit(ctx, guards, ops...)
				}
			}),
		},
		{
			Name:   "emptied and not deleted",
			Breaks: "Delete of a persistent entry only takes its value away.",
			Rules:  map[string][]string{"fair": {"remove/leaves-nothing"}},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					ops = slices.Clone(ops)
					for i, op := range ops {
						if e, err := s.Get(ctx, op.Key); op.Kind == backend.OpDelete && err == nil && e.Session == "" {
							ops[i] = backend.Update(e, nil)
						}
					}
					return s.Commit(ctx, guards, ops...)
				}
			}),
		},
		{
			Name:    "revisions that do not rise",
			Breaks:  "Every other entry has a lower revision than the one before.",
			Rules:   map[string][]string{Backend: {"write/revisions"}, "fair": {"term/order"}},
			session: calls(swapRevisions),
		},
	}
}

// versioned gives those CompareAndSets that pick picks the version that is there now.
func versioned(ctx context.Context, s *backend.Session, ops []backend.Op, pick func(backend.Op, backend.Entry) bool) []backend.Op {
	ops = slices.Clone(ops)
	for i, op := range ops {
		if op.Kind != backend.OpCompareAndSet {
			continue
		}
		e, err := s.Get(ctx, op.Key)
		if (err == nil || isNoEntry(err)) && pick(op, e) {
			ops[i].Version = e.Version
		}
	}
	return ops
}
