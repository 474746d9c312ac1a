package attempt

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrLost is what a control's request finds when the session is lost.
var ErrLost = errors.New("session lost")

// Every is the loop of a control whose session is there: it sends a request every tenth of the
// session timeout, one at a time, until one finds ErrLost, which it returns, or ctx ends. A
// request that fails otherwise is sent again: whether its session is lost is for the client
// library to say. After two timeouts without an answer it is lost all the same: a client
// library may ask for what the servers refuse for ever, such as a server of ZooKeeper that has
// lost its data.
func Every(ctx context.Context, timeout time.Duration, answered func(sent time.Time), ask func() error) error {
	ticker := time.NewTicker(timeout / askShare)
	defer ticker.Stop()
	for last := time.Now(); ; {
		sent := time.Now()
		switch err := ask(); {
		case err == nil:
			last = time.Now()
			answered(sent)
		case errors.Is(err, ErrLost):
			return err
		case time.Since(last) > 2*timeout:
			return fmt.Errorf("%w: no answer for two session timeouts: %w", ErrLost, err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
