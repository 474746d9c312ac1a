package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// beyond checks the numbers of what a commit has enqueued. If one is past the end (see names.go), it
// removes all ephemeral entries of the commit. Until then the one past the end belongs to nobody: no
// listing has it. Other writes stay, so that no single error then describes the outcome of the commit.
func (c *commit) beyond(ctx context.Context, made []backend.Entry) error {
	s, dir, lasting := c.s, "", false
	var own []backend.Entry
	for i, op := range c.ops {
		if op.Kind == backend.OpEnqueue {
			if n, ok := nameOf(made[i].Key); ok && !n.counts() {
				dir = op.Key
			}
		}
		lasting = lasting || !op.Ephemeral()
		if op.Ephemeral() {
			own = append(own, made[i])
		}
	}
	if dir == "" {
		return nil
	}
	remove := func(ctx context.Context) error {
		for _, e := range own {
			if err := s.drop(ctx, e); err != nil {
				return err
			}
		}
		return nil
	}
	if err := remove(ctx); err != nil {
		if errors.Is(err, backend.ErrSessionLost) {
			return err // they go with the session
		}
		s.Reaper.Reap(remove)
	}
	err := fmt.Errorf("%w: %s has had 2^31 creations, and its counter has stopped", backend.ErrUsedUp, dir)
	if lasting {
		return driver.Indeterminate(err)
	}
	return err
}
