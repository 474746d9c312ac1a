package driver

import (
	"context"
	"time"
)

// Beat sends the session's heartbeats, on a goroutine of its own, until the session is over: one after the
// other, with pauses of apart, shorter while they fail. renew sends one, and returns nil when the service
// has acknowledged it; the window then counts from when it was sent. renew must heed ctx, which ends when
// the next heartbeat is due. A service that needs more than this, such as a proof that the server that
// answers may do so, has heartbeats of its own.
func (l *Life) Beat(apart time.Duration, renew func(ctx context.Context) error) {
	l.Run(func() {
		var pause Pause
		for next := apart; ; {
			select {
			case <-time.After(next):
			case <-l.Ctx.Done():
				return
			}
			sent := time.Now()
			ctx, cancel := context.WithTimeout(l.Ctx, apart)
			err := renew(ctx)
			cancel()
			if err != nil {
				l.Suspend(err)
				next = min(pause.Next(), apart)
				continue
			}
			l.Extend(sent)
			l.Resume()
			pause, next = Pause{}, apart
		}
	})
}
