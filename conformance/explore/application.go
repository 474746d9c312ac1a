package explore

import (
	"context"
	"errors"
	"sync"
	"time"
)

// checkEvery is the shortest interval that elector allows: a change of health is noticed that soon.
const checkEvery = 10 * time.Millisecond

var errUnfit = errors.New("made unfit by the explorer")

// An application reports its fitness to its candidate once after each change, and is silent otherwise, so
// that no time must pass for it.
type application struct {
	mu      sync.Mutex
	told    bool // the campaign knows unfit
	changed chan struct{}

	unfit bool // written by the explorer when all goroutines wait
}

// campaigns makes the next check return at once: it is the first of a campaign.
func (a *application) campaigns() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = false
}

// becomes changes the fitness, and returns when the candidate's elector has heard of it.
func (a *application) becomes(unfit bool) {
	a.mu.Lock()
	a.unfit, a.told = unfit, false
	if a.changed != nil {
		close(a.changed)
		a.changed = nil
	}
	a.mu.Unlock()
	time.Sleep(checkEvery + time.Millisecond)
}

func (a *application) check(ctx context.Context) error {
	for {
		a.mu.Lock()
		unfit, told, changed := a.unfit, a.told, a.changed
		if changed == nil {
			changed = make(chan struct{})
			a.changed = changed
		}
		a.told = a.told || ctx.Err() == nil
		a.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case told:
		case unfit:
			return errUnfit
		default:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}
