package harness

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elector-go/elector/conformance/internal/judge"
	"github.com/elector-go/elector/conformance/kit"
	"github.com/elector-go/elector/internal/attempt"
)

// shaky is a service whose control's session can be ended. Nothing else is there.
type shaky struct{ lose atomic.Bool }

func (s *shaky) service(testing.TB) *kit.Service {
	return &kit.Service{
		Name: "shaky", TTL: time.Second, Controls: []kit.Control{s.control},
		Client: func(testing.TB) *kit.Client { return &kit.Client{} },
	}
}

func (s *shaky) control(ctx context.Context, answered func(time.Time)) error {
	return attempt.Every(ctx, time.Second, answered, func() error {
		if s.lose.CompareAndSwap(true, false) {
			time.Sleep(time.Second / 2)
			return errors.Join(attempt.ErrLost, errors.New("shaken"))
		}
		return nil
	})
}

// ends has the server stand still and end the control's session, and waits until that begins.
func (s *shaky) ends() {
	s.lose.Store(true)
	for s.lose.Load() {
		time.Sleep(time.Millisecond)
	}
}

// A rule that fails while the control does is tried again, and the report tells. One that
// passes then counts.
func TestVoidAttempts(t *testing.T) {
	var s shaky
	var twice, once int
	report := suite(s.service,
		Rule[place]{Name: "x/twice", Text: "It holds at the third try.", Run: func(p place) {
			if twice++; twice < 3 {
				s.ends()
				p.Failf("the session was lost")
			}
		}},
		Rule[place]{Name: "x/once", Text: "It holds.", Run: func(place) {
			once++
			s.ends()
		}},
	).Run(t)
	if twice != 3 || once != 1 {
		t.Errorf("tried %d times and %d times, want 3 and 1", twice, once)
	}
	if n := report.Count(kit.Passed); n != 2 || report.Void() != 2 {
		t.Errorf("%d passed, %d void attempts", n, report.Void())
	}
	text := report.String()
	for _, want := range []string{
		"shaky: 2 rules passed, 0 failed, 0 not applicable, 2 void attempts\n",
		"  x/once                     passed\n",
		"  x/twice                    passed (2 void attempts: ", // of a server, or of this process on a busy machine
	} {
		if !strings.Contains(text, want) && !strings.HasSuffix(text, strings.TrimSuffix(want, "\n")) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// A rule that takes the service away ends the control's session itself, so that is no excuse.
func TestTakesAway(t *testing.T) {
	var s shaky
	for _, takesAway := range []bool{true, false} {
		var void []string
		broken := judge.Contained(t, func(t testing.TB) {
			tries := 0
			void = attempts(t, observe(t, s.service(t)), takesAway, nil, func(t testing.TB) {
				if tries++; tries == 1 {
					s.ends()
					t.Fatal("the session was lost")
				}
			})
		})
		if broken != takesAway || (len(void) > 0) == takesAway {
			t.Errorf("takes the service away: %v; broken: %v; void: %q", takesAway, broken, void)
		}
	}
}
