// Package mutants is what the suites of package conformance have to find out:
// backends, strategies and electors that work, but for one rule that each of them
// breaks. A suite that a mutant passes proves nothing about that rule.
//
// A mutant is a wrapper: it makes its fault from outside, over any backend or
// strategy that is right. The tests of this package run the suites on every mutant,
// and check that the rules which it breaks fail.
package mutants

import (
	"context"
	"runtime"
	"slices"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// A Mutant breaks one rule. The zero Mutant breaks none.
type Mutant struct {
	// Name is a few words.
	Name string
	// Breaks says what it does wrong, in one sentence.
	Breaks string
	// Rules are those that have to fail at least, by suite: Backend, or the name of
	// the strategy that the rules of an election are tried with. The suites that it
	// does not name are not run.
	Rules map[string][]string

	open     func(b backend.Backend, o backend.OpenOptions, s backend.Session) backend.Session
	campaign func(inner campaign, ctx context.Context, c *elector.Candidacy) (elector.Claim, error)
	observe  func(elector.Strategy) elector.Strategy
	config   func(*elector.Config)
	elector  func(elector.Elector) elector.Elector
}

// Backend names the suite of the backends' rules.
const Backend = "backend"

// All returns every mutant.
func All() []Mutant {
	return slices.Concat(orderMutants())
}

// Named returns the mutant of this name.
func Named(name string) (Mutant, bool) {
	for _, m := range All() {
		if m.Name == name {
			return m, true
		}
	}
	return Mutant{}, false
}

// gap gives others the time to do something between two steps that should be one. A
// scheduler that decides about each step has no need of it.
func gap() {
	for range 1000 {
		runtime.Gosched()
	}
}

// Backend returns b as the mutant has it.
func (m Mutant) Backend(b backend.Backend) backend.Backend {
	return &wrapped{b, m.open}
}

type wrapped struct {
	backend.Backend
	open func(backend.Backend, backend.OpenOptions, backend.Session) backend.Session
}

func (w *wrapped) Open(ctx context.Context, o backend.OpenOptions) (backend.Session, error) {
	s, err := w.Backend.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	if w.open == nil {
		return &over{Session: s}, nil
	}
	return w.open(w.Backend, o, s), nil
}

// Strategy returns s as the mutant has it.
func (m Mutant) Strategy(s elector.Strategy) elector.Strategy {
	wrapped := recipe{s, m.campaign}
	if f, ok := s.(elector.Foreign); ok {
		return foreign{wrapped, f}
	}
	return wrapped
}

// New makes a candidate as the mutant has it. It is for conformance.ElectionConfig.
func (m Mutant) New(cfg elector.Config) (elector.Elector, error) {
	if m.config != nil {
		m.config(&cfg)
	}
	e, err := elector.New(cfg)
	if err != nil || m.elector == nil {
		return e, err
	}
	return m.elector(e), nil
}

// campaign is the Campaign of a strategy.
type campaign = func(ctx context.Context, c *elector.Candidacy) (elector.Claim, error)

// A recipe is a strategy with another Campaign.
type recipe struct {
	elector.Strategy
	campaign func(campaign, context.Context, *elector.Candidacy) (elector.Claim, error)
}

func (r recipe) Campaign(ctx context.Context, c *elector.Candidacy) (elector.Claim, error) {
	if r.campaign == nil {
		return r.Strategy.Campaign(ctx, c)
	}
	return r.campaign(r.Strategy.Campaign, ctx, c)
}

type foreign struct {
	recipe
	f elector.Foreign
}

func (f foreign) Identify(cfg elector.Config) (string, error) { return f.f.Identify(cfg) }
