package deputy

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/conformance/explore"
	"github.com/elector-go/elector/conformance/memtest"
	"github.com/elector-go/elector/strategy"
)

// TestElection tests each promise of an election.
func TestElection(t *testing.T) {
	conformance.TestElection(t, conformance.ElectionConfig{
		Service:  memtest.Service(3 * time.Second),
		Strategy: Strategy{},
		Traits: conformance.Traits{
			Seat: true,
			Herd: true, // the leader's end wakes the deputy; the deputy's win wakes the others
		},
		Why: map[string]string{"ask/lost-reply": "the first offer makes the deputy, and no leader yet"},
	})
}

// TestExplore runs every order of steps of two candidates, with one fault anywhere.
func TestExplore(t *testing.T) {
	report := explore.Exhaustive(t, explore.Config{
		Strategy: func() strategy.Strategy { return Strategy{} },
		Faults:   1,
	})
	if !report.Exhausted() {
		t.Error(report)
	}
}

// If an operator deletes the deputy's entry, its candidate becomes the deputy again, and leads.
func TestDeputyDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		stand := func(id string) elector.Elector {
			e, err := elector.New(elector.Config{
				Backend: service, Strategy: Strategy{}, Election: "/e", ID: id,
				Hooks: elector.Hooks{Retry: func(r elector.RetryEvent) { t.Errorf("%s campaigns again: %v", id, r.Err) }},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = e.Close(t.Context()) })
			return e
		}
		term, err := stand("leader").Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		deputy, won := stand("deputy"), make(chan error)
		go func() {
			_, err := deputy.Campaign(t.Context())
			won <- err
		}()
		synctest.Wait()
		seat := term.Guard().Conditions[0].Entry
		service.Delete(deputyKey(backend.Parent(seat.Key)))
		if err := term.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-won; err != nil {
			t.Error(err)
		}
	})
}
