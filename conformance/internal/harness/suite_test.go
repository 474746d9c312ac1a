package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/conformance/internal/judge"
	"github.com/elector-go/elector/conformance/kit"
)

// A place has nothing but what every rule has.
type place struct{ *Try }

func (place) End(bool) {}

// suite returns a suite with these rules, on services that newService makes.
func suite(newService func(testing.TB) *kit.Service, rules ...Rule[place]) Suite[place] {
	return Suite[place]{
		Rules: rules, Service: newService, Limit: Limit,
		Place: func(t *Try) place {
			t.More = func() string { return "" }
			return place{t}
		},
	}
}

// A mistyped rule is reported: no rule was tried.
func TestMistypedRule(t *testing.T) {
	const env = "ELECTOR_HARNESS_CHILD"
	if os.Getenv(env) != "" {
		newService := func(testing.TB) *kit.Service {
			return &kit.Service{Name: "x", TTL: time.Second, Virtual: true, Client: func(testing.TB) *kit.Client { return &kit.Client{} }}
		}
		s := suite(newService, Rule[place]{Name: "x/holds", Run: func(place) {}})
		Name(s.Rules)
		s.Run(t)
		return
	}
	self, err := os.Executable()
	require.NoError(t, err)
	for rule, fails := range map[string]bool{"holds": false, "hodls": true} {
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestMistypedRule$/^rules$/^x$/^"+rule+"$")
		cmd.Env = append(os.Environ(), env+"=1")
		out, err := cmd.CombinedOutput()
		if failed := err != nil; failed != fails || failed != strings.Contains(string(out), "no rule was tried") {
			t.Errorf("rule %s: %v\n%s", rule, err, out)
		}
	}
}

// heard records the failure of a test.
type heard struct {
	testing.TB
	said string
}

func (h *heard) Fatalf(format string, args ...any) {
	h.said = fmt.Sprintf(format, args...)
	h.FailNow()
}

// The failure of a rule lists the lines that led there, through all functions.
func TestLines(t *testing.T) {
	newService := func(testing.TB) *kit.Service { return &kit.Service{Name: "x", TTL: time.Second} }
	var said string
	judge.Fails(t, func(t testing.TB) {
		h := &heard{TB: t}
		defer func() { said = h.said }()
		suite(newService).Attempt(h, Rule[place]{Name: "x", Run: func(p place) {
			check := func() { p.Must("to wait", errors.New("too late")) }
			check()
		}})
	})
	if ok, _ := regexp.MatchString(`\tat:   suite_test\.go:\d+, suite_test\.go:\d+\n\tsaw:  to wait: too late`, said); !ok {
		t.Error(said)
	}
}

// What a rule has taken away is brought back, however the rule ends.
func TestServiceIsBroughtBack(t *testing.T) {
	for name, end := range judge.Ends {
		t.Run(name, func(t *testing.T) {
			up := true
			newService := func(testing.TB) *kit.Service {
				return &kit.Service{
					Name: "x", TTL: time.Second, Stop: func() error { up = false; return nil }, Start: func() error { up = true; return nil },
				}
			}
			judge.Fails(t, func(t testing.TB) {
				suite(newService).Attempt(t, Rule[place]{Name: "x", Need: []string{"Stop"}, Run: func(p place) {
					_ = p.Service.Stop()
					end(t)
				}})
			})
			assert.True(t, up, "the service is away")
		})
	}
}

// A rule that has passed leaves the service alone. A rule whose service cannot be brought back fails.
func TestBringingBack(t *testing.T) {
	starts := 0
	cannot := errors.New("it is on fire")
	newService := func(testing.TB) *kit.Service {
		return &kit.Service{
			Name: "x", TTL: time.Second, Stop: func() error { return nil }, Start: func() error { starts++; return cannot },
		}
	}
	fails := func(run func(p place)) bool {
		return judge.Fails(t, func(t testing.TB) {
			suite(newService).Attempt(t, Rule[place]{Name: "x", Need: []string{"Stop"}, Run: run})
		})
	}
	if failed := fails(func(place) {}); failed || starts != 0 {
		t.Errorf("failed: %v, started %d times", failed, starts)
	}
	if failed := fails(func(p place) { p.T.SkipNow() }); !failed || starts != 1 {
		t.Errorf("failed: %v, started %d times", failed, starts)
	}
}
