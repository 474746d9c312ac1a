package conformance

import (
	"slices"
	"sync"
	"testing"

	"github.com/elector-go/elector/internal/attempt"
)

// trying is how a suite tries its rules on one service: at once where time is fake, and in
// attempts that an environment may make void where it is real.
type trying struct {
	env *attempt.Environment // nil for a service that is Virtual
}

// tryOn observes the environment of a service until t ends.
func tryOn(t testing.TB, s *Service) trying {
	if s.Virtual {
		return trying{}
	}
	return trying{attempt.Observe(t, s.TTL, s.Controls...)}
}

// attempts tries a rule, or one state of it, until an attempt counts. takesAway says that the
// rule takes the service away, or a part of it, from the control as well.
func (y trying) attempts(t testing.TB, takesAway bool, void *voids, try func(t testing.TB)) {
	t.Helper()
	env := y.env
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
