package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elector-go/elector"
)

// The write of a leader that sleeps through the end of its term fails.
func TestLateWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late error
		service := takeover(t, func(ctx context.Context, term *elector.Term) error {
			time.Sleep(15 * time.Second) // without a look at ctx
			_, late = term.Commit(ctx, elector.Put(cursor, []byte("late")))
			return late
		}, numbered)
		if !errors.Is(late, elector.ErrDeposed) {
			t.Errorf("late write: %v, want ErrDeposed", late)
		}
		if got := string(service.Entry(cursor).Value); got == "late" || got == "" {
			t.Errorf("cursor: %q, want ben's", got)
		}
	})
}
