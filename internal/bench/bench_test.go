package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/crowd"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/unfair"
)

// BenchmarkHandover measures handovers on memory in the format that benchstat reads, and counts their
// allocations. Use -benchtime 200x or so: the default of a second ends after a few.
func BenchmarkHandover(b *testing.B) {
	for _, s := range []strategy.Strategy{fair.Strategy{}, unfair.Strategy{}} {
		for _, n := range []int{3, 50, 500, 5000} {
			b.Run(fmt.Sprintf("%s/N=%d", s.Name(), n), func(b *testing.B) {
				service := memory.New(memory.Options{})
				f, err := newField(b.Context(), n, s, "/bench", func() (seat, error) { return seat{service, func() {}}, nil })
				require.NoError(b, err)
				defer func() { require.NoError(b, f.close()) }()
				_, err = f.enrol(n)
				require.NoError(b, err)
				var sum time.Duration
				var delays []time.Duration
				for b.Loop() {
					require.NoError(b, f.idle(0))
					d, err := f.handover()
					require.NoError(b, err)
					require.NoError(b, f.reenter())
					sum += d
					delays = append(delays, d)
				}
				d := crowd.QuantilesOf(delays)
				b.ReportMetric(float64(sum)/float64(len(delays)), "ns/op")
				b.ReportMetric(float64(d.P50), "p50-ns")
				b.ReportMetric(float64(d.P99), "p99-ns")
				b.ReportAllocs() // shows the two metrics below, which cover the handover alone
				m := &match{field: f, l: &lab{cfg: config{samples: 20, idle: 5 * time.Millisecond}, service: silent{}}}
				c, err := m.count(bout{before: nothing, do: f.handover, after: f.reenter})
				require.NoError(b, err)
				b.ReportMetric(c.allocations, "allocs/op")
				b.ReportMetric(c.bytes, "B/op")
			})
		}
	}
}

// silent is a service that counts no messages.
type silent struct{ service }

func (silent) sent() (s sent)         { return s }
func (silent) messages() (int, error) { return 0, nil }
