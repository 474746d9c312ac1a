package driver

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/elector-go/elector/backend"
)

// Whoever waits for a session to be in touch hears of its end, at whatever moment that comes.
func TestAwaitLiveAmidLoss(t *testing.T) {
	for range 2000 {
		var l Life
		l.Init(LifeOptions{State: backend.Suspended, End: func(context.Context, error) {}})
		var waiting sync.WaitGroup
		for range 4 {
			waiting.Go(func() {
				if err := l.AwaitLive(t.Context()); !errors.Is(err, backend.ErrSessionLost) {
					t.Error(err)
				}
			})
		}
		l.Lose(ErrClosed)
		waiting.Wait()
	}
}
