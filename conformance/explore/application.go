package explore

import (
	"context"
	"errors"
	"sync"
	"time"
)

// checkEvery is how soon a change of an application's health is noticed: as soon as elector lets it.
const checkEvery = 10 * time.Millisecond

var errUnfit = errors.New("as the explorer has it")

// An application tells its candidate whether it is fit when that has changed, and is silent otherwise,
// so that no time has to pass for the sake of it.
type application struct {
	mu      sync.Mutex
	told    bool // unfit is what the campaign knows
	changed chan struct{}

	unfit bool // written by the explorer, when all is quiet
}

// campaigns has the next check answer at once: it is the first of a campaign.
func (a *application) campaigns() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = false
}

// becomes returns when the candidate's elector has heard of it.
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
