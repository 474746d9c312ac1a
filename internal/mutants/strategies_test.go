package mutants

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/strategy/catalog"
)

// TestEachStrategy holds that the rules are known to bite with each strategy: there is a mutant of
// its own recipe, which no other strategy's suite finds out.
func TestEachStrategy(t *testing.T) {
	own := make(map[string]bool)
	for _, m := range All() {
		if len(m.Rules) == 1 {
			for suite := range m.Rules {
				own[suite] = true
			}
		}
	}
	for _, name := range catalog.Names() {
		assert.True(t, own[name], "no mutant breaks the strategy %s alone: add one of its recipe", name)
	}
}
