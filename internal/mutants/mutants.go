// Package mutants contains what the suites of package conformance must find: backends, strategies and
// electors that work, except that each breaks one rule. A suite that passes on a mutant proves nothing
// about that rule.
//
// A mutant is a wrapper: it makes its fault from outside, around any correct backend or strategy. The
// library has no switch for faults. Those of package register are below any wrapper: register_test.go has
// them, as changes to a copy of its source. The tests of this package run the suites on every mutant, and check that
// the rules that it breaks fail:
//
//	go test ./internal/mutants                                         # each mutant, with the rules that it is known to break
//	go test ./internal/mutants -run TestMutants -v -args -only guard   # the mutants with this in their names
//	make mutants                                                       # each mutant, with all rules of its suites; prints which failed
//
// A rule must find its mutant in every run, not by luck. Each suite runs in a process of its own: a rule that
// hangs or panics is ended and counts as failed, and the others run again without it. The control is the same
// wrapper without a fault: it passes every rule. unbroken_test.go lists the rules without a mutant, with the
// reasons.
package mutants

import (
	"context"
	"runtime"
	"slices"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/catalog"
)

// A Mutant breaks one rule. The zero Mutant breaks none.
type Mutant struct {
	// Name is a few words.
	Name string
	// Breaks says what it does wrong.
	Breaks string
	// Rules must fail at least, by suite: Backend, or the name of the strategy with which the rules of an
	// election are run. Suites that are not listed are not run.
	Rules rules
	// Endless are rules that never end on the mutant, not even on a fake clock. They are left out: a suite
	// would end the program by force, with the rule's name.
	Endless []string

	backend  func(backend.Backend) backend.Backend // between the service and the suites
	session  *opener                               // the same, for one session
	trusted  *opener                               // between the suites and the elector
	campaign campaigner
	strategy func(strategy.Strategy) strategy.Strategy // with other settings
	config   func(*elector.Config)
	refusal  func(error) error // of New
	elector  electorOf
}

type rules = map[string][]string

// of returns these rules for each strategy that has the traits.
func of(has func(strategy.Traits) bool, names ...string) rules {
	all := make(rules)
	for _, item := range catalog.All() {
		if has(item.Traits) {
			all[item.Strategy.Name()] = names
		}
	}
	return all
}

// A fault is what a mutant does wrong.
type fault func(*Mutant)

func mutant(name string, found rules, breaks string, faults ...fault) Mutant {
	m := Mutant{Name: name, Breaks: breaks, Rules: found}
	for _, f := range faults {
		f(&m)
	}
	return m
}

func ofBackend(worse func(backend.Backend) backend.Backend) fault {
	return func(m *Mutant) { m.backend = worse }
}
func ofSession(worse ...worsening) fault { return func(m *Mutant) { m.session = calls(worse...) } }
func ofOpened(worse opener) fault        { return func(m *Mutant) { m.session = &worse } }
func ofTrusted(worse ...worsening) fault { return func(m *Mutant) { m.trusted = calls(worse...) } }
func ofCampaign(worse campaigner) fault  { return func(m *Mutant) { m.campaign = worse } }
func ofStrategy(worse func(strategy.Strategy) strategy.Strategy) fault {
	return func(m *Mutant) { m.strategy = worse }
}
func ofConfig(worse func(*elector.Config)) fault { return func(m *Mutant) { m.config = worse } }
func ofRefusal(worse func(error) error) fault    { return func(m *Mutant) { m.refusal = worse } }
func ofElector(worse electorOf) fault            { return func(m *Mutant) { m.elector = worse } }

// endless lists rules that never end on the mutant.
func endless(rules ...string) fault { return func(m *Mutant) { m.Endless = rules } }

// Backend names the suite of the backends' rules.
const Backend = "backend"

// An opener returns a faulty session instead of the one that was opened.
type opener func(b backend.Backend, s *backend.Session) *backend.Session

// A campaigner is a faulty Campaign of a strategy; inner is the correct one.
type campaigner func(ctx context.Context, c *strategy.Candidacy, inner campaign) (strategy.Claim, error)

// An electorOf returns a faulty elector instead of the one that New has made.
type electorOf func(cfg elector.Config, e elector.Elector) elector.Elector

type campaign func(ctx context.Context, c *strategy.Candidacy) (strategy.Claim, error)

// All returns every mutant.
func All() []Mutant {
	return slices.Concat(
		checkThenWrite(), orderMutants, sessionMutants, windowMutants, writeMutants, guardMutants,
		lostMutants, readMutants, awaitMutants, serviceMutants, willMutants, soakMutants, scaleMutants,
		recipeMutants, rankedMutants, directoryMutants, seatMutants, askMutants, transferMutants, fitMutants,
		tokenMutants, termMutants, fenceMutants, viewMutants, configMutants,
	)
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

// Backend returns b with the mutant's fault.
func (m Mutant) Backend(b backend.Backend) backend.Backend {
	if m.backend != nil {
		b = m.backend(b)
	}
	return wrapped{below{b}, m.session}
}

// below is what a wrapper wraps. It passes on all that the wrapper does not do itself.
type below struct{ backend.Backend }

func (b below) Execute(ctx context.Context, w backend.Will) error {
	return backend.ExecuteBelow(ctx, b.Backend, w)
}

// wrapped is comparable; two are equal if they wrap the same.
type wrapped struct {
	below
	worsen *opener
}

func (w wrapped) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	s, err := w.Backend.Open(ctx, o)
	if err != nil || w.worsen == nil {
		return s, err
	}
	return (*w.worsen)(w.Backend, s), nil
}

// Strategy returns s with the mutant's fault.
func (m Mutant) Strategy(s strategy.Strategy) strategy.Strategy {
	if m.strategy != nil {
		s = m.strategy(s)
	}
	r := recipe{s, m.campaign}
	if s, custom := s.(strategy.CustomLayout); custom {
		return struct {
			recipe
			identifies
		}{r, s}
	}
	t, transferrer := s.(transfers)
	d, designator := s.(heeds)
	u, unfit := s.(unfitStands)
	switch [3]bool{transferrer, designator, unfit} {
	case [3]bool{true, true, true}:
		return struct {
			recipe
			transfers
			heeds
			unfitStands
		}{r, t, d, u}
	case [3]bool{true, true, false}:
		return struct {
			recipe
			transfers
			heeds
		}{r, t, d}
	case [3]bool{true, false, true}:
		return struct {
			recipe
			transfers
			unfitStands
		}{r, t, u}
	case [3]bool{false, true, true}:
		return struct {
			recipe
			heeds
			unfitStands
		}{r, d, u}
	case [3]bool{true, false, false}:
		return struct {
			recipe
			transfers
		}{r, t}
	case [3]bool{false, true, false}:
		return struct {
			recipe
			heeds
		}{r, d}
	case [3]bool{false, false, true}:
		return struct {
			recipe
			unfitStands
		}{r, u}
	}
	return r
}

// What a strategy may have besides the methods of strategy.Strategy.
type (
	identifies interface {
		Identify(id, election string) (string, error)
		Landmark(election string) string
	}
	transfers interface {
		Transfer(context.Context, *strategy.Handover) error
	}
	heeds       interface{ HeedsDesignation() }
	unfitStands interface{ UnfitStands() }
)

// A recipe is a strategy with another Campaign.
type recipe struct {
	strategy.Strategy
	worse campaigner
}

func (r recipe) Campaign(ctx context.Context, c *strategy.Candidacy) (strategy.Claim, error) {
	if r.worse == nil {
		return r.Strategy.Campaign(ctx, c)
	}
	return r.worse(ctx, c, r.Strategy.Campaign)
}

// New makes a candidate with the mutant's fault. It does not apply Backend and Strategy to cfg.
func (m Mutant) New(cfg elector.Config) (elector.Elector, error) {
	if cfg.Validate() == nil { // otherwise there may be nothing to wrap
		if m.config != nil {
			m.config(&cfg)
		}
		if m.trusted != nil {
			cfg.Backend = wrapped{below{cfg.Backend}, m.trusted}
		}
	}
	e, err := elector.New(cfg)
	if err != nil {
		if m.refusal != nil {
			err = m.refusal(err)
		}
		return nil, err
	}
	if m.elector == nil {
		return e, nil
	}
	return m.elector(cfg, e), nil
}

// gap gives others the time to do something between two steps that should be one. A scheduler that decides
// about each step does not need it.
func gap() {
	for range 1000 {
		runtime.Gosched()
	}
}
