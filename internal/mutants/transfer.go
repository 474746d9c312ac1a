package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"sync"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
)

// transferMutants break rules about leadership that is transferred.
func transferMutants() []Mutant {
	return []Mutant{
		{
			Name:   "heir is not waited for",
			Breaks: "A transfer is a resignation: whoever is next leads.",
			Rules: map[string][]string{
				"fair":   {"transfer/heir", "transfer/prepare", "transfer/twice", "transfer/unknown", "transfer/request", "transfer/same-id"},
				"unfair": {"transfer/refused"},
			},
			elector: onTerm(func(_ *elector.Term, c *elector.TermConfig) {
				c.Prepare = func(context.Context, string) error { return nil }
			}),
		},
		{
			Name:   "leader goes though the heir is not next",
			Breaks: "A transfer that fails ends the term all the same.",
			Rules:  map[string][]string{"fair": {"transfer/gone", "transfer/stuck", "transfer/unknown"}, "unfair": {"transfer/refused"}},
			elector: onTerm(func(t *elector.Term, c *elector.TermConfig) {
				c.Prepare = func(ctx context.Context, id string) error {
					err := t.Prepare(ctx, id)
					if err != nil {
						err = errors.Join(err, t.Resign(context.WithoutCancel(ctx)))
					}
					return err
				}
			}),
		},
		{
			Name:   "first heir for good",
			Breaks: "A leader that has prepared one transfer takes no notice of another.",
			Rules:  map[string][]string{"fair": {"transfer/twice"}},
			elector: onTerm(func(t *elector.Term, c *elector.TermConfig) {
				done := false
				c.Prepare = func(ctx context.Context, id string) (err error) {
					if !done {
						err = t.Prepare(ctx, id)
						done = err == nil
					}
					return err
				}
			}),
		},
		{
			Name:   "transfer prepared twice",
			Breaks: "A leader prepares a transfer once more when the heir is next.",
			Rules:  map[string][]string{"fair": {"transfer/next"}},
			elector: onTerm(func(t *elector.Term, c *elector.TermConfig) {
				c.Prepare = func(ctx context.Context, id string) error {
					if err := t.Prepare(ctx, id); err != nil {
						return err
					}
					return t.Prepare(ctx, id)
				}
			}),
		},
		{
			Name:   "last of those with the ID",
			Breaks: "Those who wait are listed in the wrong order.",
			Rules:  map[string][]string{"fair": {"transfer/same-id"}},
			trusted: calls(func(s *backend.Session, o *over) {
				o.list = func(ctx context.Context, dir string) (backend.Listing, error) {
					l, err := s.List(ctx, dir)
					if len(l.Keys) > 1 {
						l.Keys = slices.Clone(l.Keys)
						slices.Reverse(l.Keys[1:])
					}
					return l, err
				}
			}),
		},
		{
			Name:     "nobody steps aside",
			Breaks:   "A candidate takes no notice of the heir that the leader has named.",
			Rules:    map[string][]string{"fair": {"transfer/heir", "transfer/prepare", "transfer/twice", "transfer/request"}},
			campaign: inSession(seeing(func(h *layout.Heir) *layout.Heir { return nil })),
		},
		{
			Name:   "heir steps aside",
			Breaks: "A candidate steps aside for itself.",
			Rules:  map[string][]string{"fair": {"transfer/prepare"}},
			campaign: inSession(func(s *backend.Session, o *over) {
				seeing(func(h *layout.Heir) *layout.Heir {
					h.Rev = math.MaxUint64
					return h
				})(s, o)
				unconditionally(s, o)
			}),
		},
		{
			Name:     "steps aside for one that has gone",
			Breaks:   "A candidate steps aside without a look whether the leader and the heir still stand.",
			Rules:    map[string][]string{"fair": {"transfer/gone", "transfer/crash"}},
			campaign: inSession(unconditionally),
		},
		{
			Name:   "aside told twice",
			Breaks: "A candidate that steps aside reports it twice.",
			Rules:  map[string][]string{"fair": {"transfer/heir"}},
			config: func(c *elector.Config) {
				tell := c.Hooks.Aside
				c.Hooks.Aside = func(why error) { tell(why); tell(why) }
			},
		},
		{
			Name:   "heir does not wait for the leader",
			Breaks: "A candidate that the leader has named leads as soon as nobody stands between them.",
			Rules:  map[string][]string{"fair": {"transfer/prepare"}},
			campaign: inSession(func(s *backend.Session, o *over) {
				o.predecessor = func(ctx context.Context, e backend.Entry) (backend.Entry, error) {
					before, err := s.Predecessor(ctx, e)
					if h, named := layout.Named(before.Value); named && h.Key == e.Key && h.Rev == e.Rev {
						return backend.Entry{}, nil
					}
					return before, err
				}
			}),
		},
		{
			Name:   "mark taken along",
			Breaks: "A candidate that has stepped aside takes its new predecessor for the leader, as the one before was.",
			Rules:  map[string][]string{"fair": {"transfer/gone"}},
			campaign: func(ctx context.Context, c *elector.Candidacy, inner campaign) (elector.Claim, error) {
				aside := false
				return inSession(func(s *backend.Session, o *over) {
					o.commit = func(ctx context.Context, conditions []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
						made, err := s.Commit(ctx, conditions, ops...)
						aside = aside || stepsAside(ops) && err == nil
						return made, err
					}
					o.predecessor = func(ctx context.Context, e backend.Entry) (backend.Entry, error) {
						before, err := s.Predecessor(ctx, e)
						if aside && before.Exists() {
							c := layout.DecodeCandidate(before.Value)
							c.Leads = true
							before.Value = c.Encode()
						}
						return before, err
					}
				})(ctx, c, inner)
			},
		},
		{
			Name:   "stands by the old entry",
			Breaks: "A candidate that has stepped aside goes on with the entry that it had before.",
			Rules:  map[string][]string{"fair": {"transfer/heir", "transfer/prepare"}},
			campaign: inSession(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, conditions []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					made, err := s.Commit(ctx, conditions, ops...)
					if stepsAside(ops) && err == nil {
						made[0] = backend.Entry{Key: ops[1].Key, Rev: ops[1].Rev, Version: 1, Session: s.ID()}
					}
					return made, err
				}
			}),
		},
		{
			Name:   "no room at the end is final",
			Breaks: "A candidate that finds no room at the end of the line gives up.",
			Rules:  map[string][]string{"fair": {"transfer/used-up"}},
			campaign: inSession(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, conditions []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					made, err := s.Commit(ctx, conditions, ops...)
					if stepsAside(ops) && errors.Is(err, backend.ErrUsedUp) {
						err = errors.New("no room")
					}
					return made, err
				}
			}),
		},
		{
			Name:   "heir forgotten by a value",
			Breaks: "A value that the leader publishes takes the heir's name out of its entry.",
			Rules:  map[string][]string{"fair": {"transfer/proclaim"}},
			trusted: posting(func(named []byte, payload []byte) []byte {
				if named == nil {
					return payload
				}
				return reheir(payload, nil)
			}),
		},
		{
			Name:   "heir named for good",
			Breaks: "The heir's name stays in the leader's entry when the transfer has failed.",
			Rules:  map[string][]string{"fair": {"transfer/stuck"}},
			trusted: posting(func(named []byte, payload []byte) []byte {
				if _, is := layout.Named(payload); is || named == nil {
					return payload
				}
				h, _ := layout.Named(named)
				return reheir(payload, &h)
			}),
		},
	}
}

// stepsAside tells whether a commit is that of a candidate that steps aside.
func stepsAside(ops []backend.Op) bool {
	return len(ops) == 2 && ops[0].Kind == backend.OpEnqueue && ops[1].Kind == backend.OpDelete
}

// unconditionally is the session of a candidate that steps aside whether or not the leader and the
// heir stand.
func unconditionally(s *backend.Session, o *over) {
	o.commit = func(ctx context.Context, conditions []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
		if stepsAside(ops) {
			conditions = nil
		}
		return s.Commit(ctx, conditions, ops...)
	}
}

// seeing is the session of a candidate that sees another heir named than there is.
func seeing(another func(*layout.Heir) *layout.Heir) func(*backend.Session, *over) {
	return func(s *backend.Session, o *over) {
		seen := func(e backend.Entry) backend.Entry {
			if h, named := layout.Named(e.Value); named {
				e.Value = reheir(e.Value, another(&h))
			}
			return e
		}
		o.predecessor = func(ctx context.Context, e backend.Entry) (backend.Entry, error) {
			before, err := s.Predecessor(ctx, e)
			return seen(before), err
		}
		o.await = func(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
			now, err := s.Await(ctx, known...)
			for i := range now {
				now[i] = seen(now[i])
			}
			return now, err
		}
	}
}

// posting is the session of a leader that writes something else into its entry. named is what it
// wrote when it first named an heir, or nil.
func posting(other func(named, payload []byte) []byte) *opener {
	return calls(func(s *backend.Session, o *over) {
		var mu sync.Mutex
		var named []byte
		o.commit = func(ctx context.Context, conditions []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
			if len(ops) == 1 && ops[0].Kind == backend.OpUpdate {
				mu.Lock()
				ops = slices.Clone(ops)
				ops[0].Value = other(named, ops[0].Value)
				if _, is := layout.Named(ops[0].Value); is && named == nil {
					named = bytes.Clone(ops[0].Value)
				}
				mu.Unlock()
			}
			return s.Commit(ctx, conditions, ops...)
		}
	})
}

// reheir returns a payload with another heir in it, or none.
func reheir(payload []byte, h *layout.Heir) []byte {
	var object map[string]json.RawMessage
	if json.Unmarshal(payload, &object) != nil {
		return payload
	}
	delete(object, "heir")
	if h != nil {
		object["heir"], _ = json.Marshal(h)
	}
	payload, _ = json.Marshal(object)
	return payload
}
