// Package electorotel reports to OpenTelemetry what an elector does: metrics, and spans of its campaigns,
// terms and commits. It uses only OpenTelemetry's API; the program chooses the SDK and the exporters.
//
//	telemetry, err := electorotel.New(electorotel.Options{Election: cfg.Election})
//	…
//	cfg.Hooks = cfg.Hooks.Join(telemetry.Hooks())
//	e, err := elector.New(cfg)
//	…
//	telemetry.Follow(e)
//	defer telemetry.Close()
//
// # Metrics
//
// The metrics are those of docs/observability.md, with dots: "elector.commit.duration" in seconds is
// elector_commit_duration_seconds there. Attributes have few values, all known in advance.
//
// # Spans
//
// A campaign's span is a child of the span in the ctx of Campaign, and lasts until Campaign returns. Each
// failed try is an event in it.
//
// A term's span begins a trace of its own, with a link to the campaign's span. A term may last for weeks:
// as a child, it would keep the caller's trace open as long, and its work would be one endless trace,
// which no backend can show or sample. Exporters get a span when it has ended; until then, the campaign's
// span shows the term, with its outcome and token.
//
// A commit's span is a child of the span in the ctx of Commit, which caused the write, with a link to the
// term's span. For spans of your own, use TermLink. A commit's span is made when the commit has ended:
// spans of the service's client are its siblings.
package electorotel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/internal/measure"
)

// Scope is the name of the instrumentation.
const Scope = "github.com/elector-go/elector/metrics/otel"

// Options say where telemetry goes, and which attributes it has.
type Options struct {
	// Election is the attribute "elector.election" of all metrics and spans. It must differ between
	// electors of several elections in one process.
	Election string
	// Attributes are further attributes of all metrics and spans. Each of their values makes a separate
	// series.
	Attributes []attribute.KeyValue
	// MeterProvider and TracerProvider default to OpenTelemetry's global ones.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
}

// Telemetry reports on one elector. Its methods may be called from any goroutine.
type Telemetry struct {
	observer     *measure.Observer
	spans        *spans
	common       []attribute.KeyValue
	counters     map[*measure.Metric]metric.Int64Counter
	histograms   map[*measure.Metric]metric.Float64Histogram
	registration metric.Registration
}

// New makes the instruments of one elector. An error comes from the provider.
func New(o Options) (*Telemetry, error) {
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	common := append(slices.Clone(o.Attributes), attribute.String("elector.election", o.Election))
	t := &Telemetry{
		spans:      newSpans(o.TracerProvider.Tracer(Scope), o.Election, common),
		common:     common,
		counters:   make(map[*measure.Metric]metric.Int64Counter),
		histograms: make(map[*measure.Metric]metric.Float64Histogram),
	}
	t.observer = measure.New(sink{t})
	if err := t.instrument(o.MeterProvider.Meter(Scope)); err != nil {
		return nil, fmt.Errorf("electorotel: %w", err)
	}
	return t, nil
}

func (t *Telemetry) instrument(meter metric.Meter) error {
	states := make(map[*measure.Metric]metric.Int64ObservableUpDownCounter)
	gauges := make(map[*measure.Metric]metric.Float64ObservableGauge)
	var observables []metric.Observable
	var errs []error
	for _, m := range measure.All {
		unit, help := metric.WithUnit(m.Unit), metric.WithDescription(m.Help)
		var err error
		switch m.Kind {
		case measure.Counter:
			t.counters[m], err = meter.Int64Counter(m.Name, unit, help)
		case measure.Histogram:
			t.histograms[m], err = meter.Float64Histogram(m.Name, unit, help, metric.WithExplicitBucketBoundaries(m.Buckets...))
		case measure.State:
			states[m], err = meter.Int64ObservableUpDownCounter(m.Name, unit, help)
			observables = append(observables, states[m])
		case measure.Gauge:
			gauges[m], err = meter.Float64ObservableGauge(m.Name, unit, help)
			observables = append(observables, gauges[m])
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	var err error
	t.registration, err = meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		t.observer.Read(func(m *measure.Metric, label string, value float64) {
			if m.Kind == measure.State {
				to.ObserveInt64(states[m], int64(value), t.with(m, label))
				return
			}
			to.ObserveFloat64(gauges[m], value, t.with(m, label))
		})
		return nil
	}, observables...)
	return err
}

// with returns the attributes of a measurement.
func (t *Telemetry) with(m *measure.Metric, label string) metric.MeasurementOption {
	if m.Label == "" {
		return metric.WithAttributes(t.common...)
	}
	return metric.WithAttributes(append(slices.Clone(t.common), attribute.String("elector."+m.Label, label))...)
}

// Hooks returns hooks that must be among those of the elector: see elector.Hooks.Join.
func (t *Telemetry) Hooks() elector.Hooks { return t.observer.Hooks().Join(t.spans.hooks()) }

// Follow sets the elector that was made with Hooks. Until then there are no gauges.
func (t *Telemetry) Follow(e elector.Elector) { t.observer.Follow(e) }

// TermLink returns a link to the span of a term, for spans of the leader's work. It is the zero Link
// except for the latest term.
func (t *Telemetry) TermLink(term *elector.Term) trace.Link { return t.spans.link(term) }

// Close ends the gauges, so that the meter's provider no longer holds the elector. The hooks continue to
// report. It does not block.
func (t *Telemetry) Close() error { return t.registration.Unregister() }

// sink receives the observer's counts.
type sink struct{ t *Telemetry }

func (s sink) Add(m *measure.Metric, label string) {
	s.t.counters[m].Add(context.Background(), 1, s.t.with(m, label))
}

func (s sink) Record(ctx context.Context, m *measure.Metric, label string, took time.Duration) {
	s.t.histograms[m].Record(ctx, took.Seconds(), s.t.with(m, label))
}
