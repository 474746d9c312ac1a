package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
)

var abilities = []string{
	string(AbilityHooks), string(AbilityStages), string(AbilityBackend), string(AbilityLayout),
	string(AbilityConfig), string(AbilitySuspend), string(AbilityCommit),
}

const (
	needOrdered   = "Ordered"
	needUnordered = "not Ordered"
	needCalm      = "not Herd"
	needHerd      = "Herd"
	needUnseen    = "not both Ordered and Herd"
	needDense     = "Dense"
	// needKnown: where entries stand is known, by AbilityLayout or because the
	// strategy is Foreign.
	needKnown = "known layout"
)

// An electionRule is one promise and how it is tried. Its needs are fields of
// Service or Client, abilities, and those above.
type electionRule struct {
	name string
	text string // one sentence, printed when the rule is broken
	need []string
	// alone says that the rule takes the whole service away, or counts all that is stored,
	// so that no other can be tried beside it.
	alone bool
	run   func(a *arena)
}

// TestElection tries every rule of an election: what package elector promises of
// terms, tokens, succession and recovery. On a virtual service each rule runs in a
// bubble of its own; on a real one those that do not stop the service run side by
// side.
//
// Broken rules fail subtests of t that bear the rules' names. The report is logged
// and returned.
func TestElection(t *testing.T, cfg ElectionConfig) Report {
	switch {
	case cfg.Entries != nil:
	case isForeign(cfg.Strategy):
		t.Fatalf("ElectionConfig.Entries is nil: say what the candidates of a Foreign strategy have in the service")
	default:
		cfg.Entries = entriesOf
	}
	if cfg.New == nil {
		cfg.New = func(_ *Client, c elector.Config) (elector.Elector, error) { return elector.New(c) }
	}
	rules := electionRules()
	checkWhy(t, cfg, rules)
	on := seeOffer(t, cfg)
	var trials []trial
	for _, r := range rules {
		trials = append(trials, trial{r.name, r.text, false, r.alone, func(t *testing.T, join func(), void *voids) string {
			return tryElectionRule(t, cfg, on, r, join, void)
		}})
	}
	return runTrials(t, Report{Strategy: cfg.Strategy.Name(), Service: on.service.Name}, trials, nil)
}

func electionRules() []electionRule {
	return slices.Concat(termRules, leaveRules, cancelRules, replyRules, lossRules, dataRules,
		viewRules, sharingRules, jobRules, closeRules, serverRules, recipeRules,
		fenceRules, epochRules, removeRules, soakElectionRules)
}

// checkWhy finds reasons for what does not exist: a typing error there would
// leave a rule out in silence.
func checkWhy(t *testing.T, cfg ElectionConfig, rules []electionRule) {
	known := slices.Clone(abilities)
	for _, r := range rules {
		known = append(known, r.name)
	}
	for name := range cfg.Why {
		if !slices.Contains(known, name) {
			t.Errorf("ElectionConfig.Why names %q, which is no rule and no ability", name)
		}
	}
}

// tryElectionRule tries one rule and returns why it is not applicable, if so.
func tryElectionRule(t *testing.T, cfg ElectionConfig, on offer, r electionRule, join func(), void *voids) (reason string) {
	reason = electorLacks(cfg, r)
	if reason == "" {
		reason = on.lacks(t, r)
	}
	if reason != "" {
		t.Logf("rule %s is not applicable: %s", r.name, reason)
		return reason
	}
	if on.service.Virtual {
		defer enter(false)()
		defer watch(r.name, r.text, hangs(&on.service))()
		synctest.Test(t, func(t *testing.T) { runElectionRule(t, cfg, r) })
		return ""
	}
	join()
	attempts := func(t *testing.T, r electionRule) (states []electionRule) {
		defer enter(false)()
		on.attempts(t, takesAway(r.need), void, func(t testing.TB) { states = runElectionRule(t, cfg, r) })
		return states
	}
	if states := attempts(t, r); !t.Failed() {
		tryStates(t, states, func(t *testing.T, r electionRule) { attempts(t, r) })
	}
	return ""
}

// tryStates tries the states of a rule, each in attempts of its own. They are mostly waiting
// for something to time out.
func tryStates(t *testing.T, states []electionRule, try func(t *testing.T, r electionRule)) {
	if len(states) == 0 {
		return
	}
	t.Run("states", func(t *testing.T) {
		for i, r := range states {
			t.Run(fmt.Sprint(i+1), func(t *testing.T) {
				t.Parallel()
				try(t, r)
			})
		}
	})
}

// runElectionRule tries a rule, and returns those of its states that are to be tried beside
// each other.
func runElectionRule(t testing.TB, cfg ElectionConfig, r electionRule) (states []electionRule) {
	// Goroutines bear the labels of the one that started them, which tells those
	// of this rule from those of others.
	pprof.Do(context.Background(), pprof.Labels(ruleLabel, t.Name()), func(context.Context) {
		svc := cfg.Service(t)
		closeClients := closing(svc)
		a := newArena(t, svc, &cfg, &r)
		completed := false
		defer func() { restore(t, svc, r.need, completed) }()
		defer func() { a.abandon(completed) }()
		bounded := func(do func()) {
			defer watch(r.name, r.text, 2*electionLimit(svc))()
			do()
		}
		bounded(func() { r.run(a) })
		bounded(func() {
			a.finish()
			a.leave(closeClients)
		})
		completed = true
		states = a.states
	})
	return states
}

// electorLacks tells why a rule cannot be tried on this implementation.
func electorLacks(cfg ElectionConfig, r electionRule) string {
	if why, ok := cfg.Why[r.name]; ok {
		return why
	}
	for _, need := range r.need {
		switch {
		case need == needOrdered && !cfg.Ordered:
			return "candidates have no order of succession"
		case need == needUnordered && cfg.Ordered:
			return "candidates have an order of succession, and no common seat"
		case need == needCalm && cfg.Herd:
			return "a change of leader wakes every candidate"
		case need == needHerd && !cfg.Herd:
			return "a change of leader does not wake every candidate"
		case need == needUnseen && cfg.Ordered && cfg.Herd:
			return "whoever comes or goes wakes every candidate"
		case need == needDense && !cfg.Dense:
			return "tokens rise, but not by one"
		case need == needKnown:
			need = string(AbilityLayout)
		case need == string(AbilityLayout) && isForeign(cfg.Strategy):
			return "the strategy's layout has neither this library's record nor its directory"
		}
		if why, ok := cfg.Why[need]; ok {
			return fmt.Sprintf("no %s: %s", need, why)
		}
	}
	return ""
}

func isForeign(s elector.Strategy) bool {
	_, ok := s.(elector.CustomLayout)
	return ok
}

// An offer is what a service can be made to do, seen on one that was made for
// nothing else, and how rules are tried on it.
type offer struct {
	service Service
	client  Client
	trying
}

func seeOffer(t *testing.T, cfg ElectionConfig) offer {
	svc := cfg.Service(t)
	return offer{*svc, *svc.Client(t), tryOn(t, svc)}
}

func (o offer) missing(need string) bool {
	can, known := can(&o.service, &o.client)[need]
	return known && !can // else it is for the implementation to have
}

// lacks tells why a rule cannot be tried on this service.
func (o offer) lacks(t *testing.T, r electionRule) string {
	t.Helper()
	if why, ok := o.service.Why[r.name]; ok {
		return why
	}
	for _, need := range r.need {
		if !o.missing(need) {
			continue
		}
		why, ok := o.service.Why[need]
		if !ok {
			t.Fatalf("the service has no %s, and no reason for it in Why[%q]", need, need)
		}
		return fmt.Sprintf("no %s: %s", need, why)
	}
	return ""
}

// entriesOf reads an election of this library's layout.
func entriesOf(ctx context.Context, s *backend.Session, election string) ([]backend.Entry, error) {
	dir, err := dirOf(ctx, s, election)
	if err != nil || dir == "" {
		return nil, err
	}
	listing, err := s.List(ctx, dir)
	if err != nil {
		return nil, err
	}
	var entries []backend.Entry
	for _, key := range append(listing.Keys, dir+"/seat") {
		switch e, err := s.Get(ctx, key); {
		case errors.Is(err, backend.ErrNoEntry), err == nil && e.Session == "":
		case err != nil:
			return nil, err
		default:
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// dirOf returns the directory of an election; "" if it has not been founded.
func dirOf(ctx context.Context, s *backend.Session, election string) (string, error) {
	e, err := find(ctx, s, election)
	if err != nil || len(e.Value) == 0 {
		return "", err
	}
	record, err := layout.DecodeRecord(e.Value)
	if err != nil {
		return "", fmt.Errorf("record of %s: %w", election, err)
	}
	return election + "/" + record.Dir, nil
}
