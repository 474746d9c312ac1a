// Package backendrules holds the rules of package backend.
package backendrules

import (
	"slices"
	"testing"

	"github.com/elector-go/elector/conformance/internal/harness"
	"github.com/elector-go/elector/conformance/kit"
)

type rule = harness.Rule[*run]

// promise returns a rule that is tried by try, on a service that can do what needs lists.
func promise(name string, try func(*run), text string, needs ...string) rule {
	return rule{Name: name, Text: text, Run: try, Need: needs}
}

// Run tries all rules. It calls parallel, if not nil, after the rules that measure the process.
func Run(t *testing.T, newService func(t testing.TB) *kit.Service, parallel func()) kit.Report {
	return suite(newService, parallel).Run(t)
}

func suite(newService func(t testing.TB) *kit.Service, parallel func()) harness.Suite[*run] {
	return harness.Suite[*run]{
		Rules:   all(),
		Service: newService, Place: newRun, Limit: harness.Limit, Parallel: parallel,
	}
}

func all() []rule {
	return slices.Concat(
		sessionRules, suspendRules, refusedRules, writeRules, commitRules, valueRules, guardRules,
		lostRules, doubtRules, lateRules, readRules, awaitRules, listRules, serviceRules, willRules, soakRules, scaleRules, randomRules,
	)
}

func init() { harness.Name(all()) }
