// Package electionrules holds the rules of an election: what package elector promises of terms, tokens,
// succession and recovery.
package electionrules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
	"github.com/elector-go/elector/conformance/kit"
	"github.com/elector-go/elector/internal/layout"
	"github.com/elector-go/elector/strategy"
)

// What rules need besides fields of Service and Client: abilities, and words of their own.
const (
	needHooks   = string(kit.AbilityHooks)
	needStages  = string(kit.AbilityStages)
	needBackend = string(kit.AbilityBackend)
	needLayout  = string(kit.AbilityLayout)
	needConfig  = string(kit.AbilityConfig)
	needSuspend = string(kit.AbilitySuspend)
	needCommit  = string(kit.AbilityCommit)
	needAsk     = string(kit.AbilityAsk)
	// needTransfer also requires a strategy that is a strategy.Transferrer.
	needTransfer = string(kit.AbilityTransfer)
	needFit      = string(kit.AbilityFit)
	needStatus   = string(kit.AbilityStatus)

	needOrdered = "Ordered"
	needLists   = "Lists"
	needRanks   = "Rank"
	needNominee = "a Designator" // the strategy is an strategy.Designator
	needSeat    = "Seat"
	needInLine  = "not Seat" // a leader leads by the entry that it has waited with
	needCalm    = "not Herd"
	needHerd    = "Herd"
	needUnseen  = "not both Ordered and Herd"
	needDense   = "Dense"
	needAside   = "StepsAside"
	// needNoTransfer: the strategy is no strategy.Transferrer.
	needNoTransfer = "not a Transferrer"
	// needKnown: it is known where entries are, by needLayout or because the strategy is an
	// strategy.CustomLayout.
	needKnown = "known layout"
)

var (
	abilities = []string{needHooks, needStages, needBackend, needLayout, needConfig, needSuspend, needCommit, needAsk, needTransfer, needFit, needStatus}
	words     = []string{needOrdered, needLists, needRanks, needNominee, needSeat, needInLine, needCalm, needHerd, needUnseen, needDense, needAside, needKnown, needNoTransfer}
)

type rule = harness.Rule[*arena]

// needs lists what a rule needs: see harness.Rule.
type needs []string

// promise returns a rule: its name, the function that tests it, what it needs, and the text that is
// printed when it is broken.
func promise(name string, try func(a *arena), need needs, text string) rule {
	return rule{Name: name, Text: text, Need: need, Run: try}
}

// Run tries all rules.
func Run(t *testing.T, cfg kit.ElectionConfig) kit.Report {
	switch {
	case cfg.Entries != nil:
	case is[strategy.CustomLayout](cfg.Strategy):
		t.Fatalf("ElectionConfig.Entries is nil: a strategy that is a strategy.CustomLayout needs it to read the entries of its candidates")
	default:
		cfg.Entries = entriesOf
	}
	checkTraits(t, cfg)
	if cfg.ID == nil && cfg.Numeric {
		cfg.ID = strconv.Itoa
	}
	if cfg.New == nil {
		cfg.New = func(_ *kit.Client, c elector.Config) (elector.Elector, error) { return elector.New(c) }
	}
	s := suite(cfg)
	checkWhy(t, cfg, s.Rules)
	return s.Run(t)
}

func suite(cfg kit.ElectionConfig) harness.Suite[*arena] {
	return harness.Suite[*arena]{
		Rules:    all(),
		Strategy: cfg.Strategy.Name(), Service: cfg.Service,
		Place:  func(t *harness.Try) *arena { return newArena(t, &cfg) },
		Limit:  limit,
		Words:  slices.Concat(abilities, words),
		Lacks:  func(r rule) string { return lacks(cfg, r) },
		States: func(a *arena) []func(*arena) { return a.states },
	}
}

func all() []rule {
	touching := slices.Concat(termRules, leaveRules, cancelRules, replyRules, lossRules, dataRules, transferRules, serverRules,
		recipeRules, fenceRules, epochRules)
	following := slices.Concat(reportRules, viewRules, sharingRules, jobRules, askRules, successionRules, fitRules, rankedRules,
		closeRules, removeRules, soakRules)
	for i := range following {
		following[i].Long = harness.Contract
	}
	return append(touching, following...)
}

func init() { harness.Name(all()) }

// checkTraits fails t for traits that exclude each other, or the strategy: the rules about the one would be
// left out, or would not notice the other.
func checkTraits(t *testing.T, cfg kit.ElectionConfig) {
	if cfg.LooksFirst && cfg.Lists {
		t.Error("Traits has LooksFirst and Lists: a candidate that waits has an entry, or makes none while somebody leads")
	}
	if cfg.StepsAside && !is[strategy.Transferrer](cfg.Strategy) {
		t.Error("Traits has StepsAside, but the strategy is no strategy.Transferrer")
	}
}

// checkWhy fails t for reasons that name no rule and no ability: a typing error there would leave a rule
// out in silence.
func checkWhy(t *testing.T, cfg kit.ElectionConfig, rules []rule) {
	known := slices.Clone(abilities)
	for _, r := range rules {
		known = append(known, r.Name)
	}
	for name := range cfg.Why {
		if !slices.Contains(known, name) {
			t.Errorf("ElectionConfig.Why names %q, which is neither a rule nor an ability", name)
		}
	}
}

// lacks returns why a rule cannot be tried on this implementation, or "" if it can.
func lacks(cfg kit.ElectionConfig, r rule) string {
	if why, ok := cfg.Why[r.Name]; ok {
		return why
	}
	for _, need := range r.Need {
		switch {
		case need == needOrdered && !cfg.Ordered:
			return "candidates have no order of succession"
		case need == needLists && !cfg.Lists:
			return "candidates that wait have no entries"
		case need == needSeat && !cfg.Seat:
			return "a leader leads by the entry that it waited with, not by a seat"
		case need == needRanks && cfg.Rank == nil:
			return "candidates have no ranks"
		case need == needNominee && !is[strategy.Designator](cfg.Strategy):
			return "the strategy ignores designations"
		case need == needInLine && cfg.Seat:
			return "a leader has a seat, not the entry that it waited with"
		case need == needCalm && cfg.Herd:
			return "a change of leader wakes every candidate"
		case need == needHerd && !cfg.Herd:
			return "a change of leader does not wake every candidate"
		case need == needUnseen && cfg.Ordered && cfg.Herd:
			return "each arrival and departure wakes every candidate"
		case need == needAside && !cfg.StepsAside:
			return "no candidate steps aside for the heir of a transfer"
		case need == needDense && !cfg.Dense:
			return "tokens rise, but not by one"
		case need == needTransfer && !is[strategy.Transferrer](cfg.Strategy):
			return "the strategy cannot transfer leadership to a chosen candidate"
		case need == needNoTransfer && is[strategy.Transferrer](cfg.Strategy):
			return "the strategy can transfer leadership to a chosen candidate"
		case need == needKnown:
			need = needLayout
		case need == needLayout && is[strategy.CustomLayout](cfg.Strategy):
			return "the strategy's layout has neither this library's record nor its directory"
		}
		if why, ok := cfg.Why[need]; ok {
			return fmt.Sprintf("no %s: %s", need, why)
		}
	}
	return ""
}

// is reports whether the strategy is a T, too.
func is[T any](s strategy.Strategy) bool {
	_, ok := s.(T)
	return ok
}

// entriesOf reads the entries of an election in this library's layout.
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
	for _, key := range append([]string{dir + "/seat"}, listing.Keys...) {
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

// dirOf returns the directory of an election, or "" if it has not been founded.
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
