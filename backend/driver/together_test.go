package driver

import (
	"fmt"
	"testing"
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
