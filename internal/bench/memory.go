package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy/fair"
)

// memoryPart measures the cost of N waiting candidates on the memory backend.
func memoryPart(ctx context.Context, l *lab) (section, error) {
	t := table{
		About: "One leader and N others that enter all at once and then wait, each an Elector and a blocked Campaign. Heap, stacks and goroutines are the difference to before, per waiting candidate, after a garbage collection; the goroutine that called Campaign counts.",
		Head:  []string{"N", "sessions", "all in", "per candidate", "heap", "stacks", "goroutines"},
	}
	for _, sessions := range []string{"one each", "one shared"} {
		for _, n := range l.cfg.memoryN {
			l.say("memory: N = %d, %s", n, sessions)
			enrol, each, err := memoryAt(ctx, n, sessions == "one shared")
			if err != nil {
				return section{}, fmt.Errorf("with N = %d: %w", n, err)
			}
			t.add(n, sessions, enrol, figure{"%.1f µs", float64(enrol) / 1e3 / float64(n)}, figure{"%.0f B", each.heap}, figure{"%.0f B", each.stack}, each.routines)
		}
	}
	return section{"Waiting candidates on memory, fair", []table{t}}, nil
}

// memoryAt enrols a leader and n others, and measures what is kept for each.
func memoryAt(ctx context.Context, n int, shared bool) (enrol time.Duration, each stock, err error) {
	before := takeStock()
	var b backend.Backend = memory.New(memory.Options{})
	if shared {
		b = backend.Share(b, 0)
	}
	f, err := newField(ctx, n+1, fair.Strategy{}, "/bench", func() (seat, error) { return seat{b, func() {}}, nil })
	if err != nil {
		return 0, each, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if enrol, err = f.enrol(n); err != nil {
		return 0, each, err
	}
	// The last ones have reported that they begin to wait; wait until they do.
	if err := f.idle(100 * time.Millisecond); err != nil {
		return 0, each, err
	}
	after := takeStock()
	per := func(a, b float64) float64 { return (a - b) / float64(n) }
	return enrol, stock{per(after.heap, before.heap), per(after.stack, before.stack), per(after.routines, before.routines)}, nil
}

type stock struct{ heap, stack, routines float64 }

// takeStock measures what is kept after some garbage collections: finalizers and pools need a second one,
// and each one halves a stack that is too large, down from the 32 KB that a gRPC call may take.
func takeStock() stock {
	for range 5 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return stock{float64(m.HeapAlloc), float64(m.StackInuse), float64(runtime.NumGoroutine())}
}
