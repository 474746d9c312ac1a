package electionrules

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/conformance/internal/judge"
	"github.com/elector-go/elector/conformance/kit"
	"github.com/elector-go/elector/strategy/fair"
)

// A closer counts its Close calls.
type closer struct {
	elector.Elector
	closed *atomic.Int64
}

func (c closer) Close(context.Context) error { c.closed.Add(1); return nil }

// The candidates of a rule that has not passed are closed, also those of its states.
func TestCandidatesAreClosed(t *testing.T) {
	for name, end := range judge.Ends {
		t.Run(name, func(t *testing.T) {
			var closed atomic.Int64
			s := suite(kit.ElectionConfig{Strategy: fair.Strategy{}, Service: func(testing.TB) *kit.Service {
				return &kit.Service{Name: "x", Root: "/x", TTL: time.Second}
			}})
			judge.Fails(t, func(t testing.TB) {
				s.Attempt(t, rule{Name: "x", Run: func(a *arena) {
					stands := func(a *arena) {
						a.candidates = append(a.candidates, &candidate{a: a, client: &kit.Client{}, real: closer{closed: &closed}})
					}
					stands(a)
					a.in("a state", func(a *arena) {
						stands(a)
						end(t)
					})
				}})
			})
			if n := closed.Load(); n != 2 {
				t.Errorf("%d candidates were closed, want 2", n)
			}
		})
	}
}
