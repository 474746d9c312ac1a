package attempt

import (
	"context"
	"errors"
	"time"
)

// ErrLost is what a control's request finds when the session is lost.
var ErrLost = errors.New("session lost")

// Every is the loop of a control whose session is there: it sends a request every tenth of the
// session timeout, one at a time, until one finds ErrLost, which it returns, or ctx ends. A
// request that fails otherwise is sent again: whether its session is lost is for the client
// library to say.
func Every(ctx context.Context, timeout time.Duration, answered func(), ask func() error) error {
	ticker := time.NewTicker(timeout / askShare)
	defer ticker.Stop()
	for {
		switch err := ask(); {
		case err == nil:
			answered()
		case errors.Is(err, ErrLost):
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
