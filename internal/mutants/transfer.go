package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
)

// transferMutants break rules about leadership that is transferred.
var transferMutants = []Mutant{
	{
		Name:   "heir is not waited for",
		Breaks: "A transfer is a resignation: whoever is next leads.",
		Rules: rules{
			"fair":   {"transfer/heir", "transfer/prepare", "transfer/twice", "transfer/unknown", "transfer/request", "transfer/same-id"},
			"unfair": {"transfer/refused"},
		},
		elector: onTerm(func(_ *elector.Term, c *elector.TermConfig) {
			c.Prepare = func(context.Context, string) error { return nil }
		}),
	}, {
		Name:   "leader goes though the heir is not next",
		Breaks: "A transfer that fails ends the term all the same.",
		Rules:  rules{"fair": {"transfer/gone", "transfer/stuck", "transfer/unknown"}, "unfair": {"transfer/refused"}},
		elector: onTerm(func(t *elector.Term, c *elector.TermConfig) {
			c.Prepare = func(ctx context.Context, id string) error {
				err := t.Prepare(ctx, id)
				if err != nil {
					err = errors.Join(err, t.Resign(context.WithoutCancel(ctx)))
				}
				return err
			}
		}),
	}, {
		Name:   "transfer prepared twice",
		Breaks: "A leader prepares a transfer once more when the heir is next.",
		Rules:  rules{"fair": {"transfer/next"}},
		elector: onTerm(func(t *elector.Term, c *elector.TermConfig) {
			c.Prepare = func(ctx context.Context, id string) error {
				if err := t.Prepare(ctx, id); err != nil {
					return err
				}
				return t.Prepare(ctx, id)
			}
		}),
	}, {
		Name:   "steps aside for one that has gone",
		Breaks: "A candidate steps aside without a look whether the leader and the heir still stand.",
		Rules:  rules{"fair": {"transfer/gone", "transfer/crash"}},
		campaign: inSession(asks(func(_ context.Context, _ *backend.Session, c *commit) {
			if stepsAside(c.ops) {
				c.conditions = nil
			}
		})),
	}, {
		Name:   "heir does not wait for the leader",
		Breaks: "A candidate that the leader has named leads as soon as nobody stands between them.",
		Rules:  rules{"fair": {"transfer/prepare"}},
		campaign: inSession(precedes(func(ctx context.Context, s *backend.Session, e backend.Entry) (backend.Entry, error) {
			before, err := s.Predecessor(ctx, e)
			if h, named := layout.Named(before.Value); named && h.Key == e.Key && h.Rev == e.Rev {
				return backend.Entry{}, nil
			}
			return before, err
		})),
	}, {
		Name:   "stands by the old entry",
		Breaks: "A candidate that has stepped aside goes on with the entry that it had before.",
		Rules:  rules{"fair": {"transfer/heir", "transfer/prepare"}},
		campaign: inSession(answering(func(c *backend.Call) {
			if stepsAside(c.Ops) {
				c.Entries[0] = backend.Entry{Key: c.Ops[1].Key, Rev: c.Ops[1].Rev, Version: 1, Session: c.Entries[0].Session}
			}
		}, backend.CallCommit)),
	}, {
		Name:   "no room at the end is final",
		Breaks: "A candidate that finds no room at the end of the line gives up.",
		Rules:  rules{"fair": {"transfer/used-up"}},
		campaign: inSession(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			made, err := c.by(ctx, s)
			if stepsAside(c.ops) && errors.Is(err, backend.ErrUsedUp) {
				err = errors.New("no room")
			}
			return made, err
		})),
	}, {
		Name:   "heir forgotten by a value",
		Breaks: "A value that the leader publishes takes the heir's name out of its entry.",
		Rules:  rules{"fair": {"transfer/proclaim"}},
		trusted: calls(func(s *backend.Session, o *over) {
			var named atomic.Bool // an heir was
			asks(func(_ context.Context, _ *backend.Session, c *commit) {
				if !c.is(backend.OpUpdate) {
					return
				}
				if named.Load() {
					c.ops[0].Value = withoutHeir(c.ops[0].Value)
				} else if _, is := layout.Named(c.ops[0].Value); is {
					named.Store(true)
				}
			})(s, o)
		}),
	},
}

// stepsAside tells whether a commit is that of a candidate that steps aside.
func stepsAside(ops []backend.Op) bool {
	return len(ops) == 2 && ops[0].Kind == backend.OpEnqueue && ops[1].Kind == backend.OpDelete
}

// withoutHeir returns the payload without the heir that it names.
func withoutHeir(payload []byte) []byte {
	var object map[string]json.RawMessage
	if json.Unmarshal(payload, &object) != nil {
		return payload
	}
	delete(object, "heir")
	payload, _ = json.Marshal(object)
	return payload
}
