package harness

import (
	"errors"
	"testing"
	"time"

	"github.com/elector-go/elector/conformance/internal/judge"
	"github.com/elector-go/elector/conformance/kit"
)

// A place has nothing but what every rule has.
type place struct{ *Try }

func (place) Finish()  {}
func (place) End(bool) {}

// suite has these rules, on a service of these.
func suite(newService func(testing.TB) *kit.Service, rules ...Rule[place]) Suite[place] {
	return Suite[place]{
		Rules: rules, Service: newService, Limit: Limit,
		Place: func(t *Try) place {
			t.More = func() string { return "" }
			return place{t}
		},
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
			j := judge.Attempts(t, func(t testing.TB) {
				suite(newService).Attempt(t, Rule[place]{Name: "x", Need: []string{"Stop"}, Run: func(p place) {
					_ = p.Service.Stop()
					end(t)
				}})
			})
			if !up {
				t.Errorf("the service is away; %+v", j)
			}
		})
	}
}

// A rule that has passed leaves the service alone, and one whose service cannot be brought
// back has failed.
func TestBringingBack(t *testing.T) {
	starts := 0
	cannot := errors.New("it is on fire")
	newService := func(testing.TB) *kit.Service {
		return &kit.Service{
			Name: "x", TTL: time.Second, Stop: func() error { return nil }, Start: func() error { starts++; return cannot },
		}
	}
	attempts := func(run func(p place)) judge.Judgement {
		return judge.Attempts(t, func(t testing.TB) {
			suite(newService).Attempt(t, Rule[place]{Name: "x", Need: []string{"Stop"}, Run: run})
		})
	}
	if j := attempts(func(place) {}); j.Failed || starts != 0 {
		t.Errorf("%+v, started %d times", j, starts)
	}
	if j := attempts(func(p place) { p.T.SkipNow() }); !j.Failed || starts != 1 {
		t.Errorf("%+v, started %d times", j, starts)
	}
}
