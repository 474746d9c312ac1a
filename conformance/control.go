package conformance

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/elector-go/elector/backend"
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

// backShare is the share of the session timeout that a session needs at most, once its service
// or its link is back, to be sure that it lives: to connect again and to be answered. What
// starves a session is as long, see package attempt.
const backShare = 4

// inTime ends the attempt as void if err says that a session was lost at its deadline, and
// what, which the rule has taken away, was back too late for it: later than a quarter of the
// timeout before the deadline that the session had when it was out of touch. What is lost
// otherwise, the rule has to judge.
func (r *run) inTime(what string, back, deadline time.Time, err error) {
	r.t.Helper()
	spare := deadline.Sub(back)
	if !errors.Is(err, backend.ErrSessionLost) || time.Now().Before(deadline) || spare > r.svc.TTL/backShare {
		return
	}
	when := fmt.Sprintf("%v before", spare.Round(time.Millisecond))
	if spare < 0 {
		when = fmt.Sprintf("%v after", -spare.Round(time.Millisecond))
	}
	attempt.Void(r.t, fmt.Sprintf("%s was back only %s the session's deadline, and the timeout is %v", what, when, r.svc.TTL))
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
