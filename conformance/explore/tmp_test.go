package explore_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/elector-go/elector/conformance/explore"
)

func TestTmp(t *testing.T) {
	var c, f, n int
	var b string
	fmt.Sscan(os.Getenv("X"), &n, &c, &f, &b)
	cfg := strategies[n].cfg
	cfg.Candidates, cfg.Faults = c, f
	cfg.Budget, _ = time.ParseDuration(b)
	explore.Exhaustive(t, cfg)
}
