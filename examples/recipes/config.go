package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector/backend"
)

// Configuration, published and subscribed to: one persistent entry, which all watch.
//
// Source: ZooKeeper's "Configuration" (Hunt et al., 2010, 2.4); Curator's NodeCache and SharedValue; consul
// watch.
//
// Trap: a watch reports that there is something newer, not every change. Of ten values published in a row a
// subscriber may see only the last. So a value must be the whole state. To see all, use a queue (queue.go).

// Publish overwrites what was read before, or Entry{Key: key} if there was nothing. If somebody else has
// published meanwhile, it is refused (ErrCondition, ErrConflict, ErrNoEntry): then read, check that the
// change still makes sense, and publish again. After ErrIndeterminate value may have been published, and
// overwritten since: what is there now may be it, or include it. If a reply was lost, a service may mistake
// another's write of the same value for this one. So a value in which each write counts needs a unique part,
// such as counted.By in naming.go.
func Publish(ctx context.Context, s *backend.Session, was backend.Entry, value []byte) (backend.Entry, error) {
	for doubt := false; ; doubt = true {
		now, err := write(ctx, s, was, value)
		switch {
		case again(ctx, err):
			continue
		case doubt && refused(err): // by our own write, or another's: with the same value they look alike
			return now, fmt.Errorf("%s was written over: %w", was.Key, backend.ErrIndeterminate)
		}
		return now, err
	}
}

// Subscribe calls apply with the published value, and then with each newer value that it sees, until ctx
// ends. If a session is lost, it continues in a new one: late, but never back to an older value. A zero Rev
// means that the entry has been deleted. apply should keep its last value if the new one is nonsense: anybody
// may have written it.
//
// While the link is down, Subscribe hears of no newer values, so its last value may be outdated. To be sure,
// read, or put IfUnchanged(e) into the commit that relies on it.
func Subscribe(ctx context.Context, b backend.Backend, key string, apply func(e backend.Entry)) error {
	for last := backend.Unknown(key); ; {
		s, err := b.Open(ctx, backend.OpenOptions{})
		if err == nil {
			// A new session may begin behind what the last one has shown.
			for err = s.CatchUp(ctx, key); err == nil; {
				var now []backend.Entry
				if now, err = s.Await(ctx, last); err == nil {
					last = now[0]
					apply(last)
				}
			}
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			_ = s.Close(closing) // it holds nothing
			cancel()
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !errors.Is(err, backend.ErrSessionLost) && !errors.Is(err, backend.ErrUnavailable) {
			return err
		}
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}
