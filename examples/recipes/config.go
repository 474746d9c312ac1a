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
// Source: ZooKeeper's "Configuration" (Hunt et al., 2010, 2.4); Curator's NodeCache and SharedValue; consul watch.
//
// Trap: a watch tells that there is something newer, and not each that there was. Of ten values
// published in a row a subscriber may see the last one only. So a value says how things are, whole,
// and not what is to be changed. What must be seen one by one is a queue (queue.go).

// Publish writes value over what was read before, or over Entry{Key: key} where there was nothing.
// Where somebody else has published meanwhile it is refused (ErrCondition, ErrConflict, ErrNoEntry): then
// read, look whether the change still makes sense, and publish again. ErrIndeterminate says that value may
// have been published, and written over since: what is there now may be it, or have it in it.
// Where a reply was lost, a service may take another's write of the same value for this one. So a value in which each
// write counts needs something of its own in it, as counted.By in naming.go.
func Publish(ctx context.Context, s *backend.Session, was backend.Entry, value []byte) (backend.Entry, error) {
	for doubt := false; ; doubt = true {
		now, err := write(ctx, s, was, value)
		switch {
		case again(ctx, err):
			continue
		case doubt && refused(err): // by our own write, or another's: of the same value they look alike
			return now, fmt.Errorf("%s was written over: %w", was.Key, backend.ErrIndeterminate)
		}
		return now, err
	}
}

// Subscribe calls apply with what is published now, and then with each newer value that it sees, until
// ctx ends. It goes on in a new session where one is lost: late, though never back to an older value. The zero
// Rev says that the entry has been deleted. apply keeps what it has where a value is nonsense: anybody
// may have written it.
//
// Out of touch, nobody tells it of newer values, so that what it has may be outdated. To know, read,
// or put IfUnchanged(e) into the commit that relies on it.
func Subscribe(ctx context.Context, b backend.Backend, key string, apply func(e backend.Entry)) error {
	for last := backend.Unknown(key); ; {
		s, err := b.Open(ctx, backend.OpenOptions{})
		if err == nil {
			// A new session may begin behind what the one before has shown.
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
