package mutants

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/strategy/catalog"
)

// With each strategy the rules are known to work: there is a mutant of that strategy's recipe that only its
// suite finds.
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
