package mutants

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// viewMutants break rules about what others see.
func viewMutants() []Mutant {
	return []Mutant{
		{
			Name:   "observer misses a vacancy",
			Breaks: "Observe does not tell that nobody leads.",
			Rules:  map[string][]string{"fair": {"view/observe", "view/observe-founded", "view/observe-lost"}},
			elector: observing(func(seq iter.Seq2[elector.Leader, error], yield func(elector.Leader, error) bool) {
				for l, err := range seq {
					if (err != nil || !l.Vacant()) && !yield(l, err) {
						return
					}
				}
			}),
		},
		{
			Name:   "vacancy at each handover",
			Breaks: "Observe tells that nobody leads between one leader and the next, who has waited for it.",
			Rules:  map[string][]string{"fair": {"view/no-vacancy"}},
			elector: observing(func(seq iter.Seq2[elector.Leader, error], yield func(elector.Leader, error) bool) {
				var last uint64
				for l, err := range seq {
					if err == nil && last != 0 && l.Token > last && !yield(elector.Leader{}, nil) {
						return
					}
					last = l.Token
					if !yield(l, err) {
						return
					}
				}
			}),
		},
		{
			Name:   "empty by an old listing",
			Breaks: "Leader tells that nobody leads when all those are gone that it has listed.",
			Rules:  map[string][]string{"fair": {"view/no-vacancy"}},
			trusted: calls(func(s *backend.Session, o *over) {
				var was backend.Listing // of the one directory that is looked at
				o.list = func(ctx context.Context, dir string) (backend.Listing, error) {
					if !slices.ContainsFunc(was.Keys, func(key string) bool { _, err := s.Get(ctx, key); return err == nil }) && was.Dir == dir {
						gone := backend.Listing{Dir: dir, Rev: was.Rev}
						was = backend.Listing{}
						return gone, nil
					}
					var err error
					was, err = s.List(ctx, dir)
					return was, err
				}
			}),
		},
		{
			Name:   "observer misses a value",
			Breaks: "Observe tells new leaders, but not what they publish later.",
			Rules:  map[string][]string{"fair": {"view/observe", "view/observe-lost"}},
			elector: observing(func(seq iter.Seq2[elector.Leader, error], yield func(elector.Leader, error) bool) {
				told := false
				var last uint64
				for l, err := range seq {
					if told && err == nil && l.Token == last {
						continue
					}
					told, last = true, l.Token
					if !yield(l, err) {
						return
					}
				}
			}),
		},
		{
			Name:   "observer ends without an error",
			Breaks: "Observe just stops when its context ends or the elector is closed.",
			Rules:  map[string][]string{"fair": {"view/observe-ends", "close/any-time"}},
			elector: observing(func(seq iter.Seq2[elector.Leader, error], yield func(elector.Leader, error) bool) {
				for l, err := range seq {
					if err != nil || !yield(l, nil) {
						return
					}
				}
			}),
		},
		{
			Name:   "observer misses the next founding",
			Breaks: "Observe goes on with the election that it found at first.",
			Rules:  map[string][]string{"fair": {"view/observe-founded"}},
			elector: observing(func(seq iter.Seq2[elector.Leader, error], yield func(elector.Leader, error) bool) {
				led := false
				for l, err := range seq {
					if err == nil && led && l.Vacant() {
						yield(l, nil)
						for _, err = range seq { // nothing more is told but the end
						}
						yield(elector.Leader{}, err)
						return
					}
					led = led || !l.Vacant()
					if !yield(l, err) {
						return
					}
				}
			}),
		},
		{
			Name:   "nobody leads is no error",
			Breaks: "Leader returns the zero Leader and no error while nobody leads.",
			Rules:  map[string][]string{"fair": {"view/leader"}},
			elector: looking(func(ctx context.Context, e elector.Elector) (elector.Leader, error) {
				l, err := e.Leader(ctx)
				if errors.Is(err, elector.ErrNoLeader) {
					err = nil
				}
				return l, err
			}),
		},
		{
			Name:   "leader shown with another token",
			Breaks: "Leader returns a token that is not that of the leader's term.",
			Rules:  map[string][]string{"fair": {"view/leader", "view/late-joiner", "term/same-id"}},
			elector: looking(func(ctx context.Context, e elector.Elector) (elector.Leader, error) {
				l, err := e.Leader(ctx)
				if err == nil {
					l.Token++
				}
				return l, err
			}),
		},
		{
			Name:   "closed elector goes on looking",
			Breaks: "Leader on a closed elector says that nobody leads.",
			Rules:  map[string][]string{"fair": {"close/any-time"}},
			elector: looking(func(ctx context.Context, e elector.Elector) (elector.Leader, error) {
				l, err := e.Leader(ctx)
				if errors.Is(err, elector.ErrClosed) {
					err = elector.ErrNoLeader
				}
				return l, err
			}),
		},
		{
			Name:    "candidates out of order",
			Breaks:  "Candidates has the last first.",
			Rules:   map[string][]string{"fair": {"view/candidates", "data/foreign-children"}},
			elector: func(_ elector.Config, e elector.Elector) elector.Elector { return upsideDown{e} },
		},
	}
}

type upsideDown struct{ elector.Elector }

func (u upsideDown) Candidates(ctx context.Context) ([]elector.Candidate, error) {
	all, err := u.Elector.Candidates(ctx)
	slices.Reverse(all)
	return all, err
}

// observing is the elector of a mutant that passes on otherwise what it observes.
func observing(pass func(iter.Seq2[elector.Leader, error], func(elector.Leader, error) bool)) electorOf {
	return func(_ elector.Config, e elector.Elector) elector.Elector { return &observer{Elector: e, pass: pass} }
}

// looking is the elector of a mutant that tells otherwise who leads.
func looking(leader func(context.Context, elector.Elector) (elector.Leader, error)) electorOf {
	return func(_ elector.Config, e elector.Elector) elector.Elector {
		return &observer{Elector: e, leader: leader}
	}
}

type observer struct {
	elector.Elector
	pass   func(iter.Seq2[elector.Leader, error], func(elector.Leader, error) bool)
	leader func(context.Context, elector.Elector) (elector.Leader, error)
}

func (o *observer) Observe(ctx context.Context) iter.Seq2[elector.Leader, error] {
	seq := o.Elector.Observe(ctx)
	if o.pass == nil {
		return seq
	}
	return func(yield func(elector.Leader, error) bool) { o.pass(seq, yield) }
}

func (o *observer) Leader(ctx context.Context) (elector.Leader, error) {
	if o.leader == nil {
		return o.Elector.Leader(ctx)
	}
	return o.leader(ctx, o.Elector)
}
