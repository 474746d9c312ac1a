package mutants

import (
	"context"
	"fmt"
	"slices"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
	"github.com/elector-go/elector/strategy"
)

// orderMutants break rules about the order of events. They show under a scheduler that decides it.
var orderMutants = []Mutant{
	mutant("event lost between read and watch", rules{Backend: {"await/nothing-missed"}},
		"Await reads before it subscribes, and misses a change in between.",
		ofSession(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			read, err := now(ctx, s, known)
			if err != nil || differ(read, known) {
				return read, err
			}
			gap()
			if read, err = now(ctx, s, known); err != nil {
				return nil, err
			}
			return s.Await(ctx, read...)
		}))),
	mutant("guard ignored",
		rules{Backend: {"condition/holds", "condition/race", "condition/incarnations"}, "fair": {"fence/ended", "fence/frozen", "fence/stalled", "ask/proclaim"}},
		"Commit writes even if its conditions do not hold.",
		ofSession(asks(func(_ context.Context, _ *backend.Session, c *commit) {
			if len(c.ops) > 0 {
				c.conditions = nil
			}
		}))),
	mutant("guard on what is written left out", rules{Backend: {"condition/of-what-is-written"}},
		"Commit does not check the conditions on a key that one of its ops writes to.",
		ofSession(asks(func(_ context.Context, _ *backend.Session, c *commit) {
			c.conditions = slices.DeleteFunc(slices.Clone(c.conditions), func(g backend.Condition) bool {
				return slices.ContainsFunc(c.ops, func(op backend.Op) bool { return op.Key == g.Entry.Key && op.Kind != backend.OpUpdate })
			})
		}))),
	mutant("delete hits another incarnation", rules{Backend: {"condition/incarnations"}, "unfair": {"leave/zombie"}},
		"Delete and Discard remove any entry under the key, so a zombie that resigns deletes its successor's entry.",
		ofSession(asks(func(ctx context.Context, s *backend.Session, c *commit) {
			for i, op := range c.ops {
				if e, err := s.Get(ctx, op.Key); err == nil && op.Kind == backend.OpDelete {
					c.ops[i] = backend.Delete(e)
				}
			}
		}), drops(func(ctx context.Context, s *backend.Session, e backend.Entry) error {
			if now, err := s.Get(ctx, e.Key); err == nil && now.Rev != e.Rev {
				_, err = s.Commit(ctx, nil, backend.Delete(now))
				return err
			}
			return s.Discard(ctx, e)
		}))),
	mutant("predecessor skipped", rules{Backend: {"read/predecessor", "many/sessions"}, "fair": {"term/order"}},
		"Predecessor returns the predecessor of the predecessor, so the second entry in line gets the answer for the oldest.",
		// The leaders take turns without end, all at one instant.
		endless("run/failing-candidates"),
		ofSession(on(backend.CallPredecessor, func(ctx context.Context, s *backend.Session, c *backend.Call) error {
			err := c.By(ctx, s)
			if err != nil || !c.Found.Exists() {
				return err
			}
			if c.Found, err = s.Predecessor(ctx, c.Found); isNoEntry(err) {
				return nil
			}
			return err
		}))),
	mutant("predecessor's going taken for the win",
		rules{"fair": {"term/exclusion", "term/order", "leave/withdraw", "data/predecessor-gone"}},
		"A candidate leads when its predecessor goes, even if that did not lead.",
		ofCampaign(inSession(answering(func(c *backend.Call) {
			if c.Found.Exists() {
				before := layout.DecodeCandidate(c.Found.Value)
				before.Leads = true
				c.Found.Value = before.Encode()
			}
		}, backend.CallPredecessor)))),
	mutant("win without own entry", rules{"fair": {"loss/at-handover", "loss/after-handover", "data/waiting-deleted"}},
		"A waiting candidate looks only at its predecessor, and leads even if its own entry is gone.",
		ofCampaign(inSession(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			now, err := s.Await(ctx, known[1:]...)
			return append([]backend.Entry{known[0]}, now...), err
		})))),
	mutant("taken seat is taken for the own", rules{"unfair": {"term/busy", "leave/resign", "recipe/herd"}},
		"A candidate whose offer is refused because the seat is taken treats the seat as its own: two candidates are elected for one term.",
		// The leaders take turns without end, all at one instant.
		endless("run/failing-candidates"),
		ofCampaign(inSession(refused(backend.ErrExists, func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			e, err := s.Get(ctx, c.ops[0].Key)
			return []backend.Entry{e}, err
		})))),
}

// checkThenWrite has a mutant for each kind of op, as a backend may do some kinds in one step and others in
// two.
func checkThenWrite() []Mutant {
	var all []Mutant
	for kind := backend.OpCreateEphemeral; kind <= backend.OpDelete; kind++ {
		found := rules{}
		if kind == backend.OpCompareAndSet || kind == backend.OpDelete { // the ops in the commits of a term
			found = of(func(strategy.Traits) bool { return true }, "fence/race")
		}
		found[Backend] = []string{"condition/race"}
		all = append(all, mutant(fmt.Sprintf("guard checked before %v", kind), found,
			fmt.Sprintf("A commit with an op of kind %v checks its conditions first and writes in a second step.", kind),
			ofSession(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
				if !slices.ContainsFunc(c.ops, func(op backend.Op) bool { return op.Kind == kind }) {
					return c.by(ctx, s)
				}
				if _, err := s.Commit(ctx, c.conditions); err != nil {
					return nil, err
				}
				gap()
				return s.Commit(ctx, nil, c.ops...)
			}))))
	}
	return all
}

// differ reports whether any entry differs from the known one.
func differ(read, known []backend.Entry) bool {
	return !slices.EqualFunc(read, known, backend.Entry.Same)
}
