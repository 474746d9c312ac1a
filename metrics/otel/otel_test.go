package electorotel_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/internal/measure"
	"github.com/elector-go/elector/internal/must"
	electorotel "github.com/elector-go/elector/metrics/otel"
	"github.com/elector-go/elector/strategy/fair"
)

// A fixture is an elector on the memory service whose telemetry is kept.
type fixture struct {
	elector.Elector
	service   *memory.Service
	client    *memory.Client
	telemetry *electorotel.Telemetry
	reader    *sdkmetric.ManualReader
	spans     *tracetest.SpanRecorder
	tracer    *sdktrace.TracerProvider
}

func start(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{service: memory.New(memory.Options{}), reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	f.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(f.spans))
	var err error
	f.telemetry, err = electorotel.New(electorotel.Options{
		Election: "/e", Attributes: []attribute.KeyValue{attribute.String("zone", "east")},
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(f.reader)), TracerProvider: f.tracer,
	})
	require.NoError(t, err)
	f.client = f.service.Client("a")
	f.Elector, err = elector.New(elector.Config{
		Backend: f.client, Strategy: fair.Strategy{}, Election: "/e", ID: "host-1", Hooks: f.telemetry.Hooks(),
	})
	require.NoError(t, err)
	f.telemetry.Follow(f)
	t.Cleanup(func() { assert.NoError(t, f.Close(context.Background())) })
	return f
}

// read returns what a reader collects, by name.
func (f *fixture) read(t *testing.T) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, f.reader.Collect(t.Context(), &all))
	byName := make(map[string]metricdata.Metrics)
	for _, scope := range all.ScopeMetrics {
		assert.Equal(t, electorotel.Scope, scope.Scope.Name)
		for _, m := range scope.Metrics {
			byName[m.Name] = m
		}
	}
	return byName
}

// A point is one of a metric's series.
type point struct {
	attributes attribute.Set
	value      float64
}

func points(t *testing.T, m metricdata.Metrics) (all []point) {
	t.Helper()
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			all = append(all, point{p.Attributes, float64(p.Value)})
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			all = append(all, point{p.Attributes, p.Value})
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			all = append(all, point{p.Attributes, float64(p.Count)})
		}
	default:
		t.Errorf("%s is a %T", m.Name, data)
	}
	return all
}

// value returns the value of the series with a label, "" for a metric without labels.
func value(t *testing.T, metrics map[string]metricdata.Metrics, m *measure.Metric, label string) float64 {
	t.Helper()
	for _, p := range points(t, metrics[m.Name]) {
		if v, ok := p.attributes.Value(attribute.Key("elector." + m.Label)); m.Label == "" || ok && v.AsString() == label {
			return p.value
		}
	}
	t.Errorf("%s: no %q", m.Name, label)
	return -1
}

// spansOf returns the ended spans of an operation.
func (f *fixture) spansOf(operation string) (all []sdktrace.ReadOnlySpan) {
	for _, s := range f.spans.Ended() {
		if s.Name() == operation+" /e" {
			all = append(all, s)
		}
	}
	return all
}

func attributes(s sdktrace.ReadOnlySpan) *attribute.Set {
	set := attribute.NewSet(s.Attributes()...)
	return &set
}

func text(s sdktrace.ReadOnlySpan, key attribute.Key) string {
	v, _ := attributes(s).Value(key)
	return v.AsString()
}

// Metrics have the name, unit, kind and attributes of their definition, and no others.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t)
		term := must.Get(f.Campaign(t.Context()))(t)
		must.Get(term.Commit(t.Context(), elector.Put("/secret", []byte("secret"))))(t)
		require.ErrorIs(t, must.Err(term.Commit(t.Context(), elector.Create("/secret", nil))), elector.ErrConflict)
		synctest.Wait()

		metrics := f.read(t)
		defined := make(map[string]*measure.Metric)
		for _, m := range measure.All {
			defined[m.Name] = m
			if m.Kind == measure.State || m.Kind == measure.Gauge {
				assert.Contains(t, metrics, m.Name, "while it leads all gauges are there")
			}
		}
		for name, got := range metrics {
			m := defined[name]
			require.NotNil(t, m, name)
			assert.Equal(t, m.Unit, got.Unit, name)
			assert.Equal(t, m.Help, got.Description, name)
			switch data := got.Data.(type) {
			case metricdata.Sum[int64]:
				assert.Equal(t, m.Kind == measure.Counter, data.IsMonotonic, name)
				assert.Contains(t, []measure.Kind{measure.Counter, measure.State}, m.Kind, name)
			case metricdata.Gauge[float64]:
				assert.Equal(t, measure.Gauge, m.Kind, name)
			case metricdata.Histogram[float64]:
				assert.Equal(t, measure.Histogram, m.Kind, name)
				assert.Equal(t, m.Buckets, data.DataPoints[0].Bounds, name)
			}
			for _, p := range points(t, got) {
				want := map[attribute.Key]string{"elector.election": "/e", "zone": "east"}
				for _, kv := range p.attributes.ToSlice() {
					if kv.Key == attribute.Key("elector."+m.Label) {
						assert.Contains(t, m.Values, kv.Value.AsString(), name)
						continue
					}
					assert.Equal(t, want[kv.Key], kv.Value.AsString(), name)
					delete(want, kv.Key)
				}
				assert.Empty(t, want, name)
			}
		}
		assert.Equal(t, 1.0, value(t, metrics, measure.IsLeader, ""))
		assert.Equal(t, 1.0, value(t, metrics, measure.RoleState, "leading"))
		assert.Equal(t, 0.0, value(t, metrics, measure.RoleState, "idle"))
		assert.Equal(t, 1.0, value(t, metrics, measure.Terms, ""))
		assert.Equal(t, 1.0, value(t, metrics, measure.CommitDuration, "ok"))
		assert.Equal(t, 1.0, value(t, metrics, measure.CommitDuration, "conflict"))
		assert.Equal(t, 1.0, value(t, metrics, measure.CampaignDuration, measure.Elected))

		require.NoError(t, f.telemetry.Close())
		metrics = f.read(t)
		assert.NotContains(t, metrics, measure.IsLeader.Name)
		assert.Contains(t, metrics, measure.Terms.Name)
	})
}

// A campaign belongs to its caller's trace, a term is a separate trace that is linked to the campaign, and
// a commit belongs to its caller's trace and is linked to the term.
func TestSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t)
		ctx, caller := f.tracer.Tracer("test").Start(t.Context(), "caller")
		f.service.Stop()
		time.AfterFunc(20*time.Millisecond, f.service.Start)
		term := must.Get(f.Campaign(ctx))(t)
		require.Len(t, f.spansOf("campaign"), 1)
		campaign := f.spansOf("campaign")[0]
		assert.Equal(t, caller.SpanContext().SpanID(), campaign.Parent().SpanID())
		assert.Equal(t, "elected", text(campaign, "elector.outcome"))
		assert.Equal(t, "east", text(campaign, "zone"))
		v, _ := attributes(campaign).Value("elector.token")
		assert.Equal(t, int64(term.Token()), v.AsInt64())
		assert.Equal(t, codes.Unset, campaign.Status().Code)
		require.NotEmpty(t, campaign.Events(), "of the tries that failed")
		assert.Equal(t, "exception", campaign.Events()[0].Name)
		assert.Contains(t, campaign.Events()[0].Attributes, attribute.String("elector.reason", "unavailable"))
		assert.GreaterOrEqual(t, campaign.EndTime().Sub(campaign.StartTime()), 20*time.Millisecond)

		work, job := f.tracer.Tracer("test").Start(t.Context(), "job")
		link := f.telemetry.TermLink(term)
		assert.True(t, link.SpanContext.IsValid())
		must.Get(term.Commit(work, elector.Put("/k", nil), elector.Put("/l", nil)))(t)
		require.Len(t, f.spansOf("commit"), 1)
		commit := f.spansOf("commit")[0]
		assert.Equal(t, job.SpanContext().SpanID(), commit.Parent().SpanID())
		require.Len(t, commit.Links(), 1)
		assert.Equal(t, link.SpanContext, commit.Links()[0].SpanContext)
		assert.Equal(t, "ok", text(commit, "elector.outcome"))
		v, _ = attributes(commit).Value("elector.ops")
		assert.Equal(t, int64(2), v.AsInt64())
		assert.Equal(t, codes.Unset, commit.Status().Code)

		must.Get(election.Ask(t.Context(), f.service, fair.Strategy{}, "/e", election.Request{}))(t)
		<-term.Asked()
		synctest.Wait()
		f.client.Suspend()
		time.Sleep(time.Minute)
		require.Len(t, f.spansOf("term"), 1)
		tenure := f.spansOf("term")[0]
		assert.Equal(t, link.SpanContext, tenure.SpanContext())
		assert.False(t, tenure.Parent().IsValid())
		assert.NotEqual(t, campaign.SpanContext().TraceID(), tenure.SpanContext().TraceID())
		require.Len(t, tenure.Links(), 1)
		assert.Equal(t, campaign.SpanContext(), tenure.Links()[0].SpanContext)
		assert.Equal(t, "session_lost", text(tenure, "elector.cause"))
		assert.Equal(t, "session_lost", text(tenure, "error.type"))
		assert.Equal(t, codes.Error, tenure.Status().Code)
		var events []string
		for _, event := range tenure.Events() {
			events = append(events, event.Name)
		}
		assert.Subset(t, events, []string{"elector.asked", "elector.session.suspended"})

		require.ErrorIs(t, must.Err(term.Commit(work, elector.Put("/k", nil))), elector.ErrDeposed)
		late := f.spansOf("commit")[1]
		assert.Equal(t, codes.Error, late.Status().Code)
		assert.Equal(t, "deposed", text(late, "error.type"))
		f.client.Resume()

		next := must.Get(f.Campaign(t.Context()))(t)
		assert.False(t, f.telemetry.TermLink(term).SpanContext.IsValid(), "it is not the latest any more")
		require.ErrorIs(t, must.Err(term.Commit(work, elector.Put("/k", nil))), elector.ErrDeposed)
		assert.Empty(t, f.spansOf("commit")[2].Links())
		require.NoError(t, next.Resign(t.Context()))
		synctest.Wait()
		assert.Equal(t, codes.Unset, f.spansOf("term")[1].Status().Code)
		assert.Equal(t, "resigned", text(f.spansOf("term")[1], "elector.cause"))
	})
}

// A campaign that its caller ends has not failed, and a campaign that is refused has.
func TestSpansOfCampaignsThatAreNotWon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t)
		f.service.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, must.Err(f.Campaign(ctx)))
		require.Len(t, f.spansOf("campaign"), 1)
		assert.Equal(t, "cancelled", text(f.spansOf("campaign")[0], "elector.outcome"))
		assert.Equal(t, codes.Unset, f.spansOf("campaign")[0].Status().Code)
		f.service.Start()

		founder := must.Get(f.service.Client("b").Open(t.Context(), backend.OpenOptions{}))(t)
		defer founder.Close(context.Background())
		must.Get(founder.Commit(t.Context(), nil, backend.CompareAndSet("/e", []byte("something else"), 0)))(t)
		require.ErrorIs(t, must.Err(f.Campaign(t.Context())), elector.ErrStrategyMismatch)
		refused := f.spansOf("campaign")[1]
		assert.Equal(t, "failed", text(refused, "elector.outcome"))
		assert.Equal(t, "strategy_mismatch", text(refused, "error.type"))
		assert.Equal(t, codes.Error, refused.Status().Code)
	})
}

// The package compiles only OpenTelemetry's API into a program, and no SDK.
func TestImports(t *testing.T) {
	out := must.Get(exec.Command("go", "list", "-deps", ".").Output())(t)
	assert.Contains(t, string(out), "go.opentelemetry.io/otel/metric")
	for path := range strings.FieldsSeq(string(out)) {
		assert.NotContains(t, path, "go.opentelemetry.io/otel/sdk")
		assert.NotContains(t, path, "prometheus")
	}
}
