package main

import (
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/unfair"
)

// Handovers in the form that benchstat reads, with what they allocate. On a real server each
// operation is preceded by idle time: ns/op is the mean of what is measured, and
// leaves that time out. Give -benchtime 200x or so, for the default of a second
// is over after a few operations.

const benchIdle = 100 * time.Millisecond

func BenchmarkHandover(b *testing.B) {
	for _, s := range []elector.Strategy{fair.New(), unfair.New()} {
		b.Run(s.Name(), func(b *testing.B) {
			b.Run("memory", func(b *testing.B) {
				for _, n := range []int{3, 50, 500, 5000} {
					b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
						service := memory.New(memory.Options{})
						benchHandover(b, s, n, "/bench", 0, nil, func() (seat, error) { return seat{service, func() {}}, nil })
					})
				}
			})
			onEach(b, func(b *testing.B, l *lab) {
				for _, n := range []int{3, 50, 500} {
					b.Run(fmt.Sprintf("N=%d", n), func(b *testing.B) {
						path := fmt.Sprintf("/bench/%s-%d", s.Name(), n)
						benchHandover(b, s, n, path, benchIdle, l, l.opener())
					})
				}
			})
		})
	}
}

// benchHandover measures handovers, counts what they allocate, until all is still again,
// and on a real server the messages.
func benchHandover(b *testing.B, s elector.Strategy, n int, path string, idle time.Duration, l *lab, open func() (seat, error)) {
	f, err := newField(b.Context(), n, s, path, open)
	require.NoError(b, err)
	defer func() { require.NoError(b, f.close()) }()
	_, err = f.enrol(n)
	require.NoError(b, err)
	var delays []time.Duration
	for b.Loop() {
		require.NoError(b, f.idle(idle))
		d, old, err := f.handover()
		require.NoError(b, err)
		f.enter(old)
		delays = append(delays, d)
	}
	report(b, delays)
	b.ReportAllocs() // shows the two below, which are of the handover alone
	allocs, bytes, err := countAllocs(f, idle)
	require.NoError(b, err)
	b.ReportMetric(allocs, "allocs/op")
	b.ReportMetric(bytes, "B/op")
	if l != nil {
		handover, _, err := l.countMessages(f)
		require.NoError(b, err)
		b.ReportMetric(handover, "messages/op")
	}
}

// countAllocs returns the allocations per handover, of all candidates, and their bytes.
func countAllocs(f *field, idle time.Duration) (allocs, bytes float64, err error) {
	const cycles = 20
	var before, after runtime.MemStats
	for range cycles {
		if err := f.idle(idle); err != nil {
			return 0, 0, err
		}
		runtime.ReadMemStats(&before)
		_, old, err := f.handover()
		if err != nil {
			return 0, 0, err
		}
		if err := f.idle(max(idle, 5*time.Millisecond)); err != nil {
			return 0, 0, err
		}
		runtime.ReadMemStats(&after)
		f.enter(old)
		allocs += float64(after.Mallocs-before.Mallocs) / cycles
		bytes += float64(after.TotalAlloc-before.TotalAlloc) / cycles
	}
	return allocs, bytes, nil
}

func report(b *testing.B, delays []time.Duration) {
	d := summarize(delays)
	b.ReportMetric(float64(d.Mean), "ns/op")
	b.ReportMetric(float64(d.P50), "p50-ns")
	b.ReportMetric(float64(d.P99), "p99-ns")
}

// onEach runs a benchmark on each service.
func onEach(b *testing.B, run func(b *testing.B, l *lab)) {
	cfg, err := parse([]string{"-samples", "50", "-ttl", "30s"}, io.Discard)
	require.NoError(b, err)
	for _, k := range kinds {
		b.Run(k.name, func(b *testing.B) {
			l, err := onService(b.Context(), cfg, k, io.Discard)
			require.NoError(b, err)
			defer func() { require.NoError(b, l.service.Close()) }()
			run(b, l)
		})
	}
}
