package elector

import (
	"context"

	"github.com/elector-go/elector/backend"
)

// enter waits until the candidate may stand, and returns a session and the election's directory. It founds
// the election if there is none.
func (e *elector) enter(ctx context.Context, fit *fitness) (*backend.Session, string, error) {
	// Before the wait: an entry left by an earlier attempt would keep others waiting.
	s, err := e.cleanSession(ctx)
	if err != nil {
		return nil, "", err
	}
	if waited, err := fit.await(ctx); err != nil {
		return nil, "", err
	} else if waited { // the session may be lost by now
		if s, err = e.cleanSession(ctx); err != nil {
			return nil, "", err
		}
	}
	dir, err := e.election.Enter(ctx, s)
	return s, dir, err
}

// cleanSession returns a session, with nothing left of earlier ones.
func (e *elector) cleanSession(ctx context.Context) (*backend.Session, error) {
	s, err := e.session(ctx)
	if err != nil {
		return nil, err
	}
	return s, e.clear(ctx)
}

// reportWait reports that the campaign waits until nobody stands in a directory that takes no more entries.
func (e *elector) reportWait(dir string, why error) {
	e.noteError(e.ctx, why)
	e.log.Warn("waiting for the last candidate in the election's directory: it is used up or gone", "dir", dir, "err", why)
	e.hooks.retry(RetryEvent{What: WorkCampaign, Err: why})
}
