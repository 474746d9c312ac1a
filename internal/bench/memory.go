package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy/fair"
)

// memoryRow is what N waiting candidates cost on the memory backend.
type memoryRow struct {
	N        int           `json:"n"`
	Shared   bool          `json:"shared_session"`
	Enrol    time.Duration `json:"enrol_ns"`
	Heap     float64       `json:"heap_bytes_per_candidate"`
	Stack    float64       `json:"stack_bytes_per_candidate"`
	Routines float64       `json:"goroutines_per_candidate"`
}

type memoryResult struct {
	Rows []memoryRow `json:"rows"`
}

func memoryPart(ctx context.Context, l *lab) (section, error) {
	var result memoryResult
	for _, shared := range []bool{false, true} {
		for _, n := range l.cfg.memoryN {
			l.say("memory: N = %d, one shared session: %v", n, shared)
			row, err := memoryAt(ctx, n, shared)
			if err != nil {
				return nil, fmt.Errorf("with N = %d: %w", n, err)
			}
			result.Rows = append(result.Rows, row)
		}
	}
	return result, nil
}

// memoryAt enrols a leader and n others, and looks at what is kept.
func memoryAt(ctx context.Context, n int, shared bool) (row memoryRow, err error) {
	row = memoryRow{N: n, Shared: shared}
	before := takeStock()
	var b backend.Backend = memory.New(memory.Options{})
	if shared {
		b = backend.Share(b, 0)
	}
	f, err := newField(ctx, n+1, fair.New(), "/bench", func() (seat, error) { return seat{backend: b}, nil })
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if row.Enrol, err = f.enrol(n); err != nil {
		return row, err
	}
	// The last ones have said that they begin to wait; let them.
	if err := f.idle(100 * time.Millisecond); err != nil {
		return row, err
	}
	after := takeStock()
	per := func(a, b uint64) float64 { return (float64(a) - float64(b)) / float64(n) }
	row.Heap = per(after.heap, before.heap)
	row.Stack = per(after.stack, before.stack)
	row.Routines = per(after.routines, before.routines)
	return row, nil
}

type stock struct{ heap, stack, routines uint64 }

// takeStock returns what is kept after some garbage collections: finalizers, and what
// pools hold, need a second one, and each makes a stack that is too large half as large,
// down from the 32 KB that a call of gRPC's may take.
func takeStock() stock {
	for range 5 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return stock{heap: m.HeapAlloc, stack: m.StackInuse, routines: uint64(runtime.NumGoroutine())}
}

func (r memoryResult) markdown(w io.Writer) {
	fmt.Fprintf(w, "## Waiting candidates on memory, fair\n\n")
	fmt.Fprintf(w, "One leader and N others that enter all at once and then wait, each an Elector and a blocked Campaign. Heap, stacks and goroutines are the difference to before, per waiting candidate, after a garbage collection; the goroutine that called Campaign counts.\n\n")
	rows := [][]string{{"N", "sessions", "all in", "per candidate", "heap", "stacks", "goroutines"}}
	for _, row := range r.Rows {
		sessions := "one each"
		if row.Shared {
			sessions = "one shared"
		}
		rows = append(rows, []string{
			fmt.Sprint(row.N), sessions, ms(row.Enrol), fmt.Sprintf("%.1f µs", float64(row.Enrol)/1e3/float64(row.N)),
			fmt.Sprintf("%.0f B", row.Heap), fmt.Sprintf("%.0f B", row.Stack), fmt.Sprintf("%.2f", row.Routines),
		})
	}
	fmt.Fprintln(w, table(rows...))
}
