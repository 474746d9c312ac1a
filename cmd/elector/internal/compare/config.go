package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/cmd/elector/internal/report"
	"github.com/elector-go/elector/strategy/catalog"
)

// Embedded is the URL of the service that is created in this process for each run.
const Embedded = "mem://"

// EmbeddedTTL is the default session timeout on the embedded service. It is short, because a run waits for it
// at each crash, and nobody there misses a heartbeat for lack of a processor.
const EmbeddedTTL = 200 * time.Millisecond

// Bounds of the settings. As for candidates, 5,000 have been tried on the embedded service, and 2,000 on
// ZooKeeper.
const (
	MaxN       = 100_000
	MaxChanges = 1_000_000
	MaxChurn   = 100
	MaxDelay   = 10 * time.Second
)

// Config is the settings of a comparison.
type Config struct {
	Backends   []string // URLs, as package dial takes them
	Strategies []string // names, as package catalog has them
	N          []int    // numbers of candidates
	Changes    int      // of leader, in each run
	Crashes    float64  // the share of crashes; the other changes are resignations
	Churn      float64  // candidates that leave, and as many that join, per leader change
	Delay      time.Duration
	TTL        time.Duration // of sessions; zero is EmbeddedTTL, or the service's own default
	Seed       uint64        // decides who leaves, and which changes are crashes

	// Command is the command line that produces the report again.
	Command string
	// Progress, if set, is called with the steps done, all steps, and the current action.
	Progress func(done, of int, doing string)
	// Ran, if set, is called with each run as soon as it has ended.
	Ran func(report.Run)
}

// Validate reports all that is wrong, by flag, with the allowed values.
func (c Config) Validate() error {
	var errs []error
	bad := func(flag string, value any, rule string) {
		errs = append(errs, fmt.Errorf("--%s %v: %s", flag, value, rule))
	}
	if len(c.Backends) == 0 {
		bad("backend", `""`, "name a service; "+dial.Usage())
	}
	for i, url := range c.Backends {
		switch {
		case slices.Contains(c.Backends[:i], url):
			bad("backend", url, "is given twice")
		case strings.HasPrefix(url, Embedded):
			if url != Embedded {
				bad("backend", url, "every run makes an embedded service of its own: give "+Embedded)
			}
		default:
			b, err := dial.Open(context.Background(), url)
			if err != nil {
				errs = append(errs, fmt.Errorf("--backend: %w", err))
				continue
			}
			if l := b.Limits(); c.TTL != 0 && (c.TTL < l.MinTTL || c.TTL > l.MaxTTL) {
				bad("ttl", c.TTL, fmt.Sprintf("%v takes session timeouts from %v to %v", b, l.MinTTL, l.MaxTTL))
			}
			_ = b.Close() // nothing was sent
		}
	}
	if len(c.Strategies) == 0 {
		bad("strategy", `""`, "name some of "+strings.Join(catalog.Names(), ", "))
	}
	for i, name := range c.Strategies {
		if _, ok := catalog.Named(name); !ok {
			bad("strategy", fmt.Sprintf("%q", name), "unknown: there are "+strings.Join(catalog.Names(), ", "))
		} else if slices.Contains(c.Strategies[:i], name) {
			bad("strategy", name, "is given twice")
		}
	}
	if len(c.N) == 0 {
		bad("n", `""`, "give numbers of candidates, such as 3,10,50")
	}
	for i, n := range c.N {
		if n < 2 || n > MaxN {
			bad("n", n, fmt.Sprintf("must be from 2 (one leaves, another takes over) to %d", MaxN))
		} else if slices.Contains(c.N[:i], n) {
			bad("n", n, "is given twice")
		}
	}
	if c.Changes < 1 || c.Changes > MaxChanges {
		bad("changes", c.Changes, fmt.Sprintf("must be from 1 to %d", MaxChanges))
	}
	if !(c.Crashes >= 0 && c.Crashes <= 1) {
		bad("crashes", c.Crashes, "is the share of leader changes that are crashes, from 0 to 1")
	}
	if !(c.Churn >= 0 && c.Churn <= MaxChurn) {
		bad("churn", c.Churn, fmt.Sprintf("must be from 0 to %d candidates per leader change", MaxChurn))
	}
	if c.Delay < 0 || c.Delay > MaxDelay {
		bad("delay", c.Delay, fmt.Sprintf("must be from 0 to %v", MaxDelay))
	}
	if slices.Contains(c.Backends, Embedded) && c.TTL != 0 && (c.TTL < 10*time.Millisecond || c.TTL > 24*time.Hour) {
		bad("ttl", c.TTL, "the embedded service takes session timeouts from 10ms to 24h")
	}
	return errors.Join(errs...)
}

// crashes returns how many changes are crashes.
func (c Config) crashes() int { return int(c.Crashes*float64(c.Changes) + 0.5) }
