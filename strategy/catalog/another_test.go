package catalog_test

import (
	"strings"
	"testing"

	"github.com/elector-go/elector/internal/copytest"
)

// anotherSource is a strategy with a name of its own.
const anotherSource = `// Package invented is a strategy of a test.
package invented

import "github.com/elector-go/elector/strategy/unfair"

type Strategy struct{ unfair.Strategy }

func (Strategy) Name() string { return "invented" }
`

// TestAnother adds a strategy to a copy of the repository in the three places that CONTRIBUTING.md names. All
// that takes strategies from the catalog finds it, and nothing asks for a fourth place.
func TestAnother(t *testing.T) {
	c := copytest.New(t)
	c.Write("strategy/invented/invented.go", anotherSource)
	c.Insert("strategy/catalog/catalog.go", "\t}\n}\n\n// Variants", "\t\t{invented.Strategy{}, strategy.Traits{Seat: true, Herd: true}},\n")
	c.Insert("strategy/catalog/catalog.go", "\t\"github.com/elector-go/elector/strategy/fair\"", "\t\"github.com/elector-go/elector/strategy/invented\"\n")
	c.Insert("docs/strategies.md", "| fair |", "| invented | … |\n")

	c.Go(".", "test", "./conformance", "-run", "TestCosts", "-args", "-update")
	c.Go(".", "test", "-short", "./strategy/catalog", "./conformance", "./inspect")
	c.Go(".", "test", "-short", "-run", "TestPage|TestMakefile", ".")
	c.Go("cmd/elector", "test", "-short", "./internal/compare", "./internal/page", "./internal/cli", "./internal/run")
	c.Finds("invented", ".", "-short", "./internal/elections", "-run", "^TestMemory$/^invented,_own")
	c.Finds("invented", ".", "-short", "./conformance/explore", "-run", "^TestExhausted$/^invented$/^a_fault$")
	c.Finds("invented", ".", "-short", "./internal/mutants", "-run", "^TestMutants$/^invented$", "-args", "-only", "nothing more than the control")
	if said := c.Go("cmd/elector", "run", ".", "help", "run"); !strings.Contains(said, "invented") {
		t.Errorf("elector run does not name the strategy:\n%s", said)
	}
}
