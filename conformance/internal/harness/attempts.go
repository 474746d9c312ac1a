package harness

import (
	"slices"
	"sync"
	"testing"

	"github.com/elector-go/elector/conformance/kit"
	"github.com/elector-go/elector/internal/attempt"
)

// An environment is what a suite observes beside its rules on a real service, and may make their
// attempts void. One that is Virtual has none.
type environment struct{ *attempt.Environment }

// observe observes the environment of a service until t ends.
func observe(t testing.TB, s *kit.Service) environment {
	if s.Virtual {
		return environment{}
	}
	return environment{attempt.Observe(t, s.TTL, s.Controls...)}
}

// attempts tries a rule, or one state of it, until an attempt counts. takesAway says that the
// rule takes the service away, or a part of it, from the control as well.
func (e environment) attempts(t testing.TB, takesAway bool, void *voids, try func(t testing.TB)) {
	t.Helper()
	env := e.Environment
	if takesAway {
		env = env.Clock()
	}
	void.add(attempt.Run(t, env, try)...)
}

// voids are why attempts of a rule were void. States of a rule are tried side by side.
type voids struct {
	mu  sync.Mutex
	why []string
}

func (v *voids) add(why ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.why = append(v.why, why...)
}

func (v *voids) all() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.why)
}
