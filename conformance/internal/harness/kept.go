package harness

import (
	"fmt"
	"runtime"
	"time"
	"weak"
)

// A Keepsake reports whether a value is still in memory, without keeping it there.
type Keepsake func() bool

// Keep returns the keepsake of the value that p points to.
func Keep[T any](p *T) Keepsake {
	w := weak.Make(p)
	return func() bool { return w.Value() != nil }
}

// kept runs the garbage collector, and returns how many values are still there.
func kept(all []Keepsake) (n int) {
	runtime.GC()
	for _, there := range all {
		if there() {
			n++
		}
	}
	return n
}

// SoakMost is how many finished values may be kept: caches and stacks hold the last one.
const SoakMost = 3

// LetGo waits until the garbage collector has found that all but SoakMost are gone.
func (t *Try) LetGo(what string, all []Keepsake) {
	t.T.Helper()
	const most = 10 * time.Minute // on a fake clock, where each look takes real time
	pause := t.Service.TTL / 20
	for end := time.Now().Add(min(t.Patience(), most)); ; time.Sleep(pause) {
		left := kept(all)
		if left <= SoakMost {
			return
		}
		if time.Now().After(end) {
			t.Failf("%d of %d %s are still kept, at most %d may be", left, len(all), what, SoakMost)
		}
		if t.Service.Virtual {
			pause = min(pause+pause/4, t.Service.TTL/4)
		}
	}
}

// A Stock is how much a service stores.
type Stock struct{ Keys, Bytes int }

// Stored asks the service how much it stores.
func (t *Try) Stored() (now Stock) {
	t.T.Helper()
	var err error
	now.Keys, now.Bytes, err = t.Service.Stored()
	t.Must("count what is stored", err)
	return now
}

// NoMore waits until the service stores no more than before the rounds: no more keys, and fewer than 100
// more bytes per round, as numbers get longer.
func (t *Try) NoMore(than Stock, rounds int, after string) {
	t.T.Helper()
	t.Until(fmt.Sprintf("no more than %+v is stored after %s", than, after), func() bool {
		keys, bytes, err := t.Service.Stored()
		return err == nil && keys <= than.Keys && bytes < than.Bytes+100*rounds
	})
}
