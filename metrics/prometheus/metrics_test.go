package electorprom_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/measure"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
	electorprom "github.com/elector-go/elector/metrics/prometheus"
	"github.com/elector-go/elector/strategy/fair"
)

// instrumented makes an elector whose metrics are in a registry of its own.
func instrumented(t *testing.T, b backend.Backend, id string, labels prometheus.Labels) (elector.Elector, *prometheus.Registry) {
	t.Helper()
	m := electorprom.New(electorprom.Options{Election: "/jobs/reindex", Labels: labels})
	e := must.Get(elector.New(elector.Config{Backend: b, Strategy: fair.Strategy{}, Election: "/jobs/reindex", ID: id, Hooks: m.Hooks()}))(t)
	m.Follow(e)
	t.Cleanup(func() { assert.NoError(t, e.Close(context.Background())) })
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(m))
	return e, registry
}

// scrape reads a registry as Prometheus does, over HTTP.
func scrape(t *testing.T, registry *prometheus.Registry) (text string, families map[string]*dto.MetricFamily) {
	t.Helper()
	exporter := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	defer exporter.Close()
	response := must.Get(http.Get(exporter.URL))(t)
	defer response.Body.Close()
	body := must.Get(io.ReadAll(response.Body))(t)
	require.Equal(t, http.StatusOK, response.StatusCode, string(body))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families = must.Get(parser.TextToMetricFamilies(strings.NewReader(string(body))))(t)
	return string(body), families
}

// value returns the value of a counter or gauge that has the label, "" for none.
func value(t *testing.T, families map[string]*dto.MetricFamily, name, label string) float64 {
	t.Helper()
	require.Contains(t, families, name)
	for _, m := range families[name].GetMetric() {
		if label == "" || slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetValue() == label }) {
			switch {
			case m.GetCounter() != nil:
				return m.GetCounter().GetValue()
			case m.GetHistogram() != nil:
				return float64(m.GetHistogram().GetSampleCount())
			}
			return m.GetGauge().GetValue()
		}
	}
	t.Fatalf("%s has no label %q", name, label)
	return 0
}

// A scrape of a leader that has written shows its metrics, but no texts of errors.
func TestScrape(t *testing.T) {
	service := memory.New(memory.Options{})
	e, registry := instrumented(t, service.Client("a"), "host-1", prometheus.Labels{"zone": "east"})
	term := must.Get(e.Campaign(t.Context()))(t)
	must.Get(term.Commit(t.Context(), elector.Put("/secret", []byte("secret"))))(t)
	require.ErrorIs(t, must.Err(term.Commit(t.Context(), elector.Create("/secret", nil))), elector.ErrConflict)

	text, families := scrape(t, registry)
	for _, outside := range []string{"host-1", "secret", "version"} {
		assert.NotContains(t, text, outside, "labels are bounded")
	}
	for _, m := range measure.All {
		name := m.PrometheusName()
		require.Contains(t, families, name, "all metrics are there while it leads")
		for _, series := range families[name].GetMetric() {
			labels := make(map[string]string)
			for _, l := range series.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			assert.Equal(t, "/jobs/reindex", labels["election"])
			assert.Equal(t, "east", labels["zone"])
			delete(labels, "election")
			delete(labels, "zone")
			if m.Label != "" {
				assert.Contains(t, m.Values, labels[m.Label], name)
				delete(labels, m.Label)
			}
			assert.Empty(t, labels, name)
		}
	}
	assert.Equal(t, 1.0, value(t, families, "elector_is_leader", ""))
	assert.Equal(t, 1.0, value(t, families, "elector_role", "leading"))
	assert.Equal(t, 0.0, value(t, families, "elector_role", "standing"))
	assert.Equal(t, 1.0, value(t, families, "elector_commit_duration_seconds", "ok"))
	assert.Equal(t, 1.0, value(t, families, "elector_commit_duration_seconds", "conflict"))
	assert.Equal(t, 0.0, value(t, families, "elector_term_ends_total", "deposed"), "it is there before the first")

	require.NoError(t, term.Resign(t.Context()))
	wait.For(t, "the term's end is counted", func() bool {
		_, families := scrape(t, registry)
		return value(t, families, "elector_term_ends_total", "resigned") == 1 && value(t, families, "elector_is_leader", "") == 0
	})
}

// The linters of client_golang and of promtool report nothing.
func TestLint(t *testing.T) {
	service := memory.New(memory.Options{})
	e, registry := instrumented(t, service, "a", nil)
	term := must.Get(e.Campaign(t.Context()))(t)
	must.Get(term.Commit(t.Context(), elector.Put("/k", nil)))(t)

	assert.Empty(t, must.Get(testutil.GatherAndLint(registry))(t))

	text, _ := scrape(t, registry)
	assert.Empty(t, promtool(t, text, "check", "metrics"))
}

// Electors of one process are distinguished by their election; the same metrics twice are refused, as are
// labels that the metrics already have.
func TestRegister(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(electorprom.New(electorprom.Options{Election: "/a"})))
	require.NoError(t, registry.Register(electorprom.New(electorprom.Options{Election: "/b"})))
	err := registry.Register(electorprom.New(electorprom.Options{Election: "/a"}))
	assert.True(t, errors.As(err, new(prometheus.AlreadyRegisteredError)), err)
	assert.NotEmpty(t, must.Get(registry.Gather())(t), "counters are there before Follow")
	for _, label := range []string{"outcome", "role", "", "__name__"} {
		err := prometheus.NewRegistry().Register(electorprom.New(electorprom.Options{Labels: prometheus.Labels{label: "x"}}))
		assert.Error(t, err, label)
	}
}
