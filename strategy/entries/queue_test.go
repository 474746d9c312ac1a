package entries_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/internal/layout"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/entries"
)

// An observer of a long queue follows each handover, also beyond what it remembers, and lists the directory
// once for every 64 of them.
func TestObserverOfALongQueue(t *testing.T) {
	const candidates = 200
	synctest.Test(t, func(t *testing.T) {
		meter := meter.New(memory.New(memory.Options{}), nil)
		open := func() *backend.Session {
			s := must.Get(meter.Open(t.Context(), backend.OpenOptions{}))(t)
			t.Cleanup(func() { _ = s.Close(t.Context()) })
			return s
		}
		s, viewer := open(), open()
		if _, err := s.Commit(t.Context(), nil, backend.CompareAndSet("/e", nil, 0)); err != nil {
			t.Fatal(err)
		}
		var queue []backend.Entry
		enqueue := func() {
			me := layout.Candidate{ID: fmt.Sprint(len(queue))}
			made := must.Get(s.Commit(t.Context(), nil, backend.Enqueue("/e", me.Encode())))(t)
			queue = append(queue, made...)
		}
		for range candidates {
			enqueue()
		}
		seen := make(chan strategy.Leader, 1)
		go func() {
			for l, err := range (entries.Queue{}).Observe(t.Context(), viewer, "/e") {
				if err != nil {
					return
				}
				seen <- l
			}
		}()
		for i := range candidates {
			if l := <-seen; l.ID != fmt.Sprint(i) || l.Token != queue[i].Rev {
				t.Fatalf("leader %d is %+v, want token %d", i, l, queue[i].Rev)
			}
			enqueue() // at the end, in place of the one that goes
			require.NoError(t, s.Discard(t.Context(), queue[i]))
		}
		<-seen
		synctest.Wait()
		if lists := meter.Sessions()[1].Lists; lists > 1+candidates/64 {
			t.Errorf("the directory was listed %d times", lists)
		}
		require.NoError(t, viewer.Close(t.Context()))
	})
}
