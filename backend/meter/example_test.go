package meter_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/strategy/fair"
)

// testOneWakeUp is a test of your own. It checks that a leader's resignation wakes one candidate that waits
// to lead, and tells another that it is next.
func testOneWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		elected := make(chan *elector.Term)
		var meters []*meter.Backend // one for each candidate
		for i := range 5 {
			counted := meter.New(service, nil)
			meters = append(meters, counted)
			e, err := elector.New(elector.Config{Backend: counted, Strategy: fair.Strategy{}, Election: "/jobs", ID: fmt.Sprint(i)})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close(t.Context())
			go func() {
				if term, err := e.Campaign(t.Context()); err == nil {
					elected <- term
				}
			}()
			synctest.Wait() // it leads, or waits for its turn
		}

		leader := <-elected
		var before []int
		for _, m := range meters {
			before = append(before, m.Counts().WakeUps)
		}
		if err := leader.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-elected
		synctest.Wait()
		for i, most := range []int{
			1: 2, // woken to lead; and its own watch reports its own mark
			2: 1, // is next, as the mark says
			3: 0,
			4: 0,
		} {
			if n := meters[i].Counts().WakeUps - before[i]; i > 0 && n > most {
				t.Errorf("candidate %d was woken %d times, want %d at most", i, n, most)
			}
		}
	})
}

// In a test of your own, the meter reports what a change has cost: see testOneWakeUp. Outside a test it
// reports what a session has done so far.
func ExampleNew() {
	ctx := context.Background()
	counted := meter.New(memory.New(memory.Options{}), nil)
	s, err := counted.Open(ctx, backend.OpenOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close(ctx)
	made, _ := s.Commit(ctx, nil, backend.CreateEphemeral("/job", []byte("value")))

	before := counted.Counts()
	s.Commit(ctx, nil, backend.Update(made[0], []byte("another")))
	s.Await(ctx, made[0]) // returns at once: it has changed
	cost := counted.Counts().Sub(before)
	fmt.Printf("%d commit, %d watch, %d wake-up\n", cost.Commits, cost.Watches, cost.WakeUps)
	// Output:
	// 1 commit, 1 watch, 1 wake-up
}
