package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

const cursor = "/jobs/report-cursor" // beside the election, not below it

// numbered is work with a memory: a new leader continues where the last one stopped.
func numbered(ctx context.Context, t *elector.Term) error {
	number := 0
	// This read returns all that earlier leaders have committed.
	last, err := t.Get(ctx, cursor)
	switch {
	case err == nil:
		_, err = fmt.Sscan(string(last.Value), &number)
	case errors.Is(err, backend.ErrNoEntry):
		err = nil // nobody has written yet
	}
	for err == nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
		number++
		// With the token in it, no two leaders write the same value.
		value := fmt.Appendf(nil, "%d by %d", number, t.Token())
		write := elector.CompareAndSet(cursor, value, last.Version)
		if !last.Exists() {
			write = elector.Create(cursor, value)
		}
		var made []backend.Entry
		if made, err = t.Commit(ctx, write); err == nil {
			last = made[0]
			slog.Info("report written", "number", number, "token", t.Token())
		}
	}
	return err // Lead resigns, campaigns again, and the next leader reads first
}
