package driver

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What one transaction may hold goes together, in order. Who has given up is left out.
func TestTogether(t *testing.T) {
	var batches [][]int
	all := Together[int]{
		Take: func(waiting []int) (batch, left []int) {
			for i, r := range waiting {
				switch {
				case r < 0: // given up
				case len(batch) == 3:
					return batch, waiting[i:]
				default:
					batch = append(batch, r)
				}
			}
			return batch, nil
		},
		Run: func(do func()) bool { do(); return true },
	}
	first := true
	all.Send = func(batch []int) {
		batches = append(batches, batch)
		if first {
			first = false
			all.sent = mostSent // others are on their way
			for _, r := range []int{1, 2, -1, 3, 4, -1, -1, -1} {
				all.Do(r)
			}
			all.sent = 1
		}
	}
	all.Do(0)
	if got := fmt.Sprint(batches); got != "[[0] [1 2 3] [4]]" || all.sent != 0 {
		t.Error(got, all.sent)
	}
	all.sent, all.last = mostSent, time.Now().Add(-2*longestWait)
	all.Do(5) // the others are not answered
	if got := fmt.Sprint(batches[3:]); got != "[[5]]" || all.sent != mostSent {
		t.Error(got, all.sent)
	}
}

// Those that wait go together when none of the others is answered for too long: a frozen server has only those.
func TestTogetherBesideAFrozenServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		thaws := make(chan struct{})
		defer close(thaws)
		var over atomic.Bool
		sent := make(chan []int, 100)
		all := Together[int]{
			Take: func(waiting []int) (batch, left []int) { return waiting, nil },
			Run: func(do func()) bool {
				if over.Load() {
					return false
				}
				go do()
				return true
			},
		}
		all.Send = func(batch []int) {
			sent <- slices.Clone(batch)
			if batch[0] < mostSent {
				<-thaws
			}
		}
		for r := range mostSent {
			go all.Do(r)
			<-sent
		}
		all.Do(10)
		all.Do(11)
		synctest.Wait()
		if len(sent) > 0 {
			t.Error(<-sent)
		}
		began := time.Now()
		if got := fmt.Sprint(<-sent); got != "[10 11]" || time.Since(began) != longestWait {
			t.Error(got, time.Since(began))
		}
		all.Do(12)
		over.Store(true)
		time.Sleep(2 * longestWait)
		synctest.Wait()
		all.mu.Lock()
		defer all.mu.Unlock()
		if len(all.waiting) > 0 || all.timed {
			t.Error(all.waiting, all.timed)
		}
	})
}
