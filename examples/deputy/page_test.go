package deputy

import (
	"testing"

	"github.com/elector-go/elector/internal/pagetest"
)

func TestPage(t *testing.T) {
	pagetest.Shows(t, "../../docs/internals/write-a-strategy.md", "deputy.go", "deputy_test.go")
}
