// Package electorprom exposes the metrics of an elector to Prometheus.
//
//	m := electorprom.New(electorprom.Options{Election: cfg.Election})
//	cfg.Hooks = cfg.Hooks.Join(m.Hooks())
//	e, err := elector.New(cfg)
//	…
//	m.Follow(e)
//	registry.MustRegister(m) // a prometheus.Registry of your own, or prometheus.DefaultRegisterer
//
// Counters and histograms come from the elector's hooks, and gauges from its Status at each scrape. There
// is no goroutine, and nothing to close. docs/observability.md lists the metrics. alerts.yml and
// dashboard.json beside this package are alert rules for Prometheus and a dashboard for Grafana.
//
// Labels have few values, all known in advance: no ID, no value, no error text.
package electorprom

import (
	"context"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/internal/measure"
)

// Options say which labels all metrics have.
type Options struct {
	// Election is the value of the label "election". It must differ between electors of several elections
	// in one registry.
	Election string
	// Labels are further labels, the same for all metrics of this process, such as the candidate's ID. A
	// label that a metric already has, such as "outcome", makes Register fail.
	Labels prometheus.Labels
}

// Metrics are the metrics of one elector: a prometheus.Collector. Its methods may be called from any
// goroutine.
type Metrics struct {
	observer   *measure.Observer
	counters   map[*measure.Metric]*prometheus.CounterVec
	histograms map[*measure.Metric]*prometheus.HistogramVec
	gauges     map[*measure.Metric]*prometheus.Desc
}

// New makes the metrics of one elector, in no registry. Register reports errors in the labels.
func New(o Options) *Metrics {
	m := &Metrics{
		counters:   make(map[*measure.Metric]*prometheus.CounterVec),
		histograms: make(map[*measure.Metric]*prometheus.HistogramVec),
		gauges:     make(map[*measure.Metric]*prometheus.Desc),
	}
	m.observer = measure.New(sink{m})
	constant := prometheus.Labels{}
	maps.Copy(constant, o.Labels)
	constant["election"] = o.Election
	for _, metric := range measure.All {
		name, labels := metric.PrometheusName(), labels(metric, metric.Label)
		switch metric.Kind {
		case measure.Counter:
			vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: metric.Help, ConstLabels: constant}, labels)
			m.counters[metric] = vec
			if metric.Label == "" {
				vec.WithLabelValues()
			}
			for _, value := range metric.Values { // rate() needs a 0 before the first event
				vec.WithLabelValues(value)
			}
		case measure.Histogram:
			m.histograms[metric] = prometheus.NewHistogramVec(prometheus.HistogramOpts{
				Name: name, Help: metric.Help, ConstLabels: constant, Buckets: metric.Buckets,
			}, labels)
		default:
			m.gauges[metric] = prometheus.NewDesc(name, metric.Help, labels, constant)
		}
	}
	m.histograms[measure.CampaignDuration].WithLabelValues(measure.Elected)
	m.histograms[measure.CommitDuration].WithLabelValues(measure.OK)
	return m
}

// Hooks returns hooks that must be among those of the elector: see elector.Hooks.Join.
func (m *Metrics) Hooks() elector.Hooks { return m.observer.Hooks() }

// Follow sets the elector that was made with Hooks. Until then there are no gauges.
func (m *Metrics) Follow(e elector.Elector) { m.observer.Follow(e) }

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(to)
	}
	for _, desc := range m.gauges {
		to <- desc
	}
}

// Collect implements prometheus.Collector. It sends no requests, and does not block.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(to)
	}
	m.observer.Read(func(metric *measure.Metric, label string, value float64) {
		gauge, err := prometheus.NewConstMetric(m.gauges[metric], prometheus.GaugeValue, value, labels(metric, label)...)
		if err != nil {
			gauge = prometheus.NewInvalidMetric(m.gauges[metric], err)
		}
		to <- gauge
	})
}

func (m *Metrics) collectors() (all []prometheus.Collector) {
	for _, c := range m.counters {
		all = append(all, c)
	}
	for _, h := range m.histograms {
		all = append(all, h)
	}
	return all
}

// labels returns the value of a metric's only label, or nothing if it has no label.
func labels(metric *measure.Metric, of string) []string {
	if metric.Label == "" {
		return nil
	}
	return []string{of}
}

// sink receives the observer's counts.
type sink struct{ m *Metrics }

func (s sink) Add(metric *measure.Metric, label string) {
	s.m.counters[metric].WithLabelValues(labels(metric, label)...).Inc()
}

func (s sink) Record(_ context.Context, metric *measure.Metric, label string, took time.Duration) {
	s.m.histograms[metric].WithLabelValues(label).Observe(took.Seconds())
}
